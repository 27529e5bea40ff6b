"""Where arrays lie, and whose they are: what fusegen asks of host memory, or of GPUs'."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from fusegen.ir.dtypes import DType

Shape = tuple[int, ...]

Family = Literal["numpy", "torch", "cupy", "foreign", "standard", "labelled"]
"""Whose an array is: libraries with a case of their own; foreign: by DLPack or an interface;
standard: by the array API; labelled: pandas', xarray's and polars'."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """The user's array as its memory's own library has it, sharing its bytes.

    bfloat16 on a GPU arrives as 16-bit integers: `dtype` says what they are.
    """

    array: Any
    dtype: DType
    memory: Memory
    family: Family
    given: Any  # the user's own object
    index: int = 0  # of the device

    @property
    def place(self) -> str:
        return self.memory.place(self.index)


Seen = tuple[tuple[Any, ...], int]
"""Of an array: (all that a full look would see, address of the first element)."""


@dataclass(frozen=True, slots=True)
class Reader:
    """How calls with arrays of these types are known again: `read` gives None where only a full
    look can tell."""

    types: tuple[type, ...]
    read: Callable[[Any], Seen | None]


class Memory(Protocol):
    """Where arrays lie."""

    @property
    def name(self) -> str:
        """What `device=` calls it."""

    @property
    def single(self) -> bool:
        """Is there one of it, known without looking at an array?"""

    def place(self, index: int) -> str:
        """Which of the devices, for people."""

    def takes(self, given: Any) -> bool:
        """Does this object lie here? Asked before `adopt`."""

    def adopt(self, name: str, given: Any) -> Adopted:
        """The object as it is. Raises ArgumentError or DTypeError that name it."""

    def working(self, like: Adopted) -> AbstractContextManager[Any]:
        """Work where the array lies, on the stream that its library works on."""

    def maker(
        self, shape: Shape, dtype: DType, like: Adopted, order: Shape | None
    ) -> Callable[[], Any]:
        """Makes arrays of the library that `like` came from; `order`: how they are transposed.

        To be called while `working`."""

    def view(self, own: Any) -> Any:
        """An array that `maker` made, as `Adopted.array` is."""

    def handed_back(self, shaped: Any, own: Any, dtype: DType, like: Adopted) -> Any:
        """A result as the kind of object that came in. `own`: what `maker` made."""

    def to_host(self, array: Any, dtype: DType) -> Any:
        """A NumPy array of these values."""

    def from_host(self, array: Any, dtype: DType) -> Any:
        """A NumPy array's values here. Raises BackendError where there is no such device."""

    def synchronize(self) -> None:
        """Wait for all that was queued."""

    def seconds(self, call: Callable[[], object], repetitions: int) -> list[float]:
        """How long each of several calls takes."""

    def reader(self, like: Adopted) -> Reader | None:
        """How calls with arrays like this one are remembered; None: they are not."""


@runtime_checkable
class Multiplying(Memory, Protocol):
    """Where products of tables are a library's."""

    def multiply(
        self, a: Adopted, b: Adopted, to: Adopted, *, turned: tuple[bool, bool], add: bool
    ) -> None:
        """`to` = a · b, or that more if `add`; `turned`: are aᵀ and bᵀ meant?

        Tables of floats with neighbouring columns, a and b of one type of at most 32 bits; sums are
        float32. To be called while `working`."""
