"""A monoid of the user's own as C++: its state over lanes, identity and merge."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cpu.emit.dialect import CpuDialect
from fusegen.backend.cpu.emit.names import fg
from fusegen.ir.monoid import Own


@dataclass(frozen=True)
class OwnView:
    """What the partial of an operator prints."""

    type: str
    title: str
    fields: tuple[tuple[str, str], ...]  # type, name
    identity: tuple[str, ...]
    lane: tuple[str, ...]  # the fields of one lane
    steps: tuple[str, ...]
    merge: tuple[str, ...]


def own_view(own: Own, lanes: CpuDialect) -> OwnView:
    operator = own.operator
    order = ", which keeps the order of the row" if own.ordered else ""
    return OwnView(
        type=own.type, title=f"{operator.name} of {operator.loc.short}{order}",
        fields=tuple((lanes.type_in(f.kind), f.name) for f in operator.fields),
        identity=tuple(f"e.{f.name} = {lanes.text(f.identity)};" for f in operator.fields),
        lane=tuple(
            f"{fg('in_lane')}({f.name}, item)" + (" != 0" if f.kind == "bool" else "")
            for f in operator.fields
        ),
        steps=tuple(
            f"const {lanes.type_in(e.kind)} {n} = {lanes.text(e)};" for n, e in operator.steps
        ),
        merge=tuple(f"r.{f.name} = {lanes.text(f.merge)};" for f in operator.fields),
    )


def lifted(own: Own, name: str, lanes: CpuDialect) -> list[str]:
    """Statements that declare `name`, the states of a vector of elements."""
    lines = [f"{own.type}<V> {name};"]
    for f, lift in zip(own.operator.fields, own.lifts, strict=True):
        lines.append(f"{name}.{f.name} = {lanes.text(lift)};")
    return lines
