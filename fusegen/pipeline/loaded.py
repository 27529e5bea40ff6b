"""Exported pipelines, loaded: what a server calls. No compiler, no proofs: prebuilt code alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fusegen.backend.arrays.adopt import adopt_all, one_memory
from fusegen.backend.arrays.columns import Rule
from fusegen.backend.arrays.layout import Layout, lay_out
from fusegen.backend.arrays.rows import Axes
from fusegen.backend.arrays.vectors import types_of
from fusegen.backend.executable import Executable
from fusegen.backend.export.opened import Opened, opened
from fusegen.backend.exported import number_name
from fusegen.backend.scalars import scalars_in
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType, dtype_of
from fusegen.ir.errors import ArgumentError
from fusegen.ir.literals import fits_float, plain
from fusegen.ir.loc import Loc
from fusegen.ir.varying import Formula, Guard
from fusegen.lang.blame import blames
from fusegen.lang.signature import Signature, check_flag, check_path
from fusegen.pipeline.call import run_on
from fusegen.pipeline.prebuilt import Prebuilt
from fusegen.pipeline.remembered import Recall, Served


@dataclass(frozen=True, slots=True)
class _Ran:
    """See `remembered.Ran`."""

    layout: Layout
    executable: Executable
    constants: Mapping[str, float]


class Loaded(Served):
    """A pipeline that `export` wrote and `fusegen.load` read: call it with arrays.

    It takes the types that it was exported for, on the processors and GPUs that it was exported
    for. `numbers`: constants that calls may give, with the values of the export; `constants`: those
    that are part of the code. Rows of any number and length.
    """

    def __init__(self, found: Opened) -> None:
        record = found.record
        self.name: str = record["name"]
        self.path = found.path
        self.constants: Mapping[str, str] = record["constants"]
        self.numbers: Mapping[str, float] = record["numbers"]
        self.dtypes: tuple[Mapping[str, str], ...] = tuple(record["variants"].values())
        arrays = tuple(record["arrays"])
        self.signature = Signature(self.name, arrays, frozenset(record["optional"]),
                                   self.numbers)
        self._rules = tuple(Rule(**rule) for rule in record["rules"])
        self._vectors = frozenset(n for inputs in record["inputs"].values() for n, _, axis in inputs
                                  if g.Axis(axis) in g.VECTORS)
        self._recall = Recall(arrays)
        self._variants = [
            ({n: dtype_of(d) for n, d in dtypes.items()},
             Prebuilt(_graph(record, label), found.functions, _parts(record, label)))
            for label, dtypes in record["variants"].items()
        ]

    def __repr__(self) -> str:
        every = {**self.constants, **self.numbers}
        constants = "".join(f", {n}={v}" for n, v in every.items())
        arrays = ", ".join(n for n in self.signature.arrays if n not in self.signature.optional)
        return f"<fusegen library {self.name}({arrays}{constants})>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Loaded again where it is unpickled, from the same path."""
        return load, (str(self.path),)

    def _look(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any,
        rest: tuple[Axes, bool],
    ) -> Any:
        axis, keepdims = rest
        adopted = adopt_all(self._bound(arrays, named))
        one_memory(adopted)
        variant = self._variant(types_of(adopted, self._vectors))
        constants = self._constants(variant, named)
        memory = next(iter(adopted.values())).memory
        strips = getattr(variant.on(memory), "takes_side_by_side", False)
        layout = lay_out(variant.graph, variant.params(memory), adopted, axis, out,
                         check_flag("keepdims", keepdims), strips)
        for rule in self._rules:
            rule.check(layout.rows.n_cols)
        if constants:
            layout = replace(layout, arrays={
                **layout.arrays, **scalars_in(variant.graph, layout.params, constants),
                **{number_name(n): np.float64(v) for n, v in constants.items()}})
        call = _Ran(layout, variant.on(memory), constants)
        if layout.rows.n_rows:
            run_on(call.executable, layout)
        self._recall.learn(call, arrays, named, out, rest)
        return layout.hand_back()

    def _bound(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays by name. Raises ArgumentError for those, and for constants, that the library was
        not exported with."""
        for name in named:
            if name in self.constants:
                raise ArgumentError(f"{self.name} got {name}",
                                    why=f"The library is for {name}={self.constants[name]}.",
                                    fix="Export it for another, into a folder of its own.")
        by_name = {n: v for n, v in named.items() if n not in self.numbers}
        found = self.signature.bind_arrays(arrays, by_name)
        extra = [n for n in found if n in self.signature.optional]
        if extra:
            given = ", ".join([n for n in self.signature.arrays if n in found])
            raise ArgumentError(f"{self.name} got {', '.join(extra)}",
                                why=f"It was exported without {' and '.join(extra)}.",
                                fix=f"Export it for {given}: inputs=(…) names the optional ones, "
                                "--with on the command line.")
        return found

    def _constants(self, variant: Prebuilt, named: Mapping[str, Any]) -> dict[str, float]:
        """What the call says of constants, as the library's functions check it. Raises
        ArgumentError."""
        found = {n: _float(self.name, n, named.get(n, usual)) for n, usual in self.numbers.items()}
        for guard in variant.graph.guards:
            if not guard.holds(found):
                said = ", ".join(f"{n} is {found[n]!r}" for n in sorted(guard.names))
                raise ArgumentError(f"{self.name}: {said}", why=f"Exported for {guard.said}.",
                                    fix="Export it for such numbers as well, into a folder of "
                                    "its own.")
        return found

    def _variant(self, dtypes: Mapping[str, DType]) -> Prebuilt:
        for wanted, variant in self._variants:
            if wanted == dtypes:
                return variant
        shown = ", ".join(f"{n} {d}" for n, d in dtypes.items())
        known = "; ".join(", ".join(f"{n} {d}" for n, d in w.items()) for w, _ in self._variants)
        raise ArgumentError(f"called with {shown}", why=f"It was exported for {known}.",
                            fix="Export it for that type as well, or convert the arrays.")


@blames
def load(path: str | os.PathLike[str]) -> Loaded:
    """The pipeline that `export` wrote: from its folder, or from the .so in it, whose code is run.

    Raises ArgumentError where there is none, BackendError where it is not for this machine or this
    version of fusegen.
    """
    return Loaded(opened(check_path("the library", path)))


def _parts(record: Mapping[str, Any], label: str) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for part in record["parts"]:
        if part["variant"] == label:
            found.setdefault(part["backend"], []).append(part)
    return found


def _graph(record: Mapping[str, Any], label: str) -> g.Graph:
    """The inputs and the nesting of the results: all that arrays are laid out by; what kernels get
    of the constants, and what has to hold of them."""
    nowhere = Loc("", 0, "")
    arrays: dict[g.Node, str] = {
        g.Input(n, g.Axis(axis), nowhere): kernel
        for n, kernel, axis in record["inputs"][label]}
    scalars: dict[g.Node, str] = {
        g.Input(n, g.Axis.SCALAR, nowhere, _formula(formula)): kernel
        for n, kernel, formula in record["scalars"][label]}
    numbered = () if record["names"] is None else (g.RowNumber(nowhere),)
    return g.Graph(
        name=record["name"], loc=nowhere, inputs=g.arrays_in(arrays), nodes=(*scalars, *numbered),
        outputs=(), output_names=tuple(record["names"] or ()),
        structure=_nesting(record["structure"]), named=frozenset(),
        names={**arrays, **scalars}, constants=(), varying=frozenset(record["numbers"]),
        guards=tuple(Guard(question, tuple(map(_formula, args)), answer)
                     for question, args, answer in record["guards"][label]))


def _formula(text: Any) -> Formula:
    return tuple(map(_formula, text)) if isinstance(text, list) else text


def _float(pipeline: str, name: str, value: Any) -> float:
    """A number that a double holds. Raises ArgumentError."""
    number = plain(value)
    if number is None or isinstance(number, bool) or not fits_float(number) or (
            float(number) != number and number == number):
        raise ArgumentError(f"{pipeline}: {name} is {value!r:.60}, no number that float64 holds",
                            fix=f"Pass {name}=… as a float.")
    return float(number)


def _nesting(text: Any) -> g.Structure:
    if isinstance(text, int):
        return text
    ((kind, parts),) = text.items()
    if kind == "dict":
        return {k: _nesting(p) for k, p in parts}
    found = [_nesting(p) for p in parts]
    return found if kind == "list" else tuple(found)
