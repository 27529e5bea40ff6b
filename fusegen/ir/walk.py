"""Walks over nodes that share operands: each node once, operands first, however deep they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, dataclass_transform

_N = TypeVar("_N", bound="Known")
_T = TypeVar("_T")


class Known:
    """A node that has room for what is once found out about it."""

    __slots__ = ("__weakref__", "_known")
    _known: dict[object, Any]

    @property
    def known(self) -> dict[object, Any]:
        """Answers about the node, by question; see `asked_once`."""
        try:
            return self._known
        except AttributeError:
            object.__setattr__(self, "_known", {})  # nodes are frozen
            return self._known


@dataclass_transform(frozen_default=True, eq_default=False)
def node_class(cls: type[_T]) -> type[_T]:
    """A dataclass of nodes: identity is equality."""
    return dataclass(frozen=True, slots=True, eq=False, repr=False)(cls)


def in_order(
    roots: Iterable[_N], operands: Callable[[_N], Sequence[_N]], done: Callable[[_N], bool]
) -> tuple[_N, ...]:
    """Every node the roots need, operands first, in a stable order; not those that are `done`, nor
    what only they need."""
    order: dict[_N, None] = {}
    stack = [(n, False) for n in reversed(tuple(roots))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order[node] = None
        elif node not in order and not done(node):
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(operands(node)) if a not in order)
    return tuple(order)


def asked_once(
    rule: Callable[[_N], _T], operands: Callable[[_N], Sequence[_N]]
) -> Callable[[_N], _T]:
    """The rule, which may ask itself about operands, as a function that knows its answers.

    Operands are asked before what they are operands of: neither depth nor sharing costs more than
    the number of nodes.
    """

    @wraps(rule)
    def ask(node: _N) -> _T:
        if rule not in node.known:
            for n in in_order((node,), operands, lambda n: rule in n.known):
                n.known[rule] = rule(n)
        found: _T = node.known[rule]
        return found

    return ask
