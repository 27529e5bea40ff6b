"""The emitted fold, merge and finish of a pipeline, driven along every small tree of merges.

A *tree* of a row of n columns: cuts 0 ≤ i ≤ j ≤ n make three contiguous pieces, empty ones among
them; each is folded to a state of its own, and the states are merged in any order, to the left or
to the right. Both drivers call the emitted functions and add none of their own arithmetic.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from simt import compile_module

from fusegen.backend.cpu.compiled import compiled
from fusegen.backend.cuda.emit import cuda_source
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.launch import launches
from fusegen.backend.cuda.schedule.levels import Block, Thread, tree
from fusegen.backend.problem import Problem
from fusegen.backend.target import CUDA_TARGETS, CpuTarget, CudaTarget, host_cpu
from fusegen.compile.passes import Work, trace_pipeline
from fusegen.compile.typed import Typed
from fusegen.ir.dtypes import dtype_of
from fusegen.ir.kernel import Kernel, Param
from fusegen.pipeline.pipeline import Pipeline

Array = np.ndarray[Any, Any]
WORDS = 8  # of a tree: four cuts, the place of each piece in the merge, and the association


def trees(n_cols: int, unit: int = 1) -> Array:
    """Every tree of a row of `n_cols`, (n_trees, WORDS) int64; cuts at multiples of `unit`."""
    places = range(0, n_cols + 1, unit)
    cuts = [(0, i, j, n_cols) for i in places for j in places if i <= j]
    orders = itertools.permutations(range(3))
    found = [(*c, *o, right) for c, o, right in itertools.product(cuts, orders, (0, 1))]
    return np.array(found, np.int64)


Launch = Callable[[Kernel, Sequence[Array], int, int, Array], None]
"""Runs a kernel on its arrays, in parameter order: n_rows, n_cols, and the tree of each row."""


@dataclass(frozen=True)
class Driven:
    """One pipeline for one backend; `run` gives results for every row and tree."""

    work: Work
    launch: Launch

    def run(self, inputs: Mapping[str, Array], shapes: Array) -> tuple[Array, ...]:
        """Results in the order of the outputs, each (n_rows, n_trees, …)."""
        (kernel,) = self.work.program.kernels
        n_rows, n_cols = next(a.shape for a in inputs.values() if a.ndim == 2)
        total = n_rows * len(shapes)
        given = {self.work.graph.names[i]: inputs[i.name] for i in self.work.graph.inputs}
        arrays = {name: np.repeat(array, len(shapes), axis=0) for name, array in given.items()}
        results = {p.name: _blank(p, total, n_cols) for p in self.work.program.outputs}
        every = [{**arrays, **results}[p.name] for p in kernel.params]
        self.launch(kernel, every, total, n_cols, np.tile(shapes, (n_rows, 1)))
        return tuple(r.reshape(n_rows, len(shapes), *r.shape[1:]) for r in results.values())


def _blank(param: Param, rows: int, n_cols: int) -> Array:
    shape = {"element": (rows, n_cols), "row": (rows,)}.get(param.shape, (rows, param.k))
    return np.full(shape, -77).astype(param.dtype.numpy)


def drive(
    pipeline: Pipeline, inputs: Mapping[str, Array], constants: Mapping[str, Any],
    target: CpuTarget | CudaTarget,
) -> Driven:
    """Emit the online form for the target, add the driver, compile.

    CPU chunks are one vector, so that the pivot moves inside a piece as well.
    """
    dtypes = {n: dtype_of(a.dtype) for n, a in inputs.items()}
    traced = trace_pipeline(pipeline, frozenset(inputs), dict(constants))
    chunk = target.vector_bytes // 4 if isinstance(target, CpuTarget) else None
    problem = Problem(dtypes=dtypes, n_rows=100_000, n_cols=3000)
    work = Work(Typed(traced, dtypes, "online"), target, problem, chunk)
    launch = _cpu_launch(work) if isinstance(target, CpuTarget) else _cuda_launch(work)
    return Driven(work, launch)


HOST = host_cpu()
GPU = CUDA_TARGETS["sm_90"]


# ---- C++ ----


def _cpu_launch(work: Work) -> Launch:
    (kernel,) = work.program.kernels
    source = work.source + _cpu_driver(kernel)
    library = compiled(source, work.schedule.target, kernel.name, ["drive"])

    def launch(
        kernel: Kernel, arrays: Sequence[Array], n_rows: int, n_cols: int, shapes: Array
    ) -> None:
        words: list[int] = []
        for param, array in zip(kernel.params, arrays, strict=True):
            words.append(array.ctypes.data)
            if param.shape in ("element", "row"):
                words.append(array.strides[0] // array.itemsize)
        table = (ctypes.c_int64 * (len(words) + 1))(*words, n_cols)
        drive = library.function("drive", ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        drive(table, n_rows, shapes.ctypes.data)

    return launch


def _cpu_driver(kernel: Kernel) -> str:
    """Calls the entry points that threads sharing a row call, along the tree of each row."""
    k = kernel.name
    lines = []
    if kernel.prelude:
        lines.append(f"{k}_begin(arrays, r, known);")
    for s in kernel.sweeps:
        n = s.number
        if s.monoid.is_empty:
            if s.element_stores:
                lines.append(f"{k}_fold_{n}(arrays, r, 0, t[3], known, nullptr);")
            if s.steps or s.row_stores or s.list_stores:
                lines.append(f"{k}_finish_{n}(arrays, r, 0, known, nullptr);")
            continue
        lines += [
            f"const int64_t size_{n} = {k}_state_bytes_{n}();",
            "for (int piece = 0; piece < 3; ++piece)",
            f"    {k}_fold_{n}(arrays, r, t[piece], t[piece + 1], known, "
            f"room + t[4 + piece] * size_{n});",
            f"if (t[7]) {k}_finish_{n}(arrays, r, 2, known, room + size_{n});",
            f"{k}_finish_{n}(arrays, r, t[7] ? 2 : 3, known, room);",
        ]
    body = "\n        ".join(lines)
    return f"""
