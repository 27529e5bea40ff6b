"""PTX instructions: a row for each in ``RULES``, with what its dotted name may be, and its C++.

The C++ calls the functions of runtime.h and shim/ptx.h.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from simt.operands import REGISTER_TYPES, STATE_SPACES, spell_address, spell_registers, spell_value

Rule: TypeAlias = Callable[[re.Match[str], Sequence[str]], str]

_ATOMICS = {
    "add": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd",
    "or": "atomicOr", "xor": "atomicXor", "exch": "atomicExch", "cas": "atomicCAS",
}


def _alone(call: str) -> Rule:
    """Make the rule of an instruction without operands."""

    def rule(_: re.Match[str], operands: Sequence[str]) -> str:
        if operands:
            raise ValueError("it has no operands")
        return call

    return rule


def _function(match: re.Match[str], operands: Sequence[str]) -> str:
    """Name the function after the instruction; ``ftz`` flushes what goes in and comes out."""
    to, *values = map(spell_value, operands)
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
    how = f"{{simt::Space::{STATE_SPACES[parts['space'] or '']}, {_flag(match['strong'])}"
    how += f", {_flag(parts.get('nc'))}}}"
    count = int((parts["vector"] or ".v1")[2:])
    function = f"simt::ptx::{'load' if load else 'store'}<{REGISTER_TYPES[parts['type']]}>"
    arguments = [how, spell_address(address), spell_registers(registers, count)]
    return _fenced(match["strong"] or "", f"{function}(__LINE__, {', '.join(arguments)})")


def _fenced(order: str, call: str) -> str:
    """Put fences where the order of memory demands them; that of a block or cluster does not."""
    wide = order.endswith((".gpu", ".sys")) or order in (".acquire", ".release", ".acq_rel")
    before = "simt::fence(), " if wide and re.match(r"\.(release|acq_rel)", order) else ""
    after = ", simt::fence()" if wide and re.match(r"\.(acquire|acq_rel)", order) else ""
    return f"{before}{call}{after}"


def _flag(part: str | None) -> str:
    return "true" if part else "false"


def _atomic(match: re.Match[str], operands: Sequence[str]) -> str:
    value_type = REGISTER_TYPES[match["type"]]
    result = [] if match["name"] == "red" else [spell_value(operands[0])]
    address, *values = operands[len(result) :]
    if len(values) != (2 if match["op"] == "cas" else 1):
        raise ValueError("wrong number of operands")
    space = f"simt::Space::{STATE_SPACES[match['space'] or '']}"
    place = f"simt::ptx::place<{value_type}>(__LINE__, {space}, {spell_address(address)})"
    inputs = [f"simt::ptx::bits<{value_type}>({spell_value(value)})" for value in values]
    call = f"{_ATOMICS[match['op']]}({', '.join([place, *inputs])}, __LINE__)"
    call = f"simt::ptx::put_bits({result[0]}, {call})" if result else call
    return _fenced(match["order"] or "", call)


def _copy_async(match: re.Match[str], operands: Sequence[str]) -> str:
    to, source, size, *read = operands
    if len(read) > 1:
        raise ValueError("wrong number of operands")
    values = [spell_address(to), spell_address(source), "16" if match["cache"] == "cg" else "4"]
    values += map(spell_value, [size, *(read or [size])])
    return f"simt::copy_async({', '.join(values)}, __LINE__)"


def _wait_copies(_: re.Match[str], operands: Sequence[str]) -> str:
    (groups,) = operands
    return f"simt::wait_copies({spell_value(groups)})"


def _arrive_with_copies(match: re.Match[str], operands: Sequence[str]) -> str:
    """As on a GPU whose copies have come by then: one of the orders that there may be."""
    arrive = _mbarrier("arrive_mbarrier", "1")
    return f"(simt::wait_all_copies(), {arrive(match, operands)})"


def _mbarrier(function: str, count: str | None = None) -> Rule:
    """Make the rule of an instruction on an mbarrier with one number, or with ``count``."""

    def rule(match: re.Match[str], operands: Sequence[str]) -> str:
        if "arrive" in match[0] and operands[0] == "_":
            operands = operands[1:]  # the state that nobody uses
        address, *number = operands
        if len(number) > 1 or not (number or count):
            raise ValueError("wrong number of operands")
        values = [spell_address(address), spell_value(number[0]) if number else count or ""]
        if "space" in match.groupdict():
            values.insert(0, f"simt::Space::{STATE_SPACES[match['space']]}")
        return f"simt::{function}({', '.join(values)}, __LINE__)"

    return rule


def _expect_and_arrive(match: re.Match[str], operands: Sequence[str]) -> str:
    address, number = operands[operands[0] == "_" :]
    expect = f"simt::expect_bytes({spell_address(address)}, {spell_value(number)}, __LINE__)"
    space = "simt::Space::shared_cta"
    return f"{expect}, simt::arrive_mbarrier({space}, {spell_address(address)}, 1, __LINE__)"


def _poll_mbarrier(_: re.Match[str], operands: Sequence[str]) -> str:
    to, address, parity, *hint = operands
    if len(hint) > 1:
        raise ValueError("wrong number of operands")
    values = [spell_address(address), spell_value(parity)]
    return f"{spell_value(to)} = simt::poll_mbarrier({', '.join(values)}, __LINE__)"


def _copy_bulk(match: re.Match[str], operands: Sequence[str]) -> str:
    to, source, size, barrier, *policy = operands
    if len(policy) != (1 if match["hint"] else 0):
        raise ValueError("wrong number of operands")
    values = [spell_address(to), spell_address(source), spell_value(size), spell_address(barrier)]
    return f"simt::copy_bulk({', '.join(values)}, __LINE__)"


def _map_address(_: re.Match[str], operands: Sequence[str]) -> str:
    to, address, rank = map(spell_value, operands)
    mapped = f"simt::map_shared_address({address}, {rank}, __LINE__)"
    return f"simt::ptx::put_bits({to}, {mapped})"


def _prefetch(match: re.Match[str], operands: Sequence[str]) -> str:
    address, *size = operands
    if len(size) != (1 if "bulk" in match[0] else 0):
        raise ValueError("wrong number of operands")
    count = spell_value(size[0]) if size else "1"
    return f"simt::prefetch({spell_address(address)}, {count}, __LINE__)"


def _move(_: re.Match[str], operands: Sequence[str]) -> str:
    to, value = map(spell_value, operands)
    return f"simt::ptx::put_bits({to}, {value})"


def _select(_: re.Match[str], operands: Sequence[str]) -> str:
    to, yes, no, predicate = map(spell_value, operands)
    return f"{to} = {predicate} ? {yes} : {no}"


def _permute(_: re.Match[str], operands: Sequence[str]) -> str:
    to, *values = map(spell_value, operands)
    if len(values) != 3:
        raise ValueError("two registers and a selector expected")
    return f"simt::ptx::put_bits({to}, simt::ptx::permute({', '.join(values)}))"


def _multiply_add(_: re.Match[str], operands: Sequence[str]) -> str:
    to, *values = map(spell_value, operands)
    if len(values) != 3:
        raise ValueError("two factors and a number to add expected")
    a, b, c = (f"simt::ptx::bits<uint32_t>({value})" for value in values)
    return f"simt::ptx::put_bits({to}, {a} * {b} + {c})"


def _policy(_: re.Match[str], operands: Sequence[str]) -> str:
    to, fraction = operands
    if not 0 < float(fraction) <= 1:
        raise ValueError("the fraction lies in (0, 1]")
    return f"simt::ptx::put_bits({spell_value(to)}, uint64_t{{1}})"


def _compare(match: re.Match[str], operands: Sequence[str]) -> str:
    predicate, *values = map(spell_value, operands)
    kind = REGISTER_TYPES[match["type"]]
    left, right = (f"simt::ptx::bits<{kind}>({value})" for value in values)
    return f"{predicate} = {left} {_COMPARISONS[match['op']]} {right}"


def _branch(_: re.Match[str], operands: Sequence[str]) -> str:
    (label,) = operands
    return f"goto simt_label_{label}"


def _sleep(_: re.Match[str], operands: Sequence[str]) -> str:
    (duration,) = operands
    return f"__nanosleep({spell_value(duration)}, __LINE__)"


_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_SCOPE = r"(?:cta|cluster|gpu|sys)"
_SPACE = r"(?P<space>\.global|\.shared(?:::cta|::cluster)?)?"
_PRIORITY = r"(?:\.L1::(?:evict_\w+|no_allocate))?(?P<hint>\.L2::cache_hint)?"
_VALUE = r"(?P<vector>\.v[24])?\.(?P<type>[bus](?:8|16|32|64)|f32|f64)"
_LOAD_ORDER = rf"(?:\.weak|(?P<strong>\.volatile|\.(?:relaxed|acquire)\.{_SCOPE}))?"
_STORE_ORDER = rf"(?:\.weak|(?P<strong>\.volatile|\.(?:relaxed|release)\.{_SCOPE}))?"
RULES: tuple[tuple[str, Rule], ...] = (
    (r"(?P<name>max|min)(?:\.ftz)?(?:\.NaN)?\.f32", _function),
    (r"(?P<name>ex2|lg2|rcp|rsqrt|sqrt|tanh)\.approx(?:\.ftz)?\.f32", _function),
    (
        rf"(?P<name>ld){_LOAD_ORDER}{_SPACE}(?:\.c[agsv]|\.lu)?(?P<nc>\.nc)?{_PRIORITY}"
        rf"(?:\.L2::(?:64|128|256)B)?{_VALUE}",
        _access,
    ),
    (rf"(?P<name>st){_STORE_ORDER}{_SPACE}(?:\.c[gs]|\.w[bt])?{_PRIORITY}{_VALUE}", _access),
    (
        rf"(?P<name>red|atom)(?P<order>(?:\.(?:relaxed|acquire|release|acq_rel))?(?:\.{_SCOPE})?)"
        rf"{_SPACE}"
        rf"\.(?P<op>{'|'.join(_ATOMICS)})\.(?P<type>[bus](?:32|64)|f32|f64)",
        _atomic,
    ),
    (r"mad\.lo\.u32", _multiply_add),
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
    (r"mbarrier\.init\.shared(?:::cta)?\.b64", _mbarrier("init_mbarrier")),
    (
        r"mbarrier\.expect_tx(?:\.relaxed\.(?:cta|cluster))?\.shared(?:::cta)?\.b64",
        _mbarrier("expect_bytes"),
    ),
    (
        r"mbarrier\.arrive(?:\.release\.(?:cta|cluster))?"
        r"(?P<space>\.shared(?:::cta|::cluster)?)\.b64",
        _mbarrier("arrive_mbarrier", "1"),
    ),
    (
        r"cp\.async\.mbarrier\.arrive\.noinc(?P<space>\.shared(?:::cta)?)\.b64",
        _arrive_with_copies,
    ),
    (
        r"mbarrier\.arrive\.expect_tx(?:\.release\.(?:cta|cluster))?\.shared(?:::cta)?\.b64",
        _expect_and_arrive,
    ),
    (
        r"mbarrier\.(?:try|test)_wait\.parity(?:\.acquire\.(?:cta|cluster))?"
        r"\.shared(?:::cta)?\.b64",
        _poll_mbarrier,
    ),
    (
        r"cp\.async\.bulk\.shared::(?:cluster|cta)\.global\.mbarrier::complete_tx::bytes"
        r"(?P<hint>\.L2::cache_hint)?",
        _copy_bulk,
    ),
    (r"fence\.mbarrier_init\.release\.cluster", _alone("simt::mbarrier_fence()")),
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
    (rf"setp\.(?P<op>{'|'.join(_COMPARISONS)})\.(?P<type>[bus](?:16|32|64)|f32|f64)", _compare),
    (r"prmt\.b32", _permute),
    (r"bra(?:\.uni)?", _branch),
    (r"nanosleep\.u32", _sleep),
    (r"membar\.cta|fence\.(?:sc|acq_rel)\.(?:cta|cluster)", _alone("(void)0")),
    (r"membar\.(?:gl|sys)|fence\.(?:sc|acq_rel)\.(?:gpu|sys)", _alone("simt::fence()")),
    (r"griddepcontrol\.(?:wait|launch_dependents)", _alone("(void)0")),
)
