"""Exported pipelines, loaded: what a server calls. No compiler, no proofs: prebuilt code alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fusegen.backend.arrays.adopt import adopt_all, one_memory
from fusegen.backend.arrays.columns import Rule
from fusegen.backend.arrays.layout import Layout, lay_out
from fusegen.backend.arrays.rows import Axes
from fusegen.backend.backend import Executable
from fusegen.backend.export.opened import Opened, opened
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType, dtype_of
from fusegen.ir.errors import ArgumentError
from fusegen.ir.loc import Loc
from fusegen.lang.signature import Signature, check_flag
from fusegen.pipeline.call import run_on
from fusegen.pipeline.prebuilt import Prebuilt
from fusegen.pipeline.remembered import Recall, Served


@dataclass(frozen=True, slots=True)
class _Ran:
    """See `remembered.Ran`."""

    layout: Layout
    executable: Executable
    constants: Mapping[str, Any] = field(default_factory=dict)  # none: they are part of the code


class Loaded(Served):
    """A pipeline that `export` wrote and `fusegen.load` read: call it with arrays.

    It takes the types that it was exported for, on the processors and GPUs that it was exported
    for; the constants are those of the export. Rows of any number and length.
    """

    def __init__(self, found: Opened) -> None:
        record = found.record
        self.name: str = record["name"]
        self.path = found.path
        self.constants: Mapping[str, str] = record["constants"]
        self.dtypes: tuple[Mapping[str, str], ...] = tuple(record["variants"].values())
        arrays = tuple(record["arrays"])
        self.signature = Signature(self.name, arrays, frozenset(record["optional"]), {})
        self._rules = tuple(Rule(**rule) for rule in record["rules"])
        self._recall = Recall(arrays)
        graph = _graph(record)
        self._variants = [
            ({n: dtype_of(d) for n, d in dtypes.items()},
             Prebuilt(graph, found.functions, _parts(record, label)))
            for label, dtypes in record["variants"].items()
        ]

    def __repr__(self) -> str:
        constants = "".join(f", {n}={v}" for n, v in self.constants.items())
        return f"<fusegen library {self.name}({', '.join(self.signature.arrays)}{constants})>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Loaded again where it is unpickled, from the same path."""
        return load, (str(self.path),)

    def _look(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any,
        rest: tuple[Axes, bool],
    ) -> Any:
        axis, keepdims = rest
        adopted = adopt_all(self.signature.bind_arrays(arrays, named))
        one_memory(adopted)
        variant = self._variant({n: a.dtype for n, a in adopted.items()})
        memory = next(iter(adopted.values())).memory
        layout = lay_out(variant.graph, variant.params(memory), adopted, axis, out,
                         check_flag("keepdims", keepdims))
        for rule in self._rules:
            rule.check(layout.rows.n_cols)
        call = _Ran(layout, variant.on(memory))
        if layout.rows.n_rows:
            run_on(call.executable, layout)
        self._recall.learn(call, arrays, named, out, rest)
        return layout.hand_back()

    def _variant(self, dtypes: Mapping[str, DType]) -> Prebuilt:
        for wanted, variant in self._variants:
            if wanted == dtypes:
                return variant
        shown = ", ".join(f"{n} {d}" for n, d in dtypes.items())
        known = "; ".join(", ".join(f"{n} {d}" for n, d in w.items()) for w, _ in self._variants)
        raise ArgumentError(f"called with {shown}", why=f"It was exported for {known}.",
                            fix="Export it for that type as well, or convert the arrays.")


def load(path: str | os.PathLike[str]) -> Loaded:
    """The pipeline that `export` wrote: from its folder, or from the .so in it, whose code is run.

    Raises ArgumentError where there is none, BackendError where it is not for this machine or this
    version of fusegen.
    """
    return Loaded(opened(Path(path)))


def _parts(record: Mapping[str, Any], label: str) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for part in record["parts"]:
        if part["variant"] == label:
            found.setdefault(part["backend"], []).append(part)
    return found


def _graph(record: Mapping[str, Any]) -> g.Graph:
    """The inputs and the nesting of the results: all that arrays are laid out by."""
    nowhere = Loc("", 0, "")
    inputs = [g.Input(n, g.Axis(axis), nowhere) for n, _, axis in record["inputs"]]
    kernels = [kernel for _, kernel, _ in record["inputs"]]
    return g.Graph(
        name=record["name"], loc=nowhere, inputs=tuple(inputs), nodes=(), outputs=(),
        output_names=(), structure=_nesting(record["structure"]), named=frozenset(),
        names=dict(zip(inputs, kernels, strict=True)), constants=())


def _nesting(text: Any) -> g.Structure:
    if isinstance(text, int):
        return text
    ((kind, parts),) = text.items()
    if kind == "dict":
        return {k: _nesting(p) for k, p in parts}
    found = [_nesting(p) for p in parts]
    return found if kind == "list" else tuple(found)
