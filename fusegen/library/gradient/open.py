"""fg.grad of a pipeline whose constants are not all known yet.

    fg.grad(attention, wrt=("q", "k", "v"))(do, q, k, v, scale=0.125)      # scale has no default
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from fusegen.lang.blame import blames
from fusegen.pipeline.pipeline import Pipeline


@dataclass(frozen=True)
class OpenGradient:
    """The gradient of a pipeline that needs constants: calls give them, as those of the pipeline.

    What it returns, and so its cotangents, may depend on them: a call is that of the gradient which
    `derive` makes for them. given: those that fg.grad got, defaults of calls.
    """

    forward: Pipeline
    wrt: str | tuple[str, ...] | None
    given: Mapping[str, Any]
    derive: Callable[[Pipeline, str | tuple[str, ...] | None, Mapping[str, Any]], Any]

    def __repr__(self) -> str:
        return f"<fusegen gradient of {self.forward.name}, which needs {', '.join(self.missing)}>"

    @property
    def missing(self) -> tuple[str, ...]:
        """The constants that a call has to give."""
        return self.forward.signature.missing(self.given)

    @blames
    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The gradients. Raises as Pipeline.__call__."""
        own = self.forward.signature.constants
        constants = {**self.given, **{n: v for n, v in named.items() if n in own}}
        gradient = self.derive(self.forward, self.wrt, constants)
        return gradient(*arrays, **{**named, **constants})

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or name in type(self).__dataclass_fields__:  # not made yet
            raise AttributeError(name)
        constants = "".join(f", {n}=…" for n in self.missing)
        raise AttributeError(
            f"{name}: the gradient of {self.forward.name} has one text for each kind of its "
            f"constants, and {', '.join(self.missing)} is not known\n"
            f"  Write fg.grad({self.forward.name}, …{constants}).{name}.")
