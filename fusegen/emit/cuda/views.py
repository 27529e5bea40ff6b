"""What the templates print of a sweep, decided and spelled out."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.emit.cuda.state import StateView


@dataclass(frozen=True)
class LoadView:
    """One element array as the tile function reads it."""

    type: str
    real: str  # type of a loaded item
    name: str
    pointer: str
    convert: str  # item i in the compute type
    loader: str
    plain: bool  # stored as what kernels compute in: nothing to convert
    shared: bool  # its items are looked at again for candidates


@dataclass(frozen=True)
class ListView:
    """A K-best list of the sweep."""

    name: str
    k: int
    slots: int
    value_type: str
    peak: str  # variable that holds the chunk's greatest candidate
    own_peak: bool  # computed for the list alone (else a folded maximum is the same value)
    lines: tuple[str, ...]  # from memory to the candidate's value, at `column`
    item_lines: tuple[str, ...]  # from item i to the candidate's value
    value: str
    seeded: bool
    bitonic: bool
    spilled: bool
    worst: str


@dataclass(frozen=True)
class LiftView:
    """How a chunk's sums about one level of pivots are made; `suffix` names the rebase."""

    suffix: str
    anchors: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class SweepView:
    """Everything a template prints for one sweep."""

    number: int
    algorithm: str
    state: StateView | None
    total: str  # the row's state once folded
    loads: tuple[LoadView, ...]
    row_args: tuple[tuple[str, str], ...]  # type, name: row values the elements use
    fold_lines: tuple[str, ...]
    combine_lines: tuple[str, ...]
    lifts: tuple[LiftView, ...]
    store_lines: tuple[str, ...]
    stores: tuple[tuple[str, str, str], ...]  # element type, param, items variable
    stores_column: bool  # do stored values depend on the column number?
    lists: tuple[ListView, ...]
    steps: tuple[str, ...]
    row_stores: tuple[str, ...]
    list_stores: tuple[tuple[ListView, tuple[str, ...]], ...]

    @property
    def visits(self) -> bool:
        """Does the sweep go over the row at all?"""
        return self.state is not None or bool(self.lists or self.stores)
