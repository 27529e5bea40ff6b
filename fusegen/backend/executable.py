"""What fusegen asks of programs that run: a call, the same call again for other addresses, and runs
without Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from fusegen.backend.words import Place
from fusegen.ir.kernel import Program

Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""


class Executable(Protocol):
    """A program that runs."""

    @property
    def program(self) -> Program: ...

    @property
    def schedule(self) -> Any: ...

    def __call__(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, *, first_column: int = 0,
        like: Any = None, copies: Sequence[Any] = (), threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Fill the output arrays of `arrays` (by parameter name), laid out as Kernel IR says.

        first_column: its number in the whole row, where a program of one role has a piece.
        like: the caller's array, whose library's memory is taken beside them. copies: those of
        the arrays that nobody else keeps. threads, progress: where the caller's own threads work.
        """


class Bound(Protocol):
    """An executable for arrays of which only the addresses will differ."""

    def run(self, pointers: list[int]) -> list[Any]:
        """Make the results that the caller does not give, run, and return what was made.

        pointers: addresses in the order that was bound; more are appended. On a GPU work is
        queued, on the stream that the arrays' library works on."""


@runtime_checkable
class Chainable(Bound, Protocol):
    """One whose launches may stand among others'."""

    def chained(self, words: Sequence[Place]) -> tuple[list[Any], list[Any]]:
        """(launches with the places of what they take, memory that is theirs). words: of what was
        bound, results too. No two of them may run at a time: they share that memory."""


class Helper(Protocol):
    """Compiled code that remembers calls as pipeline/remembered.py does."""

    def Calls(
        self, otherwise: Callable[..., Any], miss: object, names: tuple[str, ...], most: int,
        varying: tuple[str, ...],
    ) -> Any:
        """What one pipeline remembers: with `learn`, and `find`, which asks `otherwise` where it
        remembers nothing, and gives `miss` where nothing of the kind is remembered."""


@runtime_checkable
class Helped(Bound, Protocol):
    """One whose calls compiled code can serve."""

    def helper(self) -> Helper | None:
        """None: it is not there, or not yet."""

    def plan(
        self, sizes: tuple[int, ...], numbers: tuple[tuple[int, float, bool], ...], finish: Any
    ) -> tuple[Any, ...]:
        """What the helper's `learn` takes: see templates/cpu/calls. sizes: of the arrays' elements;
        numbers: of each scalar, which of the call's varying constants it is, else -1 and its value;
        whether it has 32 bits;
        finish: makes (made, out) what the pipeline returns, None where there is one output."""


@runtime_checkable
class Bindable(Executable, Protocol):
    """One whose calls can be remembered."""

    def bound(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, order: tuple[str, ...],
        like: Any, makers: tuple[Callable[[], Any], ...] = (), first_column: int = 0,
    ) -> Bound:
        """For arrays that lie like these. order: whose addresses will come, then what `makers`
        make. like: the caller's array, whose library's memory is taken. first_column: as of a
        call."""


@dataclass(frozen=True, slots=True)
class Record:
    """A run in numbers, for compiled code that is given the arrays' addresses."""

    words: tuple[int, ...]  # as templates/xla reads them
    told: str  # all that the results depend on beside the arrays' values
    workspace: int  # bytes that it needs beside the arrays, as a last one
    kept: Any  # what the addresses among the words are of


@runtime_checkable
class Recordable(Executable, Protocol):
    """One whose runs compiled code can make without Python."""

    def record(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, order: tuple[str, ...]
    ) -> Record:
        """A run on arrays that lie like these, which need no memory. order: whose addresses will
        come. Scalars among them are part of the run, or come in memory, on hosts, where they are
        in the order."""
