"""One rank's side of a call: what it folds, and what it says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fusegen.backend.arrays.rows import rows_of
from fusegen.distributed.packets import Header, seal_of
from fusegen.distributed.ranks import HOST
from fusegen.ir.errors import ArgumentError
from fusegen.ir.shared import lazy
from fusegen.lang.signature import check_count, constants_key
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.states.pieced import PiecedStates
from fusegen.pipeline.states.record import States

Guess = Callable[[int], int]
"""Where a shard of so many columns begins, as far as this rank knows."""


@dataclass(frozen=True, eq=False)
class Call:
    """A call with this rank's shard. at: as the user said it, None to be found."""

    pipeline: Pipeline
    arrays: Sequence[Any]
    named: Mapping[str, Any]
    at: int | None
    columns: int | None
    pieces: int | None = None  # columns of canonical pieces, where bits depend on nothing else
    error: Exception | None = None  # what this rank knows already, and the others do not

    @lazy
    def bound(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """(arrays, constants) by name. Raises ArgumentError."""
        present, constants = self.pipeline.bind(tuple(self.arrays), self.named)
        for name, array in present.items():
            if not hasattr(array, "shape"):
                raise ArgumentError(f"{name} is {type(array).__name__}, no array",
                                    fix="Give this rank's shard as a tensor or a NumPy array.")
        return present, constants

    @lazy
    def device(self) -> Any:
        """Where states are exchanged."""
        tensors = [a for a in (*self.arrays, *self.named.values()) if isinstance(a, torch.Tensor)]
        return tensors[0].device if tensors else HOST

    @lazy
    def key(self) -> tuple[Any, ...]:
        """Equal for calls that exchange the same bytes, from the same columns."""
        every = [*self.arrays, *self.named.values()]
        arrays = [(tuple(a.shape), str(a.dtype), str(getattr(a, "device", "")))
                  for a in every if hasattr(a, "shape") and hasattr(a, "dtype")]
        constants = {n: v for n, v in self.named.items() if not hasattr(v, "shape")}
        return (*arrays, tuple(a is None for a in self.arrays), tuple(self.named),
                constants_key(constants), repr(self.at), repr(self.columns))

    @lazy
    def n_cols(self) -> int:
        """Columns of the shard. Raises ArgumentError, ShapeError."""
        present, constants = self.bound
        graph = self.pipeline.traced(frozenset(present), constants).graph
        shapes = {n: tuple(a.shape) for n, a in present.items()}
        return rows_of(graph.inputs, shapes, -1, piece=True).n_cols

    def folded(self, at: int) -> tuple[States, ...]:
        """The states of this rank's shard, whose first column is number `at`, as `runs_of` says."""
        if self.pieces is None:
            return (self.pipeline.states(*self.arrays, at=at, **self.named),)
        found: PiecedStates = self.pipeline.states(
            *self.arrays, at=at, deterministic=True, pieces=self.pieces, **self.named)
        return found.runs

    def said(self, guess: Guess) -> Said:
        """The states and their header; what went wrong is said too, for the others to hear."""
        try:
            if self.error is not None:
                raise self.error
            check_count("at", self.at, 0)
            check_count("columns", self.columns)
            at = guess(self.n_cols) if self.at is None else self.at
            runs = self.folded(at)
            return Said(self.header(runs[0], at), runs, words_of(self, runs[0]))
        except Exception as error:
            return Said(Header(failed=True), (), "", error)

    def header(self, states: States, at: int) -> Header:
        *rows, n_bytes = states.array.shape
        traced = self.pipeline.traced(frozenset(dict(states.dtypes)), dict(states.constants))
        seal = seal_of(self.pipeline.name, traced.digest, states.layout.digest, tuple(rows),
                       [(n, str(d)) for n, d in states.dtypes],
                       constants_key(dict(states.constants)), self.pieces)
        return Header(math.prod(rows), n_bytes, self.n_cols, at, self.at is not None,
                      -1 if self.columns is None else self.columns, seal)


@dataclass(frozen=True)
class Said:
    """What a rank has for the others, or the error that it failed with."""

    header: Header
    runs: tuple[States, ...]
    words: str
    error: Exception | None = None


def words_of(call: Call, states: States) -> str:
    """A call in words, for ranks that call otherwise."""
    types = ", ".join(f"{n} {d}" for n, d in states.dtypes)
    constants = "".join(f", {n}={v!r}" for n, v in states.constants)
    columns = "" if call.columns is None else f", columns={call.columns}"
    return (f"{call.pipeline.name}({types}{constants}{columns}), rows "
            f"{tuple(states.array.shape[:-1])}, {states.layout.n_bytes} bytes a state"
            f"{'' if call.pieces is None else f', pieces of {call.pieces} columns'}")
