"""Several sources as one translation unit: what their kernels have in common is compiled once.

A source is fixed headers, each in a section that begins with `// ---- <its name>`, down to a line
that begins with `// ==== above`; what follows is its body. In the unit every section stands once,
and every body in a namespace of its own, with kernels of its own names.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

_INCLUDE = re.compile(r"^#include <[^>\n]+>$", re.MULTILINE)
_ABOVE = re.compile(r"^// ==== above.*$", re.MULTILINE)
_HEADERS = re.compile(r"^namespace (\w+) \{$(.*)^\}  // namespace \1$", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^// ---- <([^>\n]+)>.*$", re.MULTILINE)
_MACRO = re.compile(r"^\s*#define (\w+)", re.MULTILINE)
_MEMBER = re.compile(r"simt_member_(\d+)_")


def member(number: int) -> str:
    """What tells the names of one source from those of the others."""
    return f"simt_member_{number}_"


def members_in(symbol: str) -> set[int]:
    """The sources that a symbol belongs to; none if it is of what they have in common."""
    return {int(number) for number in _MEMBER.findall(symbol)}


@dataclass(frozen=True)
class _Source:
    includes: tuple[str, ...]
    sections: dict[str, str]  # by name, each in its namespace
    body: str


def _read(source: str) -> _Source | None:
    """The parts of a source; None if it has others."""
    above = _ABOVE.search(source)
    headers = _HEADERS.search(source, 0, above.start()) if above else None
    if above is None or headers is None or "#include" in source[above.end():]:
        return None
    starts = [*_SECTION.finditer(source, headers.start(2), headers.end(2))]
    ends = [*(s.start() for s in starts[1:]), headers.end(2)]
    sections = {
        s[1]: f'namespace {headers[1]} {{\n#line 1 "{s[1]}"{source[s.end():end]}}}\n'
        for s, end in zip(starts, ends, strict=True)
    }
    includes = tuple(_INCLUDE.findall(source[: headers.start()]))
    line = source.count("\n", 0, above.end()) + 1
    return _Source(includes, sections, f'#line {line} "kernel.cu"\n{source[above.end():]}\n')


def joined(sources: Iterable[tuple[str, Iterable[str]]]) -> tuple[str, dict[str, int]]:
    """Sources, each with the names of its kernels: their unit, and the number of each in it.

    Sources that have other parts, or other headers of the same names, are left out.
    """
    known: dict[str, str] = {}
    numbers: dict[str, int] = {}
    taken: list[_Source] = []
    bodies: list[str] = []
    for source, kernels in sources:
        found = _read(source)
        if found is None or any(known.get(n, s) != s for n, s in found.sections.items()):
            continue
        known |= found.sections
        bodies.append(_member(member(len(taken)), found.body, kernels))
        numbers[source] = len(taken)
        taken.append(found)
    includes = dict.fromkeys(line for one in taken for line in one.includes)
    order = _order([[*one.sections] for one in taken])
    return "".join([f"{line}\n" for line in includes] + [known[n] for n in order] + bodies), numbers


def _order(lists: list[list[str]]) -> list[str]:
    """Every name once, behind all that any list has before it; but where two lists differ, neither
    name needs the other."""
    pairs = {pair for names in lists for pair in itertools.combinations(names, 2)}
    before: dict[str, set[str]] = {name: set() for names in lists for name in names}
    for first, second in pairs:
        if (second, first) not in pairs:
            before[second].add(first)
    order: list[str] = []
    while len(order) < len(before):
        left = [name for name in before if name not in order]
        order.append(next((n for n in left if before[n] <= {*order}), left[0]))
    return order


def _member(own: str, body: str, kernels: Iterable[str]) -> str:
    """A body, with the launchers of its kernels."""
    names = {kernel: f"{kernel}_{own}" for kernel in kernels}
    defined = "".join(f"#define {kernel} {name}\n" for kernel, name in names.items())
    exports = "".join(f"SIMT_EXPORT_KERNEL({name})\n" for name in names.values())
    macros = dict.fromkeys((*_MACRO.findall(body), *names))
    return (f'{defined}namespace {own} {{\n{body}#line 1 "launchers"\n{exports}}}\n'
            + "".join(f"#undef {macro}\n" for macro in macros))
