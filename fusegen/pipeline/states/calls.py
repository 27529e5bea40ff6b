"""What pipelines offer of states: docs/states.md."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, overload

from fusegen.ir.errors import ArgumentError
from fusegen.lang.blame import blames
from fusegen.lang.signature import check_count
from fusegen.pipeline.states.accumulator import Accumulator
from fusegen.pipeline.states.finished import finished
from fusegen.pipeline.states.pieced import PiecedStates, asked_pieces, pieced_states_of, whole_of
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.runs import states_of


class Stateful:
    """Methods of pipelines."""

    __slots__ = ()

    @overload
    def states(
        self: Any, *arrays: Any, at: int | None = None, deterministic: Literal[False] = False,
        pieces: None = None, **constants: Any,
    ) -> States: ...

    @overload
    def states(
        self: Any, *arrays: Any, at: int | None = None, deterministic: Literal[True],
        pieces: int | None = None, **constants: Any,
    ) -> PiecedStates: ...

    @blames
    def states(
        self: Any, *arrays: Any, at: int | None = None, deterministic: bool = False,
        pieces: int | None = None, **constants: Any,
    ) -> States | PiecedStates:
        """What is known of pieces of rows, to be merged with that of others by `fg.merge`. arrays:
        as for a call, columns last. at: the number of the first column in the whole row; 0 if None,
        and if nothing of the state depends on it, it need not be said.

        deterministic: the bits of results do not depend on how many hold the row: it is cut into
        `pieces` of that many columns (a power of two, 8192 if None), and `at` is a multiple of it;
        only the row's end may be elsewhere. Raises PipelineError for a text without states, which
        says why, and ArgumentError for a cut inside a piece.
        """
        _check_words(self.name, self.signature.constants)
        present, values = self.bind(arrays, constants)
        first = check_count("at", at, 0)
        size = asked_pieces(deterministic, pieces)
        if size is not None:
            return pieced_states_of(self, present, values, first or 0, size)
        return states_of(self, present, values, first)

    @blames
    def finish(
        self: Any, states: States | PiecedStates, *arrays: Any, at: int | None = None, **named: Any
    ) -> Any:
        """What a call returns for the whole rows.

        arrays: this piece's again, by place or name, where results are of full rows, which then are
        this piece's part of them, or are made of inputs of the row; others may be left away. at:
        the number of the piece's first column. Raises ArgumentError, ShapeError, DTypeError.
        """
        given = self.signature.given_again(arrays, named)
        whole = whole_of(self, states) if isinstance(states, PiecedStates) else states
        return finished(self, whole, given, check_count("at", at, 0))

    @blames
    def accumulator(self: Any, **constants: Any) -> Accumulator:
        """For rows that come block by block: `update`, `merge`, `finish`, bytes in and out. Raises
        ArgumentError for constants that the pipeline does not have."""
        _check_words(self.name, self.signature.constants)
        return Accumulator(self, constants)


def _check_words(name: str, constants: Collection[str]) -> None:
    """Raises ArgumentError where a constant has the name of what `states` takes itself: it would
    have its default, whatever is said."""
    for word in ("at", "pieces", "like"):
        if word in constants:
            raise ArgumentError(f"{name} has a constant {word}, and states an argument {word}",
                                fix="Give the constant another name.")
