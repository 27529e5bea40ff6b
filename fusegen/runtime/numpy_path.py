"""Running without any compiler: the text as written, in blocks of rows, on a pool of threads.

NumPy releases the interpreter lock inside its loops, so threads help; a block's intermediate values
fit a core's cache, so memory is read about once. Floats are kept in float32 (float64 for float64).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen import graph as g
from fusegen.dtypes import BOOL, FLOAT64, INT64, DType
from fusegen.kernel import Param
from fusegen.kinds import infer_kinds
from fusegen.ops import saturate
from fusegen.reference import Array, evaluate
from fusegen.runtime.threads import share, thread_count

BLOCK_BYTES = 1 << 20  # of one intermediate value: a few of them fit a core's second-level cache

Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumpyExecutable:
    """A pipeline run by the reference interpreter; same calling convention as compiled ones."""

    graph: g.Graph
    dtypes: Mapping[str, DType]  # by input name
    outputs: tuple[Param, ...]
    compute: DType

    def __call__(
        self, arrays: Mapping[str, Array], n_rows: int, n_cols: int,
        threads: int | None = None, progress: Progress | None = None,
    ) -> None:  # fmt: skip
        """Fill the output arrays of `arrays` (by parameter name)."""
        float_dtype = np.float64 if self.compute == FLOAT64 else np.float32
        step = max(1, BLOCK_BYTES // (n_cols * np.dtype(float_dtype).itemsize))
        blocks = -(-n_rows // step)

        def block(number: int) -> None:
            start = number * step
            stop = min(start + step, n_rows)
            inputs = {
                i.name: _block(arrays[self.graph.names[i]], i.axis, start, stop)
                for i in self.graph.inputs
            }
            found = evaluate(self.graph, inputs, self.dtypes, n_cols, float_dtype)
            for param, value in zip(self.outputs, found, strict=True):
                _store(arrays[param.name][start:stop], value, param)

        report = None if progress is None else lambda done: progress(done / blocks)
        share(blocks, block, thread_count(threads), report)


def _block(array: Array, axis: g.Axis, start: int, stop: int) -> Array:
    match axis:
        case g.Axis.ELEMENT:
            return array[start:stop]
        case g.Axis.PER_COLUMN:
            return array[None, :]
        case g.Axis.PER_ROW:
            return array[start:stop, None]


def _store(target: Array, value: Any, param: Param) -> None:
    """Write a result in its own type: integers saturate, floats round."""
    whole = np.broadcast_to(value, (len(target), value.shape[-1] if value.ndim else 1))
    if param.shape == "row":
        whole = whole[:, 0]
    if param.dtype.kind == "int" and whole.dtype.kind != "b":
        whole = saturate(whole, param.dtype.numpy)
    with np.errstate(all="ignore"):
        target[...] = whole


def oracle(graph: g.Graph, dtypes: Mapping[str, DType]) -> NumpyExecutable:
    """The text in float64 and int64, results unrounded: what every other backend is held to."""
    kinds = infer_kinds(graph, dtypes)
    wide = {"float": FLOAT64, "int": INT64, "bool": BOOL}
    outputs = []
    for node, name in zip(graph.outputs, graph.output_names, strict=True):
        dtype = wide[kinds[node]]
        match g.extent(node):
            case g.Extent.ELEMENT:
                outputs.append(Param(name, dtype, "element", output=True))
            case g.Extent.ROW:
                outputs.append(Param(name, dtype, "row", output=True))
            case g.Extent.LIST:
                (top,) = g.lists_of(node)
                outputs.append(Param(name, dtype, "list", output=True, k=top.k))
    return NumpyExecutable(graph=graph, dtypes=dtypes, outputs=tuple(outputs), compute=FLOAT64)
