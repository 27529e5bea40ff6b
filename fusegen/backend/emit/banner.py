"""The head of every generated file: what it computes, what was proved, how it may be launched, and
at what cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from fusegen.ir.forms import role_words
from fusegen.ir.kernel import Param, Program
from fusegen.ir.monoid_text import identity_text, merge_text, state_text
from fusegen.ir.version import __version__

_WIDTH = 11  # columns of a heading



@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a backend says of its own source."""

    target: str
    schedule: str
    tree: str  # of merges, as the field calls it
    launch: Sequence[str] = ()  # a line a launch
    assumes: Sequence[str] = ()
    reads: str = ""  # how often memory is read for an element; "": as often as the program says


def banner_lines(program: Program, facts: Facts) -> list[str]:
    """Comment lines, without comment signs."""
    return [
        f"{program.name}{role_words(program.role)}    {program.loc.short}",
        f"form {program.form}, for {facts.target}; by fusegen {__version__}, do not edit",
        "",
        *_states(program),
        *_proofs(program),
        *_under("Tree", [facts.tree] if facts.tree else []),
        *_under("Schedule", [facts.schedule]),
        *_under("Launch", facts.launch),
        *_under("Assumes", facts.assumes),
        *_under("Bytes", [_bytes(program, facts.reads)]),
    ]


def _under(heading: str, lines: Sequence[str]) -> list[str]:
    """Lines behind a heading."""
    return [f"{heading if i == 0 else '':<{_WIDTH}}{line}" for i, line in enumerate(lines)]


def _states(program: Program) -> Iterator[str]:
    several = len(program.sweeps) > 1
    for sweep in program.sweeps:
        if several:
            reads = ", ".join(sweep.reads) or "nothing"
            yield from _under(f"Sweep {sweep.number}", [f"reads {reads}"])
        if not sweep.monoid.is_empty:
            empty = f"{state_text(sweep.monoid)}, of no elements {identity_text(sweep.monoid)}"
            yield from _under("State", [empty])
            yield from _under("a ⊕ b", merge_text(sweep.monoid))


def _proofs(program: Program) -> Iterator[str]:
    """Obligations by what became of them; texts that are no obligation as they are."""
    by_status: dict[str, list[str]] = {}
    for name, status in program.proof:
        by_status.setdefault(status, []).append(name)
    for status, names in by_status.items():
        lines = names if status in ("own sweep", "text") else [", ".join(names)]
        yield from _under(status.capitalize(), lines)


def _bytes(program: Program, reads: str) -> str:
    match program.role:
        case "call":
            return f"{_read(program, reads)}, writes {_written(program)}"
        case "fold":
            written = _of_states(program.outputs)
            return f"{_read(program, reads)}, writes {written} bytes a row"
        case "merge":
            (states,) = (p for p in program.inputs if p.shape == "states")
            return f"reads {states.k} bytes of each state, writes as many a row"
        case "finish":
            read = _of_states(program.inputs)
            return f"reads {read} bytes of a state, writes {_written(program)}"
        case "map":
            state = f"reads {_of_states(program.inputs)} bytes of a state"
            return f"{state}, {_read(program, reads)}, writes {_written(program)}"
        case _:
            assert_never(program.role)


def _read(program: Program, reads: str) -> str:
    """How often memory is read for an element of the arrays that sweeps go over."""
    arrays = dict.fromkeys(name for k in program.kernels for s in k.sweeps for name in s.reads
                           if k.param(name).shape == "element")
    count = reads or str(program.reads_per_element)
    if len(arrays) < 2:
        return f"reads each element {_times(count)}"
    names = ", ".join(arrays)
    if count == str(len(arrays)):
        return f"reads each element of {names} once"
    return f"reads each element {_times(count)} ({names})"


def _written(program: Program) -> str:
    """How often each element of full rows, and how much else."""
    elements = [_times(str(program.writes_per_element))] if program.writes_per_element else []
    size = sum(p.k * p.dtype.itemsize for p in program.outputs if p.shape in ("row", "list"))
    values = [f"{size} {'byte' if size == 1 else 'bytes'} a row"] if size else []
    return " and ".join([*elements, *values]) or "nothing"


def _of_states(fields: Sequence[Param]) -> int:
    """Bytes of those of a state's fields that are read or written."""
    return sum(p.k * p.dtype.itemsize for p in fields if p.field and p.shape != "scalar")


def _times(count: str) -> str:
    return {"0": "nothing", "1": "once", "2": "twice"}.get(count, f"{count} times")
