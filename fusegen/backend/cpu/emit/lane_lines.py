"""Lines of a loop over a row's elements, a vector of lanes at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fusegen.backend.cpu.emit.dialect import CpuDialect
from fusegen.backend.cpu.emit.divisors import divisors_in
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.cpu.emit.sources import printed
from fusegen.backend.emit.comments import noted
from fusegen.ir.expr import Expr
from fusegen.ir.kernel import COLUMN, Kernel, Sweep
from fusegen.ir.kernel_walk import used_in


class LaneLines:
    """What all loops of one sweep are made of."""

    def __init__(self, kernel: Kernel, sweep: Sweep, lanes: CpuDialect) -> None:
        self.kernel, self.sweep, self.lanes = kernel, sweep, lanes
        self.notes = dict(sweep.notes)

    def live(self, value: str, otherwise: str) -> str:
        """The value, but where a lane is behind the end of the row."""
        return f"live({value}, {otherwise})" if self.lanes.partly else value

    def divided(self, exprs: Sequence[Expr]) -> tuple[CpuDialect, tuple[str, ...]]:
        """A dialect with divisors for the row values that a loop over these divides by, and their
        names."""
        lets = used_in(self.sweep, exprs)[1]
        found = divisors_in([*exprs, *(let.expr for let in lets)])
        names = tuple(self.lanes.name(by) for by in found)
        return replace(self.lanes, divisors=frozenset(names)), names

    def items(self, exprs: Iterable[Expr], lanes: CpuDialect | None = None) -> list[str]:
        """Sources and lets, in order, that these element expressions use."""
        wanted, lets = used_in(self.sweep, exprs)
        lanes = lanes or self.lanes
        lines = []
        for source in self.sweep.loads:
            if source.name in wanted:
                lines += printed(source, self.kernel, lanes)
        if COLUMN.name in wanted:
            lines.append(f"const {fg('whole')}<V> column = {fg('column_numbers')}<V>(col);")
        for let in lets:
            declared = f"const {lanes.type_in(let.expr.kind)} {let.name}"
            lines.append(noted(f"{declared} = {lanes.text(let.expr)};", let.note))
        return lines

    def noted(self, line: str, component: str) -> str:
        return noted(line, self.notes.get(component, ""))
