"""The user's own monoid as plain data: state, identity, lift and merge in fusegen's expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from fusegen.ir.dtypes import Kind
from fusegen.ir.expr import Expr, Lit, Var, ops_of, variables
from fusegen.ir.loc import Loc

Law = Literal["associative", "identity", "commutative"]

State = Mapping[str, Any]
"""A value for every field of an operator, by the field's name."""


@dataclass(frozen=True, slots=True)
class StateField:
    """One number of the state.

    `lift` is over the operator's elements; `merge` over `a.<field>`, `b.<field>` and its steps.
    """

    name: str
    identity: Lit
    lift: Expr
    merge: Expr

    @property
    def kind(self) -> Kind:
        return self.identity.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """⊕ of a monoid made by `fg.monoid`."""

    name: str
    elements: tuple[Var, ...]  # what lift takes, and row values that it captured
    fields: tuple[StateField, ...]
    steps: tuple[tuple[str, Expr], ...]  # values that several merges share, in order
    ordered: bool  # the user says that it does not commute
    assumed: tuple[Law, ...]
    loc: Loc

    @property
    def key(self) -> str:
        """All that proofs and generated source depend on."""
        return repr((self.name, self.elements, self.fields, self.steps, self.ordered, self.assumed,
                     self.loc.short))

    @property
    def operations(self) -> frozenset[str]:
        """Everything that lift and merge do."""
        exprs = [e for f in self.fields for e in (f.lift, f.merge)] + [e for _, e in self.steps]
        return frozenset(op for e in exprs for op in ops_of(e))

    @property
    def parts(self) -> tuple[Operator, ...]:
        """Fields that look at one another, together: the operator is the product of these."""
        steps = dict(self.steps)
        groups: list[set[str]] = []
        for f in self.fields:
            group = {f.name, *(n.partition(".")[2] for n in _needed(f.merge, steps) if "." in n)}
            meeting = [g for g in groups if g & group]
            groups = [g for g in groups if g not in meeting] + [group.union(*meeting)]
        return tuple(self._part(g, steps) for g in groups)

    def _part(self, names: set[str], steps: Mapping[str, Expr]) -> Operator:
        fields = tuple(f for f in self.fields if f.name in names)
        needed = {n for f in fields for n in _needed(f.merge, steps)}
        return replace(self, fields=fields,
                       steps=tuple((n, e) for n, e in self.steps if n in needed))

    @property
    def identity(self) -> State:
        return {f.name: f.identity.value for f in self.fields}

    def merge(
        self, a: State, b: State, evaluate: Callable[[Expr, dict[str, Any]], Any]
    ) -> State:
        """a ⊕ b, in the numbers that `evaluate` computes with."""
        env = {f"{side}.{n}": v for side, state in (("a", a), ("b", b)) for n, v in state.items()}
        for name, expr in self.steps:
            env[name] = evaluate(expr, env)
        return {f.name: evaluate(f.merge, env) for f in self.fields}


def _needed(expr: Expr, steps: Mapping[str, Expr]) -> set[str]:
    """Names that the expression is made from, through all steps."""
    found: set[str] = set()
    todo = [expr]
    while todo:
        new = set(variables(todo.pop())) - found
        found |= new
        todo += [steps[n] for n in new if n in steps]
    return found
