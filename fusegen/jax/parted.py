"""Arrays that a mesh of devices has in parts: rows may lie anywhere, each of them is whole.

A call whose rows are in parts runs where they are, without communication; what is parted along
reduced axes is gathered first. A mesh's axes may be automatic (XLA's partitioner asks, and hands
the parts over), explicit (types say how arrays are parted), or manual (jax.shard_map, whose types
say along which axes an array varies).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
from jax import numpy as jnp
from jax._src import dispatch
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    PartitionSpec,
    auto_axes,
    use_abstract_mesh,
)

from fusegen.backend.arrays.rows import Rows, tail_of
from fusegen.backend.memory import Memory
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError
from fusegen.ir.kernel import Param
from fusegen.ir.vectors import row_numbers
from fusegen.jax import shapes
from fusegen.jax.asked import Asked
from fusegen.jax.lowered import lowered

ASKING: set[Any] = set()  # primitives that `in_parts` lowers
Spec = Any  # a tuple: of each axis what it has, None for nothing


def aligned(arrays: Sequence[Any]) -> Sequence[Any]:
    """The arrays, all of them varying where one does."""
    varies = [_varying(jax.typeof(a)) for a in arrays]
    every = frozenset[str]().union(*varies)
    return arrays if all(v == every for v in varies) else [
        jax.lax.pcast(a, tuple(sorted(every - v)), to="varying") if v != every else a
        for a, v in zip(arrays, varies, strict=True)]


def _varying(aval: Any) -> frozenset[str]:
    kind = getattr(aval, "manual_axis_type", None)  # JAX before 0.10 has `vma` alone
    found: frozenset[str] = getattr(aval, "vma", frozenset()) if kind is None else kind.varying
    return found


@dataclass(frozen=True)
class Places:
    """Which axes of a call's arrays are axes of its rows."""

    inputs: tuple[g.Input, ...]  # in the order of the operands
    rows: Rows
    outputs: tuple[Param, ...]
    whole: tuple[int, ...] = ()  # of the rows' axes, counted from 1, those that are in no parts

    @staticmethod
    def of(asked: Asked, arrays: Sequence[Any]) -> Places:
        variants = asked.variants(arrays)
        by_name = {i.name: i for i in variants.graph.inputs}
        rows = shapes.rows_in(variants.graph.inputs, asked.named(arrays), asked.axis,
                              asked.keepdims)
        numbered = row_numbers(variants.graph) is not None and bool(rows.lead)
        return Places(tuple(by_name[n] for n in asked.names), rows, variants.program.outputs,
                      (len(rows.lead),) if numbered else ())  # a row's number is one of them all

    def of_input(self, node: g.Input, shape: Sequence[int], lead: Spec, other: Spec) -> Spec:
        """What an input's axes have where the rows' have `lead`, the reduced ones `other`; axes
        along which it is broadcast have None."""
        if node.axis is g.Axis.PER_COLUMN and not g.have_vectors(self.inputs):
            return other if len(shape) == len(other) else (None,)
        rows: Any = replace(self.rows, lead=lead)
        whole, sizes = rows.placed(other, rows.axes), self.rows.whole
        match node.axis:
            case g.Axis.PER_ROW if len(shape) < len(whole):
                whole, sizes = lead, self.rows.lead
            case g.Axis.ROW_VECTOR:
                whole, sizes = (*lead, None), (*self.rows.lead, shape[-1])
            case g.Axis.PER_COLUMN:
                whole, sizes = (*lead[:-1], *other), (*self.rows.lead[:-1], *self.rows.cols)
            case g.Axis.COLUMN_VECTOR:
                whole = (*lead[:-1], *other, None)
                sizes = (*self.rows.lead[:-1], *self.rows.cols, shape[-1])
        n = len(whole) - len(shape)
        return tuple(w if size == of else None
                     for w, size, of in zip(whole[n:], shape, sizes[n:], strict=True))

    def of_output(self, param: Param, lead: Spec, other: Spec) -> Spec:
        """What an output's axes have."""
        sizes, places = tail_of(self.rows, param.shape, param.k)
        tail = other if param.shape == "element" else (None,) * len(sizes)
        made: Any = replace(self.rows, lead=lead)
        return made.placed(tail, places)

    def lead_of(self, arrays: Sequence[Any], specs: Sequence[Spec]) -> Spec:
        """How the rows are parted: along each axis as the first array that says so is."""
        found: list[Any] = [None] * len(self.rows.lead)
        used: set[Any] = set()
        numbers = tuple(range(1, len(found) + 1))
        none = (None,) * len(self.rows.cols)
        for node, array, spec in zip(self.inputs, arrays, specs, strict=False):
            places = self.of_input(node, array.shape, numbers, none)
            for place, part in zip(places, spec, strict=True):
                names = {part} if isinstance(part, str) else {*(part or ())}
                free = place and place not in self.whole and found[place - 1] is None
                if free and part and not names & used:
                    found[place - 1] = part
                    used |= names
        return tuple(found)

    def shardings(self, mesh: Any, given: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Of operands, of which numbers have no axes, and of results."""
        every, none = jax.tree.leaves(given), (None,) * len(self.rows.cols)
        lead = self.lead_of(every, [_named(a) for a in every])
        wanted = [self.of_input(i, a.shape, lead, none)
                  for i, a in zip(self.inputs, every, strict=False)]
        wanted += [()] * (len(every) - len(wanted))
        made = [self.of_output(p, lead, none) for p in self.outputs]
        operands, results = (tuple(NamedSharding(mesh, PartitionSpec(*spec)) for spec in specs)
                             for specs in (wanted, made))
        return operands, results

    def rule(self, arrays: Sequence[Any]) -> tuple[str, tuple[str, ...]]:
        """Shardy's, and which of its factors are whole: `r0 c0, r0, c0 -> r0 c0`. An axis that is
        no axis of the rows has a factor of its own."""
        lead = tuple(f"r{i}" for i in range(len(self.rows.lead)))
        other = tuple(f"c{i}" for i in range(len(self.rows.cols)))
        count = itertools.count()

        def spelled(spec: Spec) -> str:
            return " ".join(s or f"o{next(count)}" for s in spec)

        given = [self.of_input(i, a.shape, lead, other)
                 for i, a in zip(self.inputs, arrays, strict=False)]
        given += [()] * (len(arrays) - len(given))
        made = [self.of_output(p, lead, other) for p in self.outputs]
        text = f"{', '.join(map(spelled, given))} -> {', '.join(map(spelled, made))}"
        whole = {*other, *(lead[i - 1] for i in self.whole)}  # in the order in which they are met
        return text, tuple(dict.fromkeys(c for s in (*given, *made) for c in s if c in whole))


# ---- explicit: parts are in the types ----


def typed(asked: Asked, arrays: Sequence[Any], results: Sequence[tuple[Any, Any]]) -> list[Any]:
    """The types of results of these shapes and types. Raises ArgumentError where arrays are parted
    in ways that do not go together."""
    aval = arrays[0]
    specs = [spec_of(a) for a in arrays[: len(asked.names)]]
    wholes: list[Spec] = [(None,) * len(shape) for shape, _ in results]
    if any(part is not None for spec in specs for part in spec):
        places = Places.of(asked, arrays)
        lead, none = places.lead_of(arrays, specs), (None,) * len(places.rows.cols)
        for name, node, array, spec in zip(asked.names, places.inputs, arrays, specs, strict=False):
            wanted = places.of_input(node, array.shape, lead, none)
            if any(s is not None and s != w for s, w in zip(spec, wanted, strict=True)):
                raise ArgumentError(
                    f"{name} is sharded explicitly, as {PartitionSpec(*spec)}",
                    why="Rows are whole, and those of one call lie together: here that would be "
                    f"{PartitionSpec(*wanted)}.",
                    fix="jax.sharding.reshard it first, or call within jax.shard_map.")
        wholes = [places.of_output(p, lead, none) for p in places.outputs]
    return [aval.update(shape=shape, dtype=dtype, weak_type=False,
                        sharding=aval.sharding.update(spec=PartitionSpec(*whole)))
            for (shape, dtype), whole in zip(results, wholes, strict=True)]


def typed_like(aval: Any, shape: tuple[int, ...], dtype: Any, like: Any = None) -> Any:
    """The type of an array of this shape: parted as another, or not at all."""
    whole = [None] * len(shape) if like is None else like
    return aval.update(shape=shape, dtype=dtype, weak_type=False,
                       sharding=aval.sharding.update(spec=PartitionSpec(*whole)))


def zeros_in_parts(shape: tuple[int, ...], dtype: Any, spec: Spec) -> Any:
    """Zeros of the type that `typed_like` gives."""
    if all(part is None for part in spec):
        return jnp.zeros(shape, dtype)
    return jnp.zeros(shape, dtype, out_sharding=PartitionSpec(*spec))


def spec_of(aval: Any) -> Spec:
    """How the type says it is parted."""
    parts = tuple(aval.sharding.spec)
    return parts + (None,) * (aval.ndim - len(parts))


# ---- automatic: XLA's partitioner asks ----


def in_parts(memory: Memory, *arrays: Any, asked: Asked) -> Sequence[Any]:
    """As `lowered`; in a program for several devices, of rows where they are."""
    if not is_asked():
        return lowered(memory, *arrays, asked=asked)
    places = Places.of(asked, arrays)
    none = (None,) * len(places.rows.cols)

    def run(*parts: Any) -> Any:
        return tuple(lowered(memory, *parts, asked=asked))

    def on_one(*parts: Any) -> Any:
        with use_abstract_mesh(AbstractMesh((), (), ())):  # types say nothing of the mesh there
            return run(*parts)

    def partition(mesh: Any, given: Any, _results: Any) -> Any:
        operands, results = places.shardings(mesh, given)
        return mesh, on_one, results, operands

    rule, reduced = places.rule(arrays)
    made = custom_partitioning(run)
    made.def_partition(
        partition, lambda mesh, given, _results: places.shardings(mesh, given)[1],
        sharding_rule=rule, need_replication_factors=reduced)
    mesh = jax.typeof(arrays[0]).sharding.mesh
    if all(kind is not AxisType.Explicit for kind in mesh.axis_types or ()):
        return made(*arrays)  # type: ignore[no-any-return]
    lead = places.lead_of(arrays, [spec_of(jax.typeof(a)) for a in arrays])
    types = tuple(PartitionSpec(*places.of_output(p, lead, none)) for p in places.outputs)
    return auto_axes(made, out_sharding=types)(*arrays)  # type: ignore[no-any-return]


@cache
def is_asked() -> bool:
    """Are there several devices, whose partitioner asks? JAX looks at primitives to know that."""
    asking: set[Any] | None = getattr(dispatch, "prim_requires_devices_during_lowering", None)
    if jax.device_count() == 1 or asking is None:
        return False
    asking.update(ASKING)
    return True


def _named(array: Any) -> Spec:
    parts = tuple(getattr(array.sharding, "spec", ()))
    return parts + (None,) * (len(array.shape) - len(parts))
