"""Rows that come block by block, from a stream or to any engine's combiner.

    total = p.accumulator()
    for block in stream:                  # (…rows, any number of columns)
        total.update(block)
    total.finish()                        # p of all columns

States of blocks meet as the digits of a binary counter do: no more are held than the number of
updates has digits, and a sum's error grows as slowly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fusegen.ir.errors import ArgumentError, DTypeError, ShapeError
from fusegen.ir.shared import Lock
from fusegen.lang.blame import blames
from fusegen.lang.signature import check_count, constants_key
from fusegen.pipeline.states import written
from fusegen.pipeline.states.columns import Spans, together
from fusegen.pipeline.states.framed import framed, unframed
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.roles import Roles, roles_for
from fusegen.pipeline.states.runs import merge, states_of
from fusegen.pipeline.states.tables import array_of

_MAGIC = b"\x93fgaccum"
_NOTHING = 2**64 - 1  # the rank of what has got no block


class _Held(NamedTuple):
    """States of 2^rank updates."""

    rank: int
    states: States


class Accumulator:
    """What is known of rows so far. Made by `p.accumulator(**constants)`.

    Rows, and the types of arrays, are those of the first update. Several threads may use one: what
    they ask is done one after the other, and an update that raises changes nothing. It can be
    pickled, and `to_bytes` is for whoever holds bytes.
    """

    def __init__(self, pipeline: Any, constants: Mapping[str, Any]) -> None:
        self.pipeline = pipeline
        self.constants = pipeline.signature.bind_constants(constants)
        self._held: list[_Held] = []
        self._columns: Spans = ()
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<accumulator of {self.pipeline.name}, {self.n_cols} columns seen>"

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock.held():
            return _again, (self.pipeline, self.constants, [tuple(h) for h in self._held])

    @property
    def n_cols(self) -> int:
        """How many columns of each row have been seen."""
        return sum(h.states.n_cols for h in self._held)

    @property
    def columns(self) -> Spans:
        """Which they were; see `States.columns`."""
        return self._columns

    @property
    def states(self) -> States:
        """All that is known as one. Raises ArgumentError where there was no update."""
        with self._lock.held():
            if not self._held:
                raise ArgumentError(f"{self!r} has got no block", fix="Update it first.")
            found: States = merge(self.pipeline, *(h.states for h in self._held))
            return found

    @blames
    def update(self, *arrays: Any, at: int | None = None, **named: Any) -> Accumulator:
        """Take a block in: arrays as for `p.states`, with any number of columns, also none.

        at: the number of its first column; behind the last that has been seen, if None. Raises
        ArgumentError, ShapeError or DTypeError for blocks of other rows or types, and for columns
        that have been seen already.
        """
        present = self.pipeline.signature.bind_arrays(arrays, named)
        with self._lock.held():
            said = check_count("at", at, 0)
            end = self._columns[-1][1] if self._columns else 0
            made = states_of(self.pipeline, present, self.constants, end if said is None else said)
            if said is None and not self._roles(made).numbered:
                made = replace(made, columns=())  # nobody said, and nothing depends on it
            self._take([_Held(0, made)])
        return self

    @blames
    def merge(self, *others: Accumulator | States) -> Accumulator:
        """Take in what others know of the same rows: accumulators or states of this pipeline, with
        the same constants. Raises as `update`."""
        with self._lock.held():
            for other in others:
                if isinstance(other, Accumulator):
                    if other.pipeline.name != self.pipeline.name:
                        raise ArgumentError(f"{self!r} was to be merged with {other!r}",
                                            fix="Merge what the same pipeline made.")
                    self._check_constants(other.constants)
                    self._take(list(other._held))
                else:
                    array_of(self.pipeline, other, "what is merged")
                    self._check_constants(dict(other.constants))
                    self._take([_Held(0, other)])
        return self

    @blames
    def finish(self, *arrays: Any, at: int | None = None, **named: Any) -> Any:
        """What a call returns for the rows so far, which may go on; see `p.finish`."""
        return self.pipeline.finish(self.states, *arrays, at=at, **named)

    # ---- bytes ----

    @blames
    def to_bytes(self) -> bytes:
        """This accumulator for a file or another process; see `States.to_bytes`."""
        with self._lock.held():
            parts = [(h.rank, h.states.to_bytes()) for h in self._held]
            nothing = (_NOTHING, written.of_nothing(self.pipeline.name, self.constants))
            return framed(_MAGIC, parts or [nothing])

    @staticmethod
    @blames
    def from_bytes(pipeline: Any, data: Any, like: Any = None, **constants: Any) -> Accumulator:
        """The accumulator that `to_bytes` wrote, of this pipeline; like, constants, and what is
        raised: see `States.from_bytes`."""
        parts = unframed(_MAGIC, "accumulator", data)
        if parts[0][0] == _NOTHING:
            found, _ = written.decoded(pipeline.name, pipeline.signature, parts[0][1], constants)
            return Accumulator(pipeline, dict(found.constants))
        states = [(rank, States.from_bytes(pipeline, part, like, **constants))
                  for rank, part in parts]
        return _again(pipeline, dict(states[0][1].constants), states)

    # ---- states that meet ----

    def _take(self, new: list[_Held]) -> None:
        """All of these or, where one raises, none."""
        columns, held = self._columns, list(self._held)
        for one in new:
            if held:
                self._check_rows(held[0].states, one.states)
            columns = together(self.pipeline.name, [columns, one.states.columns])
            held = self._carried(held, one)
        self._held, self._columns = held, columns

    def _carried(self, held: list[_Held], one: _Held) -> list[_Held]:
        """As a counter that gets a digit: two of one rank are one of the next. States that keep
        the order of columns meet neighbours alone."""
        ordered = self._roles(one.states).ordered
        held = [*held]
        while held and held[-1].rank <= one.rank and (
                not ordered or _touch(held[-1].states, one.states)):
            one = self._met(held.pop(), one)
        held.append(one)
        if ordered and len(held) > _MOST and not len(held) & (len(held) - 1):
            return self._in_order(held)
        return held

    def _met(self, one: _Held, other: _Held) -> _Held:
        both: States = merge(self.pipeline, one.states, other.states)
        return _Held(max(one.rank, other.rank) + 1, both)

    def _in_order(self, held: list[_Held]) -> list[_Held]:
        """Neighbours brought together, where blocks came out of order."""
        found: list[_Held] = []
        for one in sorted(held, key=lambda h: h.states.columns[:1]):
            while found and _touch(found[-1].states, one.states):
                one = self._met(found.pop(), one)
            found.append(one)
        return found

    def _roles(self, states: States) -> Roles:
        return roles_for(self.pipeline, dict(states.dtypes), dict(states.constants))

    def _check_rows(self, ours: States, theirs: States) -> None:
        mine, others = (tuple(s.array.shape[:-1]) for s in (ours, theirs))
        if mine != others:
            raise ShapeError(f"a block of rows {others} for {self!r} of rows {mine}",
                             why="Rows are those of the first update.")
        if ours.dtypes != theirs.dtypes:
            made, given = ({n: str(d) for n, d in s.dtypes} for s in (ours, theirs))
            raise DTypeError(f"a block of {given} for {self!r} of {made}",
                             why="Arrays are those of the first update, and have their types.")

    def _check_constants(self, theirs: Mapping[str, Any]) -> None:
        if constants_key(theirs) != constants_key(self.constants):
            raise ArgumentError(f"{self!r} is for {dict(self.constants)}, what is merged for "
                                f"{dict(theirs)}", fix="Merge what has the same constants.")


_MOST = 64  # states held apart; of more, those of ordered blocks that came out of order meet


def _touch(left: States, right: States) -> bool:
    """Do their columns make one run?"""
    if not left.columns or not right.columns:
        return True
    return len(together("", [left.columns, right.columns])) == 1


def _again(pipeline: Any, constants: Mapping[str, Any], held: list[Any]) -> Accumulator:
    """One that was pickled."""
    found = Accumulator(pipeline, constants)
    found._held = [_Held(*one) for one in held]
    found._columns = together(pipeline.name, [h.states.columns for h in found._held])
    return found
