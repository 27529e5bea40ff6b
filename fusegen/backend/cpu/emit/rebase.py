"""Moving sums of a state at other pivots, as C++."""

from __future__ import annotations

from fusegen.backend.cpu.emit.dialect import CpuDialect
from fusegen.ir.expr import Expr, Lit, Var, substitute, variables
from fusegen.ir.monoid import Monoid, Moving


def rebase_lines(monoid: Monoid, dialect: CpuDialect) -> list[str]:
    """Every moving sum at new anchors; all from the old values, then all at once."""
    if not monoid.pivots:
        return []
    lines = []
    used = {n for m in monoid.moving for _, factor in m.transport for n in variables(factor)}
    for p in monoid.pivots:
        if p.move in used:
            move = dialect.text(p.moved(
                lambda n: Var(f"state.{monoid.pivot(n).anchor}"),
                lambda n: Var(monoid.pivot(n).anchor),
            ))
            lines.append(f"const {dialect.real} {p.move} = {move};")
    lines += _moved(monoid, dialect)
    return lines + [f"state.{p.anchor} = {p.anchor};" for p in monoid.pivots]


def _moved(monoid: Monoid, dialect: CpuDialect) -> list[str]:
    changed = [m for m in monoid.moving if not _stays(m)]
    moving = [m for m in changed if m.width == 1]
    new = [
        dialect.text(monoid.transported(m, "state")) for m in moving
    ]
    lines = _moved_vectors(monoid, [m for m in changed if m.width > 1], dialect)
    if len(moving) == 1:
        return [*lines, f"state.{moving[0].name} = {new[0]};"]
    return lines + _together(moving, new, dialect)


def _together(moving: list[Moving], new: list[str], dialect: CpuDialect) -> list[str]:
    """All from the old values, then all at once."""
    lines = [
        f"const {dialect.type_of(m.kind)} {m.name} = {value};"
        for m, value in zip(moving, new, strict=True)
    ]
    return lines + [f"state.{m.name} = {m.name};" for m in moving]


def _moved_vectors(monoid: Monoid, moving: list[Moving], dialect: CpuDialect) -> list[str]:
    """Sums of vectors, number by number."""
    wide = [m.name for m in monoid.moving if m.width > 1]
    wide += [f.name for f in monoid.folded if f.width > 1]
    places: dict[str, Expr] = {f"state.{n}": Var(f"state.{n}[i]") for n in wide}
    lines = []
    for width in dict.fromkeys(m.width for m in moving):
        some = [m for m in moving if m.width == width]
        new = [dialect.text(substitute(monoid.transported(m, "state"), places)) for m in some]
        lines.append(f"for (int64_t i = 0; i < {width}; ++i) {{")
        lines += [f"    const {dialect.real} {m.name} = {v};"
                  for m, v in zip(some, new, strict=True)]
        lines += [f"    state.{m.name}[i] = {m.name};" for m in some]
        lines.append("}")
    return lines


def _stays(moving: Moving) -> bool:
    return moving.transport == ((moving.name, Lit(1.0)),)
