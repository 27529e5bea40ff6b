"""DTensors in, DTensors out: what their placements say of rows and columns.

A mesh dimension along which the columns are sharded is the group of the exchange; one along which
an axis of rows is sharded stays as it is, and so does one of copies. Row values, lists and vectors
come out replicated along the columns' dimension, full rows sharded as they came in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError

COLUMNS: Final = 0
"""Beside axes of rows, which are -1, -2, … from the last."""


@dataclass(frozen=True)
class Placed:
    """How a call's arrays lie on their mesh."""

    mesh: Any
    along: tuple[int | None, ...]  # by mesh dimension: COLUMNS, an axis of rows, None: copies
    sizes: Mapping[int, int]  # of whole axes: of COLUMNS, and of rows

    @property
    def group(self) -> Any:
        """The ranks that a row lies on; None: each has whole rows."""
        return self.mesh.get_group(self.along.index(COLUMNS)) if COLUMNS in self.along else None

    @property
    def first(self) -> int:
        """The number of this rank's first column: shards are torch's chunks."""
        dim, n = self.along.index(COLUMNS), self.sizes[COLUMNS]
        return int(min(self.mesh.get_local_rank(dim) * -(-n // self.mesh.size(dim)), n))

    def result(self, local: Any, extent: g.Extent) -> Any:
        """A result of this rank's as one of all ranks'."""
        lead = max((-a for a in self.sizes if a < 0), default=0)
        columns = Shard(local.ndim - 1) if extent is g.Extent.ELEMENT else Replicate()
        placements = [Replicate() if a is None else columns if a == COLUMNS else Shard(lead + a)
                      for a in self.along]
        shape = [*(self.sizes[a] for a in range(-lead, 0)), *local.shape[lead:]]
        if extent is g.Extent.ELEMENT:
            shape[-1] = self.sizes[COLUMNS]
        strides = [1]
        for n in reversed(shape[1:]):
            strides.insert(0, strides[0] * max(n, 1))
        return DTensor.from_local(local, self.mesh, placements, run_check=False,
                                  shape=tuple(shape), stride=tuple(strides[: len(shape)]))


def are_placed(arrays: Sequence[Any]) -> bool:
    return any(isinstance(a, DTensor) for a in arrays)


def placed(name: str, graph: g.Graph, present: Mapping[str, Any]) -> Placed:
    """Raises ArgumentError for placements that rows cannot have."""
    for n, a in present.items():
        if not isinstance(a, DTensor):
            raise ArgumentError(
                f"{name} was given DTensors, and {n}, which is {type(a).__name__}",
                fix=f"torch.distributed.tensor.distribute_tensor({n}, mesh, …) makes one.")
    tensors = dict(present)
    mesh = next(iter(tensors.values())).device_mesh
    if any(a.device_mesh != mesh for a in tensors.values()):
        raise ArgumentError(f"the DTensors of {name} are on several meshes",
                            fix="Redistribute them to one.")
    spans = [(n, i.axis, tensors[n].ndim) for i in graph.inputs for n in [i.name]]
    most = max((_lead(axis, ndim) for _, axis, ndim in spans), default=0)
    axes = {n: _axes(axis, ndim, most) for n, axis, ndim in spans}
    along = tuple(_along(name, dim, axes, tensors) for dim in range(mesh.ndim))
    for axis in {a for a in along if a is not None}:
        if along.count(axis) > 1:
            raise ArgumentError(f"{_word(axis)} of {name} are sharded along several dimensions of "
                                "the mesh", fix="Redistribute: one dimension for each axis.")
    sizes: dict[int, int] = {}
    for n, where in axes.items():
        for each, size in zip(where, tensors[n].shape, strict=True):
            if each is not None:
                sizes[each] = max(size, sizes.get(each, 0))
    return Placed(mesh, along, sizes)


def _lead(axis: g.Axis, ndim: int) -> int:
    """How many axes of rows an input of the rows' and columns' axes has."""
    return 0 if axis in (g.Axis.PER_ROW, g.Axis.PER_COLUMN) else ndim - 1


def _axes(axis: g.Axis, ndim: int, lead: int) -> tuple[int | None, ...]:
    """What every axis of an input is: COLUMNS, an axis of rows, None: of vectors."""
    rows = tuple(range(-lead, 0))
    match axis:
        case g.Axis.PER_COLUMN:
            return (*rows[: ndim - 1], COLUMNS)
        case g.Axis.PER_ROW:  # with or without a last axis of 1
            return (*rows, COLUMNS)[:ndim] if ndim > lead else rows[lead - ndim :]
        case g.Axis.ROW_VECTOR:
            return (*rows[lead - ndim + 1 :], None)
        case g.Axis.COLUMN_VECTOR:
            return (*rows[lead - ndim + 1 : -1], COLUMNS, None)
        case _:
            return (*rows[lead - ndim + 1 :], COLUMNS)


def _along(
    name: str, dim: int, axes: Mapping[str, tuple[int | None, ...]], tensors: Mapping[str, Any]
) -> int | None:
    """What is sharded along one dimension of the mesh. Raises ArgumentError."""
    found: dict[str, int | None] = {}
    for n, where in axes.items():
        placement = tensors[n].placements[dim]
        if isinstance(placement, Partial):
            raise ArgumentError(f"{n} is {placement} along dimension {dim} of the mesh: parts of "
                                "sums, no elements", fix=f"{n}.redistribute(…) to Shard or "
                                "Replicate first, which adds them.")
        if type(placement) is Shard:
            found[n] = where[placement.dim]
        elif not isinstance(placement, Replicate):
            raise ArgumentError(f"{n} is placed as {placement}, which {name} has no rule for",
                                fix="Redistribute it to Shard or Replicate.")
        if n in found and found[n] is None:
            raise ArgumentError(f"{n} is sharded along its vectors' own axis",
                                fix="Shard rows or columns, or redistribute it to Replicate.")
    if not found:
        return None
    (axis, *others) = {*found.values()}
    left = [n for n, where in axes.items() if axis in where and n not in found
            and tensors[n].shape[where.index(axis)] > 1]
    if others or left:
        shown = ", ".join(f"{n} {tensors[n].placements[dim]}" for n in axes)
        raise ArgumentError(f"the arrays of {name} are cut apart differently along dimension {dim} "
                            "of the mesh", why=f"{shown}.",
                            fix="Redistribute: what has the sharded axis is sharded along it.")
    return axis


def _word(axis: int) -> str:
    return "the columns" if axis == COLUMNS else f"the rows (axis {axis} of them)"
