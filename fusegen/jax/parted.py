"""Types of arrays that a mesh of devices has in parts.

Within jax.shard_map an array's type says along which axes of the mesh it varies; all arrays of an
operation must vary along the same ones. A mesh whose axes are explicit has parts in the type as
well: rows of a pipeline are whole, so such arrays are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from fusegen.ir.errors import ArgumentError


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


def typed_like(aval: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The type of a result of this shape, from that of an operand. Raises ArgumentError."""
    parts = aval.sharding.spec
    if any(p is not None for p in parts):
        raise ArgumentError(
            f"an array is sharded explicitly, as {parts}",
            why="A pipeline does not know which of its axes a mesh may have in parts.",
            fix="Call it within jax.shard_map, or jax.sharding.auto_axes.")
    whole = jax.sharding.PartitionSpec(*[None] * len(shape))
    return aval.update(shape=shape, dtype=dtype, weak_type=False,
                       sharding=aval.sharding.update(spec=whole))
