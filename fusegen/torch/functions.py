"""fg.torch.op: a pipeline in torch's registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fusegen.lang.blame import blames
from fusegen.pipeline.decorator import check_pipeline
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.precision import held
from fusegen.torch import policy
from fusegen.torch.operators import Operator, name_it, operator_for
from fusegen.torch.overloads import NAMESPACE


@dataclass(frozen=True, eq=False)
class Function:
    """A pipeline that has an operator, with constants that every call starts from."""

    pipeline: Pipeline
    constants: Mapping[str, Any]
    options: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """As the pipeline is called, whose operator serves wherever torch traces."""
        return self.pipeline(*arrays, **{**self.constants, **self.options, **named})

    @property
    def overload(self) -> Any:
        """torch.ops.fusegen.<name>.default: tensors by position, constants by keyword, and
        axis, keepdims, form, deterministic; axis=[] reduces all."""
        return self._operator.packet

    @property
    def name(self) -> str:
        return f"{NAMESPACE}::{self._operator.name}"

    @property
    def autocast(self) -> str:
        """What torch's autocast does with it: "float32" or "inputs"."""
        return policy.policy_of(self.pipeline)

    @property
    def _operator(self) -> Operator:
        signature = self.pipeline.signature
        constants = signature.bind_constants(self.constants)
        present = frozenset(signature.arrays) - signature.optional
        graph = self.pipeline.traced(present, constants).graph
        return operator_for(self.pipeline, constants, len(graph.outputs))

    def __repr__(self) -> str:
        return f"<{self.name} of {self.pipeline!r}>"


@blames
def op(
    pipeline: Pipeline, *, name: str | None = None, autocast: str | None = None,
    precision: str = "float32", **constants: Any,
) -> Function:
    """Register a pipeline as an operator of torch.

    Calls of a pipeline use its operator by themselves where torch traces (torch.compile,
    torch.export, FakeTensor, torch.func); this registers it at once, to name it, to choose what
    autocast does, or to have it for `torch.ops.fusegen`.
    name: `fusegen::name`, by default the pipeline's own; it is what exported programs refer to.
    autocast: "float32" or "inputs", see fusegen.torch.policy. precision, constants: for calls that
    do not give them; precision is that of dots, see `Pipeline.compile`. Raises ArgumentError, and
    TraceError for the text.
    """
    check_pipeline("op", pipeline)
    if autocast is not None:
        policy.choose(pipeline, autocast)
    if name is not None:
        name_it(pipeline, name)
    found = Function(pipeline, constants, held(pipeline.name, pipeline.vectors, precision))
    _ = found.overload
    return found
