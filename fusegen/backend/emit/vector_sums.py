"""Sums of vectors as tiles make them: weights of columns, times the columns' vectors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fusegen.ir.expr import (
    Call,
    Expr,
    Lit,
    Var,
    factors_of,
    product,
    substitute,
    variables,
)
from fusegen.ir.kernel import InnerStep, Kernel, Param, Step, Sweep
from fusegen.ir.monoid import Folded, Moving


def vectors_of(kernel: Kernel) -> dict[str, Param]:
    """Arrays of vectors that the kernel reads, by name."""
    shapes = ("row_vector", "column_vector")
    return {p.name: p for p in kernel.params if p.shape in shapes and not p.output}


def numbered(expr: Expr, vectors: dict[str, Param]) -> Expr:
    """The expression over number `i` of every vector."""
    return substitute(expr, {n: Var(f"{n}_i", v.kind, v.varying)
                             for n, v in variables(expr).items() if n in vectors})


@dataclass(frozen=True)
class Weight:
    """Numbers of one column each that a sum of vectors is made with, in a tile."""

    name: str
    value: Expr


@dataclass(frozen=True)
class VectorSum:
    """A component that holds a vector. `array`: where it is Σ weight · vector per column, that
    array; else it is folded column by column, over its weights and any vectors."""

    name: str
    length: int
    weights: tuple[Weight, ...]
    array: str
    value: Expr
    fold: Folded | None  # None: a moving sum

    def columns(self, arrays: Mapping[str, Param]) -> tuple[str, ...]:
        """Arrays of columns' vectors that it is made of."""
        return tuple(n for n in variables(self.value)
                     if n in arrays and arrays[n].shape == "column_vector")


def sums_of_state(step: Step, sums: Collection[str]) -> list[str]:
    """Those of the state's vectors that a row value is a sum over the index of."""
    if not isinstance(step, InnerStep):
        return []
    return [n for n in sums if f"state.{n}" in variables(step.value)]


def sums_over_state(kernel: Kernel) -> bool:
    """Is a row value a sum over the index of a vector that the row makes?"""
    return any(sums_of_state(step, [s.name for s in vector_sums(kernel, sweep)])
               for sweep in kernel.sweeps for step in sweep.steps)


def vector_sums(kernel: Kernel, sweep: Sweep) -> tuple[VectorSum, ...]:
    """The sweep's components that hold vectors."""
    vectors = vectors_of(kernel)
    found = []
    components: tuple[Folded | Moving, ...] = (*sweep.monoid.folded, *sweep.monoid.moving)
    for component in components:
        if component.width > 1:
            found.append(_vector_sum(component, vectors))
    return tuple(found)


def _vector_sum(component: Folded | Moving, vectors: dict[str, Param]) -> VectorSum:
    lift = component.lift
    fold = component if isinstance(component, Folded) else None

    def made(weight: Expr, array: str) -> VectorSum:
        one = Weight(f"{component.name}_weight", weight)
        return VectorSum(component.name, component.width, (one,), array, lift, fold)

    def is_columns(expr: Expr) -> bool:
        return isinstance(expr, Var) and expr.name in vectors and (
            vectors[expr.name].shape == "column_vector")

    if lift.kind == "float" and (fold is None or fold.fold == "sum"):
        match lift:
            case Var(name=name) if is_columns(lift):
                return made(Lit(1.0), name)
            case Call(op="mul"):
                factors = factors_of(lift, ("mul",))
                rest = [f for f in factors if not vectors.keys().isdisjoint(variables(f))]
                if len(rest) == 1 and is_columns(rest[0]):
                    assert isinstance(rest[0], Var)
                    return made(product([f for f in factors if f is not rest[0]]), rest[0].name)
    weights: dict[Expr, Weight] = {}
    value = _weighed(component.name, lift, vectors, weights)
    return VectorSum(component.name, component.width, tuple(weights.values()), "", value, fold)


def _weighed(
    name: str, expr: Expr, vectors: dict[str, Param], weights: dict[Expr, Weight]
) -> Expr:
    """The expression over vectors and names of weights: its numbers of one column each."""
    if expr.varying and not any(n in vectors for n in variables(expr)):
        found = weights.setdefault(expr, Weight(f"{name}_weight_{len(weights) + 1}", expr))
        return Var(found.name, expr.kind, varying=True)
    if isinstance(expr, Call):
        return Call(expr.op, tuple(_weighed(name, a, vectors, weights) for a in expr.args))
    return expr
