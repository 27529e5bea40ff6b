"""What a backend gives to an exported library, and what it makes of one that is loaded again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from fusegen.backend.executable import Executable
from fusegen.ir.dtypes import DType
from fusegen.ir.forms import Grouping
from fusegen.ir.kernel import Program


@dataclass(frozen=True, slots=True)
class Unit:
    """A C++ file of the library, and options beside those that all have."""

    name: str
    text: str
    flags: tuple[str, ...] = ()
    level: int = 0  # greater for code that fewer processors run
    holds: tuple[str, ...] = ()  # files of images


@dataclass(frozen=True, slots=True)
class Image:
    """CUDA C++ whose machine code the units hold: `name`.code, and `name`.ptx."""

    name: str
    source: str
    arch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One text, with types, for one target."""

    declared: str  # C++ at the head of the library's own file
    entry: str  # of the table that a call looks its code up in
    units: tuple[Unit, ...]
    symbols: tuple[str, ...]  # functions that `load` looks for, as the linker's patterns
    record: Mapping[str, Any]  # JSON that `load` needs
    images: tuple[Image, ...] = ()
    needs: str  # of a machine, for people


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How functions that work at one place look in C."""

    name: str  # ends the functions' names
    header: str  # of ours, that has `call`
    argument: str  # the last one's declaration
    about: tuple[str, ...]  # what the functions do
    table: Callable[[str, tuple[str, ...]], str]  # C++ of a variable, and of the entries
    call: Callable[[str], str]  # of that variable, with what is given: a status
    device: int  # as DLPack numbers them
    tensors: Callable[[str], str]  # the same call where a tensor says the device
    side_by_side: Callable[[str], str] | None = None  # of rows that lie so; None: it has no kernels
    links: tuple[str, ...] = ()  # options of the linker


class Text(Protocol):
    """A typed text: see `typed.Typed`."""

    @property
    def name(self) -> str: ...

    @property
    def dtypes(self) -> Mapping[str, DType]: ...

    def program(self, grouping: Grouping = "rows") -> Program: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What may be said about an exported library beside its text, types and targets."""

    lengths: tuple[int, ...] = ()  # of rows that it is to be best for; empty: any
    symbols: str = ""  # how names of the library begin
    variant: str = ""  # the types, as names of functions have them
    order: tuple[str, ...] = ()  # of the arrays, by the kernels' names
    scalars: tuple[str, ...] = ()  # likewise
    row_numbers: str | None = None  # likewise, of the array that the library itself makes
    constants: tuple[str, ...] = ()  # that come with a call, by the users' names
    side_by_side: bool = False  # are rows that lie so to have kernels, where there are some?


def number_name(constant: str) -> str:
    """What a constant that comes with a call is called among its arrays: no kernel's name."""
    return f"{constant} (constant)"


@runtime_checkable
class Exporting(Protocol):
    """A backend whose code a library can hold."""

    name: str
    title: str

    def exported_targets(self, names: tuple[str, ...]) -> tuple[Any, ...]:
        """What these names mean in a library, which runs on other machines too: each once, the
        one that asks for most of a machine first."""

    def place(self) -> Place: ...

    def takes_side_by_side(self, program: Program) -> bool:
        """See `Backend`."""

    def part(self, text: Text, target: Any, wish: Wish) -> Part:
        """Raises ArgumentError, BackendError, CompilerError."""

    def prebuilt(self, library: Any, records: Sequence[Mapping[str, Any]]) -> Executable:
        """What runs parts of a loaded library. Raises BackendError where none runs here."""
