"""A monoid of the user's own as C++: its state over lanes, identity and merge."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cpu.emit.dialect import CpuDialect
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.cpu.emit.phases import Phase
from fusegen.backend.emit.comments import noted
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


def own_phase(own: Own, items: list[str], note: str, lanes: CpuDialect) -> Phase:
    """A monoid of the user's own: lane by lane and then over the lanes, or in row order."""
    item, total = f"{own.name}_item", f"{own.name}_lanes"
    loop = items + lifted(own, item, lanes)
    loop[-1] = noted(loop[-1], note)
    over_lanes = f"for (int64_t lane = 0; lane < {fg('width')}<V>; ++lane)"
    if own.ordered:
        joined = f"state.{own.name} = merge(state.{own.name}, {item}.lane(lane));"
        return Phase(f"{own.name}: one element after the other, as the row has them.",
                     loop=(*loop, over_lanes, f"    {joined}"))
    joined = f"state.{own.name} = merge(state.{own.name}, {total}.lane(lane));"
    return Phase(
        f"{own.name}: every lane by itself, then the lanes.",
        before=(f"auto {total} = {own.type}<V>::identity();",),
        loop=(*loop, f"{total} = merge({total}, {item});"),
        after=(over_lanes, f"    {joined}"),
    )
