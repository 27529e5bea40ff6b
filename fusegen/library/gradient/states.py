"""Gradients of columns' inputs (weights, keys, values) of rows that nobody holds whole.

    p = fg.grad(layer_norm, wrt="weight")                   # or of a text over vectors
    s = fg.merge(p, *(p.states(g[:, i:j], x[:, i:j], w[i:j], at=i) for i, j in pieces))
    p.finish(s, g[:, i:j], x[:, i:j], w[i:j], at=i)         # the gradient of w[i:j]

What such a gradient asks of whole rows is what has states: its first stage, a pipeline like any
other. The sum over rows is made where a piece of the columns is, once rows are known.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from fusegen.backend.arrays.adopt import adopt_all, one_memory
from fusegen.backend.memory import Adopted
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import ArgumentError
from fusegen.ir.shared import Recent
from fusegen.lang.blame import blames
from fusegen.lang.signature import Signature, check_count
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.states.calls import Stateful
from fusegen.pipeline.states.finished import finished
from fusegen.pipeline.states.pieced import PiecedStates, whole_of
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.tables import array_of
from fusegen.pipeline.traces import MOST
from fusegen.pipeline.variants import Choices, Variants


class StatefulGradient(Stateful):
    """A gradient whose first stage has states, for `states`, `fg.merge`, `finish` and streams."""

    __slots__ = ()

    @property
    @abstractmethod
    def origin(self) -> Pipeline:
        """Whose text it is made of."""

    @abstractmethod
    def statistics(self, dtypes: Mapping[str, DType], constants: dict[str, Any]) -> Pipeline:
        """The stage of rows, for inputs of these types. Raises PipelineError where there is none,
        or more than one that reads the columns."""

    @abstractmethod
    def of_columns(
        self, whole: States, made: Mapping[str, Any], taken: Mapping[str, Adopted], at: int | None
    ) -> Any:
        """The gradients of a piece's columns. made: by the stage of rows, of whole rows; at: the
        piece's first column, as the user said it."""

    @blames
    def finish(
        self: Any, states: States | PiecedStates, *arrays: Any, at: int | None = None, **named: Any
    ) -> Any:
        """The gradients: this piece's part of those of columns' inputs, and those of rows' inputs,
        the same from every piece.

        arrays: this piece's again, as a call's. at: the number of its first column. Raises
        ArgumentError, ShapeError, DTypeError.
        """
        given = self.signature.bind_arrays(arrays, named)
        whole = whole_of(self, states) if isinstance(states, PiecedStates) else states
        own, taken = array_of(self, whole, "states"), adopt_all(given)
        without = [n for n in dict(whole.dtypes) if n not in given]
        if without:
            raise ArgumentError(f"{self.name} was given {without[0]} for its states, and not again",
                                fix="Finish with this piece's part of what they were made of.")
        one_memory({"states": own, **taken})
        made = finished(self, whole, given, None)
        return self.of_columns(whole, made, taken, check_count("at", at, 0))

    # ---- as a pipeline whose states these are ----

    def bind(
        self: Any, arrays: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """See `Pipeline.bind`."""
        s: Signature = self.signature
        by_name = {n: v for n, v in named.items() if n in s.arrays}
        constants = s.bind_constants({n: v for n, v in named.items() if n not in by_name})
        return s.bind_arrays(arrays, by_name), constants

    def of_types(
        self: Any, dtypes: Mapping[str, DType], constants: dict[str, Any], choices: Choices
    ) -> Variants:
        """Programs of its first stage, which reads some of the inputs."""
        self.signature.check_positive(
            any(d.number.name == "float64" for d in dtypes.values()), constants)
        stage = self.statistics(dtypes, constants)
        s = stage.signature
        found: Variants = stage.of_types({n: dtypes[n] for n in s.arrays},
                                       {n: constants[n] for n in s.constants}, choices)
        return found

    def known_roles(self: Any) -> Recent[Any, Any]:
        """See `Pipeline.known_roles`."""
        found: Recent[Any, Any] = self.origin.known_roles().get_or_make(
            ("gradient", self.signature.arrays, self), lambda: Recent(MOST))
        return found
