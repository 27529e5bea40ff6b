"""PTX instructions of tensor cores, and of what is around them: rows as in instructions.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from simt.operands import spell_address, spell_value, split_registers

Rule: TypeAlias = Callable[[re.Match[str], Sequence[str]], str]


def _words(text: str, count: int) -> str:
    """Registers of 32 bits, as numbers."""
    return ", ".join(f"simt::ptx::bits<uint32_t>({r})" for r in split_registers(text, count))


def _places(text: str, count: int, kind: str) -> str:
    """Registers that are written, as pointers."""
    return ", ".join(f"simt::ptx::place_of<{kind}>({r})" for r in split_registers(text, count))


def _multiply(match: re.Match[str], operands: Sequence[str]) -> str:
    sums, a, b, added = operands
    fields = [f"simt::Operand::{match['type']}", f"{{{_places(sums, 4, 'float')}}}",
              f"{{{_words(a, 4)}}}", f"{{{_words(b, 2)}}}",
              f"{{{', '.join(split_registers(added, 4))}}}"]
    return f"simt::multiply_warp({{{', '.join(fields)}}}, __LINE__)"


def _load_matrices(match: re.Match[str], operands: Sequence[str]) -> str:
    words, row = operands
    count = int(match["count"])
    fields = [str(count), "true" if match["turned"] else "false", spell_address(row),
              f"{{{_places(words, count, 'uint32_t')}}}"]
    return f"simt::load_matrices({{{', '.join(fields)}}}, __LINE__)"


def _transpose_matrix(_: re.Match[str], operands: Sequence[str]) -> str:
    to, word = map(spell_value, operands)
    turned = f"simt::transpose_matrix(simt::ptx::bits<uint32_t>({word}), __LINE__)"
    return f"simt::ptx::put_bits({to}, {turned})"


def _convert(match: re.Match[str], operands: Sequence[str]) -> str:
    to, *values = map(spell_value, operands)
    kind = match["type"].removesuffix("x2")
    if len(values) != (1 if kind == "tf32" else 2):
        raise ValueError("wrong number of operands")
    return f"simt::ptx::put_bits({to}, simt::ptx::to_{kind}({', '.join(values)}))"


def _wgmma(match: re.Match[str], operands: Sequence[str]) -> str:
    sums, a, b, add, *flags = operands
    n, kind, in_registers = int(match["n"]), match["type"], a.startswith("{")
    if n % 8 or not 8 <= n <= 256:
        raise ValueError(f"n is 8, 16 … 256, not {n}")
    if int(match["k"]) != (8 if kind == "tf32" else 16):
        raise ValueError(f"no such inner extent for {kind}")
    transposed = 0 if kind == "tf32" else 1 if in_registers else 2
    if len(flags) != 2 + transposed or flags[:2] != ["1", "1"] or flags[2:-1] not in ([], ["0"]):
        raise ValueError("signs of 1, then whether a, which must not, and b lie transposed")
    words = _places(a, 4, "const uint32_t") if in_registers else "nullptr"
    descriptors = [f"simt::ptx::bits<uint64_t>({spell_value(d)})" for d in (a, b)[in_registers:]]
    fields = [f"simt::Operand::{kind}", str(n), spell_value(add),
              "true" if transposed and flags[-1] == "1" else "false", f"{{{words}}}",
              *(["0"] if in_registers else []), *descriptors]
    return (f"simt::wgmma({{{', '.join(fields)}}}, {{{_places(sums, n // 2, 'float')}}}, "
            "__LINE__)")


def _wgmma_wait(_: re.Match[str], operands: Sequence[str]) -> str:
    (groups,) = operands
    return f"simt::wgmma_wait({spell_value(groups)}, __LINE__)"


def _copy_tensor(match: re.Match[str], operands: Sequence[str]) -> str:
    to, source, barrier, *policy = operands
    if len(policy) != (1 if match["hint"] else 0):
        raise ValueError("wrong number of operands")
    found = re.fullmatch(r"\[ ?(%\d+) ?, ?(\{.*\}) ?\]", source)
    if found is None:
        raise ValueError(f"no map with coordinates: {source!r}")
    rank = int(match["rank"])
    at = ", ".join(f"simt::ptx::bits<int>({r})" for r in split_registers(found[2], rank))
    fields = [spell_address(to), spell_value(found[1]), spell_address(barrier), str(rank),
              f"{{{at}}}"]
    return f"simt::copy_tensor({{{', '.join(fields)}}}, __LINE__)"


def _prefetch_map(_: re.Match[str], operands: Sequence[str]) -> str:
    (address,) = operands
    return f"simt::prefetch_map({spell_address(address)}, __LINE__)"


def _named_barrier(match: re.Match[str], operands: Sequence[str]) -> str:
    number, *threads = map(spell_value, operands)
    waits = match["name"] == "sync"
    if not threads and operands == ["0"] and waits:
        return "simt::block_barrier(false, __LINE__)"
    if len(threads) != 1:
        raise ValueError("the barrier's number and a count of threads expected")
    return f"simt::named_barrier({number}, {threads[0]}, {str(waits).lower()}, __LINE__)"


def _set_registers(match: re.Match[str], operands: Sequence[str]) -> str:
    (count,) = operands
    more = "true" if match["way"] == "inc" else "false"
    return f"simt::set_registers({spell_value(count)}, {more}, __LINE__)"


def _alone(call: str) -> Rule:
    def rule(_: re.Match[str], operands: Sequence[str]) -> str:
        if operands:
            raise ValueError("it has no operands")
        return call

    return rule


TENSOR_RULES: tuple[tuple[str, Rule], ...] = (
    (
        r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.(?P<type>bf16|f16)\.(?P=type)\.f32",
        _multiply,
    ),
    (r"mma\.sync\.aligned\.m16n8k8\.row\.col\.f32\.(?P<type>tf32)\.tf32\.f32", _multiply),
    (
        r"ldmatrix\.sync\.aligned\.m8n8\.x(?P<count>[124])(?P<turned>\.trans)?"
        r"\.shared(?:::cta)?\.b16",
        _load_matrices,
    ),
    (r"movmatrix\.sync\.aligned\.m8n8\.trans\.b16", _transpose_matrix),
    (r"cvt\.rn\.(?P<type>bf16x2|f16x2)\.f32", _convert),
    (r"cvt\.rna\.(?P<type>tf32)\.f32", _convert),
    (
        r"wgmma\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k(?P<k>8|16)"
        r"\.f32\.(?P<type>bf16|f16|tf32)\.(?P=type)",
        _wgmma,
    ),
    (r"wgmma\.fence\.sync\.aligned", _alone("simt::wgmma_fence(__LINE__)")),
    (r"wgmma\.commit_group\.sync\.aligned", _alone("simt::wgmma_commit(__LINE__)")),
    (r"wgmma\.wait_group\.sync\.aligned", _wgmma_wait),
    (
        r"cp\.async\.bulk\.tensor\.(?P<rank>[1-5])d\.shared::(?:cluster|cta)\.global(?:\.tile)?"
        r"\.mbarrier::complete_tx::bytes(?P<hint>\.L2::cache_hint)?",
        _copy_tensor,
    ),
    (r"prefetch\.tensormap", _prefetch_map),
    (r"fence\.proxy\.async(?:\.shared::(?:cta|cluster)|\.global)?",
     _alone("simt::proxy_fence()")),
    (r"bar(?:rier(?:\.cta)?)?\.(?P<name>sync|arrive)(?:\.aligned)?", _named_barrier),
    (r"setmaxnreg\.(?P<way>inc|dec)\.sync\.aligned\.u32", _set_registers),
)
