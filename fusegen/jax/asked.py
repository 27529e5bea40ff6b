"""A call as a parameter of JAX's operations: hashable, with all of it but the arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusegen.ir.dtypes import dtype_of
from fusegen.ir.errors import PipelineError
from fusegen.ir.forms import check_form
from fusegen.lang.signature import constants_key
from fusegen.library.backward import Call
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.variants import Choices, Variants


@dataclass(frozen=True)
class Asked:
    """A call of the arrays `names`, which are there. digest: of the text that was traced for it."""

    pipeline: Pipeline
    names: tuple[str, ...]
    key: tuple[Any, ...]  # of the constants, 1 apart from 1.0
    axis: Any
    keepdims: bool
    form: str
    deterministic: bool
    digest: str
    constants: tuple[tuple[str, Any], ...] = field(compare=False)

    @staticmethod
    def of(call: Call, names: Sequence[str]) -> Asked:
        constants = dict(call.constants)
        digest = call.pipeline.traced(frozenset(names), constants).digest
        return Asked(call.pipeline, tuple(names), constants_key(constants), call.axis,
                     call.keepdims, call.form, call.deterministic, digest,
                     tuple(constants.items()))

    @property
    def call(self) -> Call:
        return Call(self.pipeline, dict(self.constants), self.axis, self.keepdims, self.form,
                    self.deterministic)

    def variants(self, arrays: Sequence[Any]) -> Variants:
        """What runs for arrays of these types. Raises PipelineError where the text has changed
        since the call was traced."""
        constants = dict(self.constants)
        if self.pipeline.traced(frozenset(self.names), constants).digest != self.digest:
            raise PipelineError(
                f"the text of {self.pipeline.name} has changed since JAX traced a call of it",
                why="A value that it uses is another one now.",
                fix="Pass the value as a constant or as an array.")
        dtypes = {n: dtype_of(str(a.dtype)) for n, a in zip(self.names, arrays, strict=True)}
        choices = Choices(form=check_form(self.form), deterministic=self.deterministic, fixed=True)
        return self.pipeline.of_types(dtypes, constants, choices)

    def named(self, arrays: Sequence[Any]) -> Mapping[str, Any]:
        return dict(zip(self.names, arrays, strict=True))

    def __repr__(self) -> str:
        more = [f"{n}={v!r}" for n, v in self.constants]
        return f"{self.pipeline.name}({', '.join([*self.names, *more, f'axis={self.axis}'])})"
