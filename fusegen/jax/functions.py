"""fg.jax.op: a pipeline as a function for JAX's transforms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusegen.jax.calls import call
from fusegen.lang.blame import blames
from fusegen.pipeline.decorator import check_pipeline
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.precision import held


@dataclass(frozen=True, eq=False)
class Function:
    """A pipeline on JAX's arrays, with constants that every call starts from."""

    pipeline: Pipeline
    constants: Mapping[str, Any]
    precision: str = "float32"

    @blames
    def __call__(
        self, *arrays: Any, axis: Any = -1, keepdims: bool = False, form: str = "auto",
        deterministic: bool = False, precision: str | None = None, **named: Any,
    ) -> Any:
        """As the pipeline is called; arrays of any kind become JAX's, results are JAX's."""
        chosen = self.precision if precision is None else precision
        rest = (axis, form, "auto", deterministic, keepdims, chosen)
        return call(self.pipeline, arrays, {**self.constants, **named}, None, rest, must=True)

    def __repr__(self) -> str:
        return f"<fusegen.jax.op of {self.pipeline!r}>"


@blames
def op(pipeline: Pipeline, *, precision: str = "float32", **constants: Any) -> Function:
    """A pipeline as a function of JAX's arrays, for jit, vmap, grad and shard_map.

    Pipelines called with JAX's arrays, traced or not, do the same by themselves; this names the
    function, gives it constants, and takes other arrays for JAX's. precision, constants: for calls
    that do not give them; precision is that of dots, see `Pipeline.compile`. Raises ArgumentError.
    """
    check_pipeline("op", pipeline)
    for name in constants:
        if name not in pipeline.signature.constants:
            pipeline.signature.bind_constants({name: constants[name]})
    held(pipeline.name, pipeline.vectors, precision)
    return Function(pipeline, constants, precision)
