"""PTX instructions, as inline assembly spells them, turned into C++ calls of shim/ptx.h.

Operand ``%3`` is the C++ variable ``simt_3``, which assembly.py binds; a register that the text
declares is a local variable. An instruction is one row of ``_RULES``: what its dotted name may be,
and the call for its operands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

Rule: TypeAlias = Callable[[re.Match[str], Sequence[str]], str]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TYPES = {
    "b8": "uint8_t", "b16": "uint16_t", "b32": "uint32_t", "b64": "uint64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "s8": "int8_t", "s16": "int16_t", "s32": "int32_t", "s64": "int64_t",
    "f32": "float", "f64": "double", "pred": "bool",
}  # fmt: skip
_SPECIAL_REGISTERS = {
    "cluster_ctarank": "simt::context.cluster_rank",
    "cluster_nctarank": "simt::context.cluster_size",
    "laneid": "simt::lane_id()",
    **{f"tid.{i}": f"threadIdx.{i}" for i in "xyz"},
    **{f"ntid.{i}": f"blockDim.{i}" for i in "xyz"},
    **{f"ctaid.{i}": f"blockIdx.{i}" for i in "xyz"},
    **{f"nctaid.{i}": f"gridDim.{i}" for i in "xyz"},
}
_SPACES = {
    "": "generic", ".global": "global", ".shared": "shared_cta", ".shared::cta": "shared_cta",
    ".shared::cluster": "shared_cluster",
}  # fmt: skip
_ATOMICS = {
    "add": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd",
    "or": "atomicOr", "xor": "atomicXor", "exch": "atomicExch", "cas": "atomicCAS",
}  # fmt: skip


class UnknownInstruction(ValueError):
    """An instruction that is not in ``_RULES``, or whose operands do not fit it."""


def translate_instructions(text: str, operand_count: int) -> str:
    """Return C++ statements for an assembly text with ``operand_count`` operands."""
    *pieces, rest = _COMMENT.sub(" ", text).split(";")
    statements: list[str] = []
    for piece in [*pieces, rest]:
        braces = re.match(r"[\s{}]*", piece)
        assert braces is not None
        statements.append("".join(braces[0].split()))
        instruction = " ".join(piece[braces.end() :].split())
        if instruction:
            if piece is rest:
                raise UnknownInstruction(f"no semicolon after {instruction!r}")
            _check_operands(instruction, operand_count)
            statements.append(_statement(instruction))
    labels = re.findall(r"\b(simt_label_\w+):", " ".join(statements))
    declarations = f"__label__ {', '.join(labels)};" if labels else ""
    return " ".join(["{", declarations, *statements, "}"])


def _check_operands(instruction: str, count: int) -> None:
    for index in re.findall(r"(?<!%)%(\d+)", instruction):
        if int(index) >= count:
            raise UnknownInstruction(f"no operand %{index} in {instruction!r}: there are {count}")


def _statement(instruction: str) -> str:
    label = re.match(r"([A-Za-z_]\w*) ?:(?!:) ?(.*)", instruction)
    if label:
        return f"simt_label_{label[1]}: {_statement(label[2]) if label[2] else ';'}"
    registers = re.fullmatch(r"\.reg \.(\w+) ([\w ,]+)", instruction)
    if registers and registers[1] in _TYPES:
        names = ", ".join(f"simt_reg_{name.strip()}" for name in registers[2].split(","))
        return f"{_TYPES[registers[1]]} {names};"
    guard = re.match(r"@(!?)([A-Za-z_]\w*) (.*)", instruction)
    if guard:
        return f"if ({guard[1]}simt_reg_{guard[2]}) {{ {_statement(guard[3])} }}"
    return _call(instruction) + ";"


def _call(instruction: str) -> str:
    name, _, rest = instruction.partition(" ")
    operands = [item.strip() for item in re.split(r",(?![^{\[]*[}\]])", rest) if item.strip()]
    for pattern, rule in _RULES:
        match = re.fullmatch(pattern, name)
        if match is None:
            continue
        try:
            return rule(match, operands)
        except ValueError as error:
            raise UnknownInstruction(f"cannot read {instruction!r}: {error}") from None
    raise UnknownInstruction(f"{instruction!r} is not an instruction this executor knows")


# ---- Operands ------------------------------------------------------------------------------------


def _value(text: str) -> str:
    if match := re.fullmatch(r"%(\d+)", text):
        return f"simt_{match[1]}"
    if match := re.fullmatch(r"%%([\w.]+)", text):
        if match[1] not in _SPECIAL_REGISTERS:
            raise ValueError(f"no special register {match[0]}")
        return _SPECIAL_REGISTERS[match[1]]
    if re.fullmatch(r"-?(?:0x[0-9a-fA-F]+|\d+)", text):
        return text
    if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
        return f"__uint_as_float(0x{match[1]}u)"
    if re.fullmatch(r"[A-Za-z_]\w*", text):
        return f"simt_reg_{text}"
    raise ValueError(f"no operand {text!r}")


def _address(text: str) -> str:
    match = re.fullmatch(r"\[ ?(%?\w+) ?(?:\+ ?(\d+) ?)?\]", text)
    if match is None:
        raise ValueError(f"no address {text!r}")
    return f"{_value(match[1])} + {match[2]}" if match[2] else _value(match[1])


def _registers(text: str, count: int) -> str:
    names = [text]
    if text.startswith("{"):
        names = [name.strip() for name in text.strip("{}").split(",")]
    if len(names) != count:
        raise ValueError(f"{count} registers expected in {text!r}")
    return ", ".join(map(_value, names))


# ---- Instructions --------------------------------------------------------------------------------


def _alone(call: str) -> Rule:
    """Make the rule of an instruction without operands."""

    def rule(_: re.Match[str], operands: Sequence[str]) -> str:
        if operands:
            raise ValueError("it has no operands")
        return call

    return rule


def _function(match: re.Match[str], operands: Sequence[str]) -> str:
    """Name the function after the instruction; ``ftz`` flushes what goes in and comes out."""
    to, *values = map(_value, operands)
    arity = {"max": 2, "min": 2}.get(match["name"], 1)
    if len(values) != arity:
        raise ValueError(f"{arity} inputs expected")
    suffix = "_nan" if "NaN" in match[0] else ""
    function = f"simt::ptx::{match['name']}{suffix}"
    if ".ftz" in match[0]:
        values = [f"simt::ptx::flush({value})" for value in values]
        return f"simt::ptx::put({to}, simt::ptx::flush({function}({', '.join(values)})))"
    return f"simt::ptx::put({to}, {function}({', '.join(values)}))"


def _access(match: re.Match[str], operands: Sequence[str]) -> str:
    load = match["name"] == "ld"
    parts = match.groupdict()
    first, second, *policy = operands
    if len(policy) != (1 if parts["hint"] else 0):
        raise ValueError("wrong number of operands")
    registers, address = (first, second) if load else (second, first)
    how = f"{{simt::Space::{_SPACES[parts['space'] or '']}, {_flag(match['strong'])}"
    how += f", {_flag(parts.get('nc'))}}}"
    count = int((parts["vector"] or ".v1")[2:])
    function = f"simt::ptx::{'load' if load else 'store'}<{_TYPES[parts['type']]}>"
    return f"{function}(__LINE__, {how}, {_address(address)}, {_registers(registers, count)})"


def _flag(part: str | None) -> str:
    return "true" if part else "false"


def _atomic(match: re.Match[str], operands: Sequence[str]) -> str:
    value_type = _TYPES[match["type"]]
    result = [] if match["name"] == "red" else [_value(operands[0])]
    address, *values = operands[len(result) :]
    if len(values) != (2 if match["op"] == "cas" else 1):
        raise ValueError("wrong number of operands")
    space = f"simt::Space::{_SPACES[match['space'] or '']}"
    place = f"simt::ptx::place<{value_type}>(__LINE__, {space}, {_address(address)})"
    inputs = [f"simt::ptx::bits<{value_type}>({_value(value)})" for value in values]
    call = f"{_ATOMICS[match['op']]}({', '.join([place, *inputs])}, __LINE__)"
    return f"simt::ptx::put_bits({result[0]}, {call})" if result else call


def _copy_async(match: re.Match[str], operands: Sequence[str]) -> str:
    to, source, size, *read = operands
    if size not in {"cg": ("16",), "ca": ("4", "8", "16")}[match["cache"]] or len(read) > 1:
        raise ValueError(f"cp.async.{match['cache']} cannot copy {size} bytes")
    values = [_address(to), _address(source), size, _value(read[0]) if read else size]
    return f"simt::copy_async({', '.join(values)}, __LINE__)"


def _wait_copies(_: re.Match[str], operands: Sequence[str]) -> str:
    (groups,) = operands
    return f"simt::wait_copies({_value(groups)})"


def _map_address(_: re.Match[str], operands: Sequence[str]) -> str:
    to, address, rank = map(_value, operands)
    mapped = f"simt::map_shared_address({address}, {rank}, __LINE__)"
    return f"simt::ptx::put_bits({to}, {mapped})"


def _prefetch(match: re.Match[str], operands: Sequence[str]) -> str:
    address, *size = operands
    if len(size) != (1 if "bulk" in match[0] else 0):
        raise ValueError("wrong number of operands")
    return f"simt::prefetch({_address(address)}, {_value(size[0]) if size else 1}, __LINE__)"


def _move(_: re.Match[str], operands: Sequence[str]) -> str:
    to, value = map(_value, operands)
    return f"simt::ptx::put_bits({to}, {value})"


def _select(_: re.Match[str], operands: Sequence[str]) -> str:
    to, yes, no, predicate = map(_value, operands)
    return f"{to} = {predicate} ? {yes} : {no}"


def _policy(_: re.Match[str], operands: Sequence[str]) -> str:
    to, fraction = operands
    if not 0 < float(fraction) <= 1:
        raise ValueError("the fraction lies in (0, 1]")
    return f"simt::ptx::put_bits({_value(to)}, uint64_t{{1}})"


def _branch(_: re.Match[str], operands: Sequence[str]) -> str:
    (label,) = operands
    return f"goto simt_label_{label}"


def _sleep(_: re.Match[str], operands: Sequence[str]) -> str:
    (duration,) = operands
    return f"__nanosleep({_value(duration)}, __LINE__)"


_SCOPE = r"(?:cta|cluster|gpu|sys)"
_SPACE = r"(?P<space>\.global|\.shared(?:::cta|::cluster)?)?"
_PRIORITY = r"(?:\.L1::(?:evict_\w+|no_allocate))?(?P<hint>\.L2::cache_hint)?"
_VALUE = r"(?P<vector>\.v[24])?\.(?P<type>[bus](?:8|16|32|64)|f32|f64)"
_LOAD_ORDER = rf"(?:\.weak|(?P<strong>\.volatile|\.(?:relaxed|acquire)\.{_SCOPE}))?"
_STORE_ORDER = rf"(?:\.weak|(?P<strong>\.volatile|\.(?:relaxed|release)\.{_SCOPE}))?"
_RULES: tuple[tuple[str, Rule], ...] = (
    (r"(?P<name>max|min)(?:\.ftz)?(?:\.NaN)?\.f32", _function),
    (r"(?P<name>ex2|lg2|rcp|rsqrt|sqrt)\.approx(?:\.ftz)?\.f32", _function),
    (
        rf"(?P<name>ld){_LOAD_ORDER}{_SPACE}(?:\.c[agsv]|\.lu)?(?P<nc>\.nc)?{_PRIORITY}"
        rf"(?:\.L2::(?:64|128|256)B)?{_VALUE}",
        _access,
    ),
    (rf"(?P<name>st){_STORE_ORDER}{_SPACE}(?:\.c[gs]|\.w[bt])?{_PRIORITY}{_VALUE}", _access),
    (
        rf"(?P<name>red|atom)(?:\.(?:relaxed|acquire|release|acq_rel))?(?:\.{_SCOPE})?{_SPACE}"
        rf"\.(?P<op>{'|'.join(_ATOMICS)})\.(?P<type>[bus](?:32|64)|f32|f64)",
        _atomic,
    ),
    (r"prefetch\.global\.L[12](?:::evict_\w+)?", _prefetch),
    (r"createpolicy\.fractional\.L2::evict_\w+\.b64", _policy),
    (r"cp\.async\.bulk\.prefetch\.L2\.global", _prefetch),
    (
        r"cp\.async\.(?P<cache>ca|cg)\.shared(?:::cta)?\.global(?:\.L2::(?:64|128|256)B)?",
        _copy_async,
    ),
    (r"cp\.async\.commit_group", _alone("simt::commit_copies()")),
    (r"cp\.async\.wait_group", _wait_copies),
    (r"cp\.async\.wait_all", _alone("simt::wait_all_copies()")),
    (r"mapa\.shared::cluster\.u32", _map_address),
    (
        r"barrier\.cluster\.arrive(?:\.release)?(?:\.aligned)?",
        _alone("simt::cluster_arrive(true, __LINE__)"),
    ),
    (
        r"barrier\.cluster\.arrive\.relaxed(?:\.aligned)?",
        _alone("simt::cluster_arrive(false, __LINE__)"),
    ),
    (
        r"barrier\.cluster\.wait(?:\.acquire)?(?:\.aligned)?",
        _alone("simt::cluster_wait(__LINE__)"),
    ),
    (r"mov\.(?:[bus](?:16|32|64)|f32|f64)", _move),
    (r"selp\.(?:[bus](?:16|32|64)|f32|f64)", _select),
    (r"bra(?:\.uni)?", _branch),
    (r"nanosleep\.u32", _sleep),
    (r"membar\.(?:cta|gl|sys)", _alone("(void)0")),
    (rf"fence(?:\.(?:sc|acq_rel|acquire|release))?\.{_SCOPE}", _alone("(void)0")),
    (r"griddepcontrol\.(?:wait|launch_dependents)", _alone("(void)0")),
)
