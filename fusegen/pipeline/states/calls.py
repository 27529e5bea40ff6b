"""What pipelines offer of states: docs/states.md."""

from __future__ import annotations

from typing import Any

from fusegen.lang.blame import blames
from fusegen.lang.signature import check_count
from fusegen.pipeline.states.accumulator import Accumulator
from fusegen.pipeline.states.finished import finished
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.runs import states_of


class Stateful:
    """Methods of pipelines."""

    __slots__ = ()

    @blames
    def states(self: Any, *arrays: Any, at: int | None = None, **constants: Any) -> States:
        """What is known of pieces of rows, to be merged with that of others by `fg.merge`. arrays:
        as for a call, columns last. at: the number of the first column in the whole row; 0 if None,
        and if nothing of the state depends on it, it need not be said. Raises PipelineError for a
        text without states, which says why."""
        present, values = self.bind(arrays, constants)
        return states_of(self, present, values, check_count("at", at, 0))

    @blames
    def finish(self: Any, states: States, *arrays: Any, at: int | None = None, **named: Any) -> Any:
        """What a call returns for the whole rows.

        arrays: this piece's again, by place or name, where results are of full rows, which then are
        this piece's part of them, or are made of inputs of the row; others may be left away. at:
        the number of the piece's first column. Raises ArgumentError, ShapeError, DTypeError.
        """
        given = self.signature.given_again(arrays, named)
        return finished(self, states, given, check_count("at", at, 0))

    @blames
    def accumulator(self: Any, **constants: Any) -> Accumulator:
        """For rows that come block by block: `update`, `merge`, `finish`, bytes in and out. Raises
        ArgumentError for constants that the pipeline does not have."""
        return Accumulator(self, constants)