extern "C" void drive(const {k}::Arrays* arrays, int64_t rows, const int64_t* trees)
{{
    alignas(64) static char room[1 << 16], known[1 << 12];
    for (int64_t r = 0; r < rows; ++r) {{
        const int64_t* t = trees + {WORDS} * r;
        {body}
    }}
}}
"""


# ---- CUDA ----

_FOLD = re.compile(
    r" +(?P<state>\w+) (?P<folded>folded\d+) = (?P=state)::identity\(\);\n"
    r"(?P<loop>.*?)"
    r" +const (?P=state) (?P<total>\w+) = block_reduce<Team>\((?P=folded), \w+\);\n",
    re.DOTALL,
)
_ALONG_A_TREE = r"""
        const long long* t = trees + 8 * row;
        \g<state> pieces[3];
        for (int piece = 0; piece < 3; ++piece) {
            const column_t begin = t[piece], end = t[piece + 1];
            \g<state> \g<folded> = \g<state>::identity();
\g<loop>
            pieces[t[4 + piece]] = \g<folded>;
        }
        const \g<state> \g<total> = t[7] ? merge(pieces[0], merge(pieces[1], pieces[2]))
                                  : merge(merge(pieces[0], pieces[1]), pieces[2]);
"""


def _cuda_launch(work: Work) -> Launch:
    """The emitted kernel run by one thread, its walk over the row made three walks, in chunks of
    two elements, so that the pivot moves inside a piece as well."""
    work = work.scheduled(
        CudaSchedule(target=GPU, levels=tree(Thread(2, 1), 64, Block(64)), load="scalar")
    )
    with patch("fusegen.backend.cuda.emit.source.merges_states", lambda *_: True):
        text = cuda_source(work.program, work.schedule).text()
    source, found = _FOLD.subn(_ALONG_A_TREE, text)
    assert found, "no state is folded"
    last = "long long n_cols_wide"
    source = source.replace(f"{last})", f"{last}, const long long* trees)")
    module = compile_module(source, check=False)
    (emitted,) = launches(work.program, work.schedule)

    def launch(
        kernel: Kernel, arrays: Sequence[Array], n_rows: int, n_cols: int, shapes: Array
    ) -> None:
        strides = [n_cols for p in kernel.params if p.shape == "element"]
        written = {i for i, p in enumerate(kernel.params) if p.output}
        args = [*arrays, *strides, n_rows, n_cols, shapes]
        module.launch(emitted.symbol, (n_rows,), (1,), args, outputs=written)

    return launch
