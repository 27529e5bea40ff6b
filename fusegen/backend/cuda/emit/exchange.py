"""How lanes exchange a state: types of <fusegen/meet/lanes.cuh> over its members, line by line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from fusegen.backend.emit.render import wrapped
from fusegen.ir.monoid import Monoid

_LINE = 84  # characters


def exchange(state: str, monoid: Monoid, aside: Collection[str] = ()) -> tuple[str, ...]:
    """Which members need no pivot, and which sums move together; of states with a monoid of the
    user's own, all of them. `aside`: those that lanes find in other ways."""
    known = [*(f.name for f in monoid.folded), *(n for b in monoid.best for n in (b.value, b.name))]
    known = [name for name in known if name not in aside]
    sums = [[m.name for m in level.moving] for level in monoid.levels]
    if monoid.own:
        every = [*known, *chain(*sums), *(o.name for o in monoid.own)]
        return tuple(wrapped(_over("SideBySide", state, every), _LINE))
    parts = [_over("Members", state, names) for names in (known, *sums)]
    return tuple(wrapped(_within("AboutPivots", chain(*parts)), _LINE))


def members(struct: str, names: Sequence[str]) -> tuple[str, ...]:
    """Some members of a struct."""
    return tuple(wrapped(_over("Members", struct, names), _LINE))


def _over(template: str, struct: str, names: Iterable[str]) -> list[str]:
    return _within(template, (f"&{struct}::{name}" for name in names))


def _within(template: str, arguments: Iterable[str]) -> list[str]:
    """The arguments of a template, its name before the first, its bracket behind the last."""
    found = [*arguments] or [""]
    found[0] = f"{template}<{found[0]}"
    found[-1] += ">"
    return found
