"""A monoid of the user's own as CUDA C++: its state, identity and merge."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cuda.emit.dialect import CudaDialect
from fusegen.backend.cuda.emit.exchange import members
from fusegen.backend.emit.lines import Line
from fusegen.ir.monoid import Own


@dataclass(frozen=True)
class OwnView:
    """What the partial of an operator prints."""

    type: str
    title: str
    fields: tuple[tuple[str, str], ...]  # type, name
    identity: tuple[str, ...]  # by field
    parts: tuple[str, ...]  # lines: the type that names its fields, of <fusegen/meet/lanes.cuh>
    steps: tuple[str, ...]
    merge: tuple[str, ...]


def own_view(own: Own, dialect: CudaDialect) -> OwnView:
    operator = own.operator
    order = ", which keeps the order of the row" if own.ordered else ""
    return OwnView(
        type=own.type, title=f"{operator.name} of {operator.loc.short}{order}",
        fields=tuple((dialect.type_of(f.kind), f.name) for f in operator.fields),
        identity=tuple(dialect.text(f.identity) for f in operator.fields),
        parts=members(own.type, [f.name for f in operator.fields]),
        steps=tuple(
            f"const {dialect.type_of(e.kind)} {n} = {dialect.text(e)};" for n, e in operator.steps
        ),
        merge=tuple(f"r.{f.name} = {dialect.text(f.merge)};" for f in operator.fields),
    )


def fold_lines(own: Own, note: str, dialect: CudaDialect) -> list[Line]:
    """Statements that merge an item into the chunk's state."""
    item, chunk = f"{own.name}_item", f"chunk.{own.name}"
    lines = [Line(f"{own.type} {item};", declares=item)]
    for f, lift in zip(own.operator.fields, own.lifts, strict=True):
        lines.append(dialect.line(f"{item}.{f.name} = {dialect.text(lift)};", lift))
    return [*lines, Line(f"{chunk} = merge({chunk}, {item});", frozenset([item]), note=note)]
