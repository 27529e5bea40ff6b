"""Operands of PTX instructions as C++ expressions, and the types and spaces instructions name."""

from __future__ import annotations

import re

REGISTER_TYPES = {
    "b8": "uint8_t", "b16": "uint16_t", "b32": "uint32_t", "b64": "uint64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "s8": "int8_t", "s16": "int16_t", "s32": "int32_t", "s64": "int64_t",
    "f32": "float", "f64": "double", "pred": "bool",
}
STATE_SPACES = {
    "": "generic", ".global": "global", ".shared": "shared_cta", ".shared::cta": "shared_cta",
    ".shared::cluster": "shared_cluster",
}
_SPECIAL_REGISTERS = {
    "cluster_ctarank": "simt::context.cluster_rank",
    "cluster_nctarank": "simt::context.cluster_size",
    "globaltimer": "simt::nanoseconds(__LINE__)",
    "laneid": "simt::lane_id()",
    **{f"tid.{i}": f"threadIdx.{i}" for i in "xyz"},
    **{f"ntid.{i}": f"blockDim.{i}" for i in "xyz"},
    **{f"ctaid.{i}": f"blockIdx.{i}" for i in "xyz"},
    **{f"nctaid.{i}": f"gridDim.{i}" for i in "xyz"},
}


def spell_value(text: str) -> str:
    """Return a register or a number; ValueError says what cannot be one."""
    if match := re.fullmatch(r"%(\d+)", text):
        return f"simt_{match[1]}"
    if match := re.fullmatch(r"%%([\w.]+)", text):
        if match[1] not in _SPECIAL_REGISTERS:
            raise ValueError(f"no special register {match[0]}")
        return _SPECIAL_REGISTERS[match[1]]
    if re.fullmatch(r"-?(?:0x[0-9a-fA-F]+|\d+)", text):
        return f"simt::ptx::Immediate{{(long long){text}}}"
    if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
        return f"__uint_as_float(0x{match[1]}u)"
    if re.fullmatch(r"[A-Za-z_]\w*", text):
        return f"simt_reg_{text}"
    raise ValueError(f"no operand {text!r}")


def spell_address(text: str) -> str:
    """Return an address in brackets, with an offset or without."""
    match = re.fullmatch(r"\[ ?(%?\w+) ?(?:\+ ?(\d+) ?)?\]", text)
    if match is None:
        raise ValueError(f"no address {text!r}")
    return f"{spell_value(match[1])} + {match[2]}" if match[2] else spell_value(match[1])


def spell_registers(text: str, count: int) -> str:
    """Return the registers of a vector, or the only one, as C++ arguments."""
    return ", ".join(split_registers(text, count))


def split_registers(text: str, count: int) -> list[str]:
    """Return the registers of a vector, or the only one."""
    names = [text]
    if text.startswith("{"):
        names = [name.strip() for name in text.strip("{}").split(",")]
    if len(names) != count:
        raise ValueError(f"{count} registers expected in {text!r}")
    return list(map(spell_value, names))


def split_operands(text: str) -> list[str]:
    """Return what stands between the commas that are in no brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]
