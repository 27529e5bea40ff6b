"""Rows whose slices stay in the shared memory of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fusegen.backend.cuda.bring import Bring, asking, shifting
from fusegen.backend.cuda.schedule.figures import ManyRows
from fusegen.backend.cuda.schedule.homes.base import AnyHome, Array, Sizes, Stay
from fusegen.backend.cuda.schedule.homes.held import live
from fusegen.backend.emit.lines import Line
from fusegen.backend.target import WARP

VECTOR = 16  # bytes of a copy to shared memory


@dataclass(frozen=True, slots=True)
class Shared(AnyHome):
    """A block's slice of the row stays in its shared memory."""

    vectors: int  # of the slice
    early: bool = False  # does what all rows share come a chunk early?
    visit: ClassVar[str] = "cuda/homes/shared.cuh.j2"
    words: ClassVar[str] = " in shared memory"
    lies: ClassVar[bool] = True
    loader: ClassVar[str] = "fetch_slice"

    @property
    def kind(self) -> str:
        return "in shared memory"

    @property
    def keeps(self) -> bool:
        return True

    def factor(self, stay: Stay, many: ManyRows) -> float:
        much = many.narrow_sides if stay.extra > 1 and stay.narrow else 0.0
        return 1.0 + many.shared + much + (_alone(stay, many) + stay.waits)

    def capacity(self, held: int) -> int | None:
        return self.vectors

    def room(self, held: str) -> str:
        return "slice"

    @property
    def slice_vectors(self) -> int:
        return self.vectors

    @property
    def ahead(self) -> bool:
        return self.early

    def shared_bytes(self, sizes: Sizes) -> int:
        return _bytes_of(self.vectors, sizes)

    def span(self, arrays: Sequence[Array]) -> tuple[str | Line, ...]:
        if not arrays:
            return ()
        return (*_slots(arrays, "end > begin ? end - begin : 0"), *_shifted_slots(arrays),
                _per_group(_count(arrays, "begin", "end"), self.chunk))

    def enter(self, arrays: Sequence[Array]) -> tuple[str, ...]:
        return _fetch(arrays, [a.row for a in arrays], "begin") if arrays else ()

    def brings(self, name: str, kind: str) -> tuple[Bring, ...]:
        return (_slice(name, kind, "begin"),)


@dataclass(frozen=True, slots=True)
class Chip(AnyHome):
    """A block's slice fills the chip: a thread's first chunk stays in registers, the others in
    shared memory, and the next row comes in where this one leaves."""

    vectors: int  # of the slice, in shared memory
    visit: ClassVar[str] = "cuda/homes/chip.cuh.j2"
    words: ClassVar[str] = " in registers and shared memory, from row to row"
    steady: ClassVar[bool] = True
    loader: ClassVar[str] = "fetch_slice"
    chunk: ClassVar[str] = "kRestVectors"

    @property
    def kind(self) -> str:
        return "in registers and shared memory"

    @property
    def keeps(self) -> bool:
        return True

    def factor(self, stay: Stay, many: ManyRows) -> float:
        return 1.0 + many.chip + (many.chip_alone if stay.per_sm == 1 else 0.0)

    def capacity(self, held: int) -> int | None:
        return held + self.vectors

    def room(self, held: str) -> str:
        return f"slice + {held}"

    @property
    def slice_vectors(self) -> int:
        return self.vectors

    def shared_bytes(self, sizes: Sizes) -> int:
        return _bytes_of(self.vectors, sizes)

    def span(self, arrays: Sequence[Array]) -> tuple[str | Line, ...]:
        if _edges(arrays):
            room = ("const column_t room = share > kVectors * Team::threads() ? "
                    "share - kVectors * Team::threads() : 0;  // vectors in slices")
            return ("const column_t held_at = begin + rank;",
                    "const column_t rest = begin + kVectors * Team::threads();", room,
                    *_slots(arrays, "room"),
                    "const column_t per_group = vectors_per_group<Team, kRestVectors>(room);")
        return ("const column_t held_at = begin + rank;", *live("held_at", "held_live"),
                "const column_t rest = begin + kVectors * Team::threads();  // the first in slices",
                *_slots(arrays, "end > rest ? end - rest : 0"),
                _per_group("end - rest", self.chunk))

    def row_span(self, arrays: Sequence[Array]) -> tuple[str | Line, ...]:
        if not _edges(arrays):
            return ()
        return (*live("held_at", "held_live"), *_shifted_slots(arrays))

    def first_row(self, arrays: Sequence[Array]) -> tuple[str, ...]:
        end, live = ("here.end", "first_live") if _edges(arrays) else ("end", "held_live")
        lines = [f"const int {live} = live_vectors<Team, kVectors>(held_at, {end});"
                 for _ in "e" if _edges(arrays)]
        rows = []
        for a in arrays:
            kind, value = a.body(f"{a.all_rows} + first_row * {a.name}_stride", "here.head")
            if _edges(arrays):
                lines.append(f"{kind} {a.name}_first = {value};")
            rows.append(f"{a.name}_first" if _edges(arrays) else value)
        held = [f"Items<{a.type}, kItems> {a.name}_held;" for a in arrays]
        loads = [f"{'auto ' if a.apart else ''}{_asks(a, f'{a.name}_held', row)}, {live});"
                 for a, row in zip(arrays, rows, strict=True)]
        return (*lines, *held, *loads, *_fetch(arrays, rows, "rest", end))

    def next_row(self, arrays: Sequence[Array]) -> tuple[str, ...]:
        # By the last sweep: what registers held of this row has been used.
        edges = _edges(arrays)
        lines: list[str] = []
        for a in arrays:
            kind, value = a.body(f"{a.name}_row + row_step * {a.name}_stride", "next.head")
            lines.append(f"{kind} next_{a.name} = {value};")
        live = "next_live" if edges else "held_live"
        if edges:
            lines.append("const int next_live = live_vectors<Team, kVectors>(held_at, next.end);")
        for a in arrays:
            fresh = f"{a.name}_fresh"
            lines += [f"Items<{a.type}, kItems> {fresh};  // undefined after the last row",
                      f"if (more) {_asks(a, fresh, f'next_{a.name}')}, {live});",
                      f"{a.name}_held = {fresh};"]
        return tuple(lines)

    def settle(self, arrays: Sequence[Array]) -> tuple[str, ...]:
        return tuple(shifting(a.name, f"{a.name}_held") for a in arrays if a.apart)

    def next_group(self, arrays: Sequence[Array]) -> tuple[str, ...]:
        end = "next.end" if _edges(arrays) else "end"
        return (*(f"if (more) {_group(a, f'next_{a.name}', 'rest', end)}" for a in arrays),
                "end_group();")

    def brings(self, name: str, kind: str) -> tuple[Bring, ...]:
        return (_slice(name, kind, "rest"),)

    def in_registers(self, name: str, kind: str, *, maps: bool) -> tuple[Bring, ...]:
        return (Bring(f"{name}_items", kind, alias=f"{name}_held"),)


