"""A merged monoid as people write it: state, identity and ⊕, for banners and explain."""

from __future__ import annotations

from fusegen.ir.expr import Var, text
from fusegen.ir.monoid import KBest, Level, Monoid, Moving, Own


def state_text(monoid: Monoid) -> str:
    """The components' names, and what lists are of."""
    names = [c.name for c in monoid.components if not isinstance(c, KBest)]
    names += [f"top {c.k} of {text(c.lift)}" for c in monoid.lists]
    return f"({', '.join(names)})"


def identity_text(monoid: Monoid) -> str:
    """The state of no elements."""
    zero = {"max": "-inf", "min": "+inf", "sum": "0", "prod": "1"}
    parts = [zero[c.fold] for c in monoid.folded]
    parts += ["none" for _ in monoid.best] + ["0" for _ in monoid.moving]
    parts += [
        f"{c.type}({', '.join(text(f.identity) for f in c.operator.fields)})" for c in monoid.own
    ]
    parts += ["empty" for _ in monoid.lists]
    return f"({', '.join(parts)})"


def merge_text(monoid: Monoid) -> tuple[str, ...]:
    """One line per component: how two states a and b become one."""
    lines = []
    for f in monoid.folded:
        if f.fold in ("max", "min"):
            lines.append(f"{f.name} = {f.fold}(a.{f.name}, b.{f.name})")
        else:
            lines.append(f"{f.name} = a.{f.name} {'+' if f.fold == 'sum' else '·'} b.{f.name}")
    for b in monoid.best:
        lines.append(f"{b.name} = column of the {'greater' if b.largest else 'lesser'} value")
    for m in monoid.moving:
        lines.append(f"{m.name} = {_moved(monoid, m, 'a')} + {_moved(monoid, m, 'b')}")
    for c in monoid.own:
        order = ", in row order" if c.ordered else ""
        lines.append(f"{c.name} = a.{c.name} ⊕ b.{c.name} of {c.operator.name}{order}:")
        lines += [f"  {line}" for line in _own_merge(c)]
    lines += [f"{c.name} = best {c.k} of both lists" for c in monoid.lists]
    return tuple(lines)


def _moved(monoid: Monoid, moving: Moving, side: str) -> str:
    terms = []
    for name, factor in moving.transport:
        shown = text(factor, 2)
        for pivot in monoid.pivots:
            value = text(pivot.value)
            atom = value if isinstance(pivot.value, Var) else f"{pivot.name}"
            if pivot.action == "same":
                bracketed = f"[{side}.{atom} = {atom}]"
            else:
                sign = "-" if pivot.action == "shift" else "/"
                bracketed = f"({side}.{atom} {sign} {atom})"
            if pivot.unit:
                bracketed = f"({bracketed} / {pivot.unit})"
            shown = shown.replace(f"({pivot.move})", bracketed).replace(pivot.move, bracketed)
        terms.append(f"{side}.{name}" if shown == "1" else f"{side}.{name}·{shown}")
    return " + ".join(terms)


def _own_merge(own: Own) -> list[str]:
    """Steps and fields of ⊕; a field that is just a step of that name is told once."""
    steps = [f"{n} = {text(e)}" for n, e in own.operator.steps]
    fields = [(f.name, text(f.merge)) for f in own.operator.fields]
    return steps + [f"{n} = {shown}" for n, shown in fields if n != shown]


def pivots_text(level: Level, monoid: Monoid) -> str:
    """The pivots that a level's sums are relative to: a, b and c."""
    used = {name for m in level.moving for name in m.pivots}
    *others, last = [p.name for p in monoid.pivots if p.name in used] or ["pivot"]
    return f"{', '.join(others)} and {last}" if others else last
