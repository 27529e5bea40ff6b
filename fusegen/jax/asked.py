"""A call as a parameter of JAX's operations: hashable, with all of it but the arrays.

Numbers that kernels take as arguments are operands where a program runs on hosts alone, which read
them when they run: one program for all of them. A GPU's launches are part of a program, and so are
their numbers: another value is another program there, with the same kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import jax

from fusegen.backend.registry import memories
from fusegen.backend.scalars import scalars_in
from fusegen.ir.dtypes import DType, dtype_of
from fusegen.ir.errors import PipelineError
from fusegen.ir.forms import Precision, check_form, check_precision
from fusegen.ir.varying import Formula, computed, magnitude_of
from fusegen.lang.signature import constants_key
from fusegen.library.calls.backward import Call
from fusegen.library.calls.framework import types_in
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.variants import Choices, Variants


@dataclass(frozen=True)
class Asked:
    """A call of the arrays `names`, which are there. digest: of the text that was traced for it."""

    pipeline: Pipeline
    names: tuple[str, ...]
    key: tuple[Any, ...]  # of the constants, 1 apart from 1.0; of those that vary, the magnitude
    axis: Any
    keepdims: bool
    form: str
    deterministic: bool
    precision: Precision
    digest: str
    formulas: tuple[tuple[Formula, DType], ...]  # of the operands behind the arrays
    constants: tuple[tuple[str, Any], ...] = field(compare=False)

    @staticmethod
    def of(call: Call, dtypes: Mapping[str, DType]) -> Asked:
        """For arrays of these types. Raises what is wrong with the text."""
        found = Asked(call.pipeline, tuple(dtypes), (), call.axis, call.keepdims, call.form,
                      call.deterministic, check_precision(call.precision), "", (),
                      tuple(call.constants.items()))
        variants = found._of(dtypes)
        graph, formulas = variants.graph, list[tuple[Formula, DType]]()
        varying = graph.varying if on_hosts_alone() else frozenset[str]()
        if varying:
            by_name = {graph.names[s]: s.formula for s in graph.scalars}
            formulas = [(by_name[p.name], p.dtype) for p in variants.params if p.shape == "scalar"]
        fixed = {n: v for n, v in call.constants.items() if n not in varying}
        key = (constants_key(fixed),
               tuple((n, magnitude_of(call.constants[n])) for n in sorted(varying)))
        return replace(found, key=key, digest=variants.typed.traced.digest,
                       formulas=tuple(formulas))

    @property
    def call(self) -> Call:
        return Call(self.pipeline, dict(self.constants), self.axis, self.keepdims, self.form,
                    self.deterministic, self.precision)

    def having(self, named: Mapping[str, Any]) -> Asked | None:
        """The same with other numbers; None where they are part of the program."""
        mine = dict(self.constants)
        given = {**mine, **{n: v for n, v in named.items() if type(v) is float}}
        fixed, moving = self.key
        known = {n for n, _ in moving}
        if constants_key({n: v for n, v in given.items() if n not in known}) != fixed:
            return None
        return replace(self, constants=tuple(given.items()))

    def operands(self) -> list[Any]:
        """Numbers behind the arrays, as NumPy's."""
        constants = dict(self.constants)
        return [dtype.numpy.type(computed(f, constants)) for f, dtype in self.formulas]

    def variants(self, arrays: Sequence[Any]) -> Variants:
        """What runs for arrays of these types. Raises PipelineError where the text has changed
        since the call was traced."""
        found = self._of(types_in(self.pipeline.vectors, self.named(arrays),
                                  lambda a: dtype_of(str(a.dtype))))
        if found.typed.traced.digest != self.digest:
            raise PipelineError(
                f"the text of {self.pipeline.name} has changed since JAX traced a call of it",
                why="A value that it uses is another one now.",
                fix="Pass the value as a constant or as an array.")
        return found

    def _of(self, dtypes: Mapping[str, DType]) -> Variants:
        choices = Choices(form=check_form(self.form), deterministic=self.deterministic,
                          precision=self.precision)
        return self.pipeline.of_types(dtypes, dict(self.constants), choices)

    def scalars(self, variants: Variants) -> dict[str, Any]:
        """Every scalar by its name in kernels."""
        return scalars_in(variants.graph, variants.params, dict(self.constants))

    def named(self, arrays: Sequence[Any]) -> Mapping[str, Any]:
        return dict(zip(self.names, arrays, strict=False))

    def __repr__(self) -> str:
        more = [f"{n}={v!r}" for n, v in self.constants]
        return f"{self.pipeline.name}({', '.join([*self.names, *more, f'axis={self.axis}'])})"


@cache
def on_hosts_alone() -> bool:
    """Has JAX no device here but processors?"""
    return all(d.platform == memories()[-1].name for d in jax.devices())