def _alone(stay: Stay, many: ManyRows) -> float:
    """Where a multiprocessor has room for one slice, nothing runs while its block waits."""
    if stay.resident > 1:
        return 0.0
    if stay.blocks == 1:
        return many.alone if stay.narrow and stay.extra > 1 else 0.0
    return many.alone_cluster if stay.narrow or stay.extra or stay.blocks >= 8 else 0.0


def _asks(array: Array, items: str, row: str) -> str:
    """What asks for a chunk that is shifted when its row's turn comes, or needs not be."""
    return asking(array.loader, array.name, items, f"{row}, held_at")


def as_it_lies(name: str, kind: str) -> Bring:
    """A chunk of a block's slice in shared memory, whole vectors of the array's own."""
    return _slice(name, kind, "begin", f"{name}_room")


def _slice(name: str, kind: str, first: str, place: str = "") -> Bring:
    """A chunk from shared memory, where vector number `first` lies at the beginning."""
    items = f"{name}_items"
    return Bring(items, kind, f"read_items({items}, {place or f'{name}_slots'}, at - {first}")


def slice_bytes(vectors: int, vector_bytes: int, apart: int) -> int:
    """Of a slice of so many vectors, `vector_bytes` in all arrays together, of which `apart` are
    shifted: these lie in more aligned words, by one for each warp."""
    return vectors * vector_bytes + apart * -(-vectors // WARP) * VECTOR


def _bytes_of(vectors: int, sizes: Sizes) -> int:
    return slice_bytes(vectors, sizes.width * sizes.kept, sizes.apart)


def _edges(arrays: Sequence[Array]) -> bool:
    """May rows begin or end inside a vector? Where they end then differs from row to row."""
    return any(a.edges for a in arrays)


def _slots(arrays: Sequence[Array], count: str) -> tuple[str, ...]:
    """Where in shared memory every array's slice of `count` vectors lies."""
    # One array's slice behind the other, each of whole vectors, so that all begin on boundaries.
    lines = ["extern __shared__ __align__(16) unsigned char slices[];"]
    before = ""
    for a in arrays:
        start = before or "slices"
        lines.append(f"{a.type}* {_place(a)} = reinterpret_cast<{a.type}*>({start});")
        before = (f"{_place(a)} + shifted_room<{a.type}, kWidth>({count})" if a.apart
                  else f"{_place(a)} + ({count}) * kWidth")
    return tuple(lines)


def _shifted_slots(arrays: Sequence[Array]) -> tuple[str, ...]:
    """What reads vectors of arrays that lie there as they do in memory."""
    return tuple(f"const ShiftedSlots<{a.type}{', false' if a.lies else ''}> {a.name}_slots = "
                 f"{{{a.name}_room, {a.row}}};" for a in arrays if a.apart)


def _place(array: Array) -> str:
    """What points at its slice."""
    return f"{array.name}_room" if array.apart else f"{array.name}_slots"


def _fetch(
    arrays: Sequence[Array], rows: Sequence[str], first: str, end: str = "end"
) -> tuple[str, ...]:
    groups = [f"    {_group(a, row, first, end)}" for a, row in zip(arrays, rows, strict=True)]
    return ("for (int group = 0; group < kGroups; ++group) {", *groups, "    end_group();", "}")


def _group(array: Array, row: str, first: str, end: str) -> str:
    words = ".words()" if array.lies else ""
    return (f"fetch_group<Layout>({_place(array)}, {row}{words}, {first}, "
            f"{_count([array], first, end)}, group * per_group, per_group);")


def _count(arrays: Sequence[Array], first: str, end: str) -> str:
    """Vectors that are copied: with that behind a slice's last, where words come as they lie."""
    count = f"{end} - {first}"
    return f"{end} > {first} ? {count} + 1 : 0" if any(a.lies for a in arrays) else count


def _per_group(count: str, chunk: str) -> str:
    return f"const column_t per_group = vectors_per_group<Team, {chunk}>({count});"
