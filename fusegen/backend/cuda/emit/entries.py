"""The entries of a K-best list, shared by the threads of a team."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fusegen.backend.cuda.schedule.cuda import IN_REGISTERS, CudaSchedule, Lists
from fusegen.backend.emit.lines import Line, inside, uses_of
from fusegen.backend.target import WARP
from fusegen.ir.kernel import ENTRY

TEAM = "Team::threads()"
"""How many threads own a row."""


@dataclass(frozen=True, slots=True)
class Owners:
    """Who has which entries: number rank, rank + team, … are a thread's."""

    lists: Lists = "streamed"
    team: int = 0  # threads
    given: tuple[Line, ...] = ()  # an entry's value and column, of lists that are in memory
    short: bool = False  # may a row have fewer columns than a list has entries?
    waiting: frozenset[str] = frozenset()  # results whose entries wait for a band's other rows

    @staticmethod
    def of(schedule: CudaSchedule) -> Owners:
        return Owners(schedule.lists, schedule.team_threads)

    @property
    def in_warp(self) -> bool:
        """Are they lanes of a warp, each with its entries of a list?"""
        return self.lists != "streamed" and self.team <= WARP

    def key(self, top: str) -> str:
        """Of an entry of a list that the team shares; of one that is not there, any."""
        return f"{top}_best[{'entry < n_cols ? entry : 0' if self.short else 'entry'}]"

    def loaded(self, top: str) -> list[Line]:
        """Names for what an entry has, of a list in memory; empty: the team has it."""
        return [ln for ln in self.given if ln.declares in (f"{top}_value", f"{top}_column")]

    def one_each(self, k: int) -> bool:
        """Has no thread more than one of a list's k entries? Of streamed lists that is not asked:
        without the loop, ptxas spills what the sweep before it holds."""
        return self.lists != "streamed" and k <= self.team


def own_entries(top: str, k: int, owners: Owners, lines: Iterable[Line]) -> list[Line]:
    """`lines` for the entries that are this thread's; `entry` is the number of one."""
    registers, once = owners.lists in IN_REGISTERS, owners.one_each(k)
    key = owners.key(top) if not registers else f"{top}_own[{0 if once else 'own'}]"
    lines = [*lines]
    asked = not registers or ENTRY.name in uses_of(lines)
    if once and k == owners.team:
        head = [Line("{"), *([Line("    const int entry = rank;")] if asked else [])]
    elif once:
        head = [Line(f"if (const int entry = rank; entry < {k}) {{")]
    elif registers:
        head = [Line("#pragma unroll"),
                Line(f"for (int own = 0; own * {TEAM} < {k}; ++own) {{", frozenset(["Team"]))]
        if asked or k % owners.team:
            head.append(Line(f"    const int entry = own * {TEAM} + rank;"))
        if k % owners.team:
            head.append(Line(f"    if (entry >= {k}) break;"))
    else:
        step = f"entry += {TEAM}"
        head = [Line(f"for (int entry = rank; entry < {k}; {step}) {{", frozenset(["Team"]))]
    entry = owners.loaded(top) or entry_lines(top, key, uses_of(lines))
    return [*head, *inside([*entry, *lines]), Line("}")]


def entry_lines(top: str, key: str, uses: Collection[str]) -> list[Line]:
    """Names for what an entry has, as far as they are used."""
    entry, keys = f"{top}_entry", f"{top}_keys"
    found = [
        Line(f"const auto {top}_value = {keys}.value({entry});", declares=f"{top}_value"),
        Line(f"const column_t {top}_column = {keys}.column({entry});", declares=f"{top}_column"),
    ]
    return [Line(f"const auto {entry} = {key};", declares=entry),
            *(ln for ln in found if ln.declares in uses)]
