"""How a row comes on chip and stays there: in registers, in shared memory, or in both."""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.emit.cuda.dialect import C_TYPES
from fusegen.emit.cuda.rows import array_name, body_of, edge_lines
from fusegen.kernel import Param
from fusegen.schedule.cuda import CudaSchedule
from fusegen.schedule.launch import Launch, kept_params, ring_params


class ChipPrinter:
    """Statements of one launch, by the place in the kernel where they stand."""

    def __init__(self, launch: Launch, schedule: CudaSchedule) -> None:
        self.kernel, self.schedule = launch.kernel, schedule
        self.kept = kept_params(launch.kernel, schedule)

    @property
    def span(self) -> tuple[str, ...]:
        """Which vectors of the row are this thread's."""
        match self.schedule.home:
            case "registers":
                return ("const column_t at = begin + rank;", *_live("at", "live"))
            case "chip":
                return ("const column_t held_at = begin + rank;", *_live("held_at", "held_live"),
                        "const column_t rest = begin + kVectors * kTeam;  // the first in slices",
                        *self._slots("end > rest ? end - rest : 0"),
                        "const column_t per_group = vectors_per_group(end - rest);")  # fmt: skip
            case "device" if self.schedule.stages:
                return self._rings()
            case "shared" if self.kept:
                return (*self._slots("end > begin ? end - begin : 0"),
                        "const column_t per_group = vectors_per_group(end - begin);")  # fmt: skip
            case _:
                return ()

    @property
    def keeps(self) -> tuple[str, ...]:
        """Bring a row on chip before anything waits, and its elements at the edges."""
        lines: list[str] = []
        if self.schedule.home == "registers":
            for p in self.kept:
                lines.append(f"Items<{C_TYPES[p.dtype.name]}, kItems> {p.name}_items;")
                lines.append(f"load_items({p.name}_items, {self._body(p)}, at, live);")
        elif self.schedule.home == "shared" and self.kept:
            lines = self._fetch([self._body(p) for p in self.kept], "begin")
        if self.schedule.load == "peeled":
            read = dict.fromkeys(n for s in self.kernel.sweeps for n in s.loads)
            lines += [ln for n in read for ln in edge_lines(self.kernel.param(n))]
        return tuple(lines)

    @property
    def first_fetch(self) -> tuple[str, ...]:
        """Bring a team's first row on chip."""
        if self.schedule.home != "chip":
            return ()
        rows = [f"{array_name(p)} + first_row * {p.name}_stride" for p in self.kept]
        held = [f"Items<{C_TYPES[p.dtype.name]}, kItems> {p.name}_held;" for p in self.kept]
        loads = [
            f"load_items({p.name}_held, {row}, held_at, held_live);"
            for p, row in zip(self.kept, rows, strict=True)
        ]
        return (*held, *loads, *self._fetch(rows, "rest"))

    @property
    def refill(self) -> tuple[str, ...]:
        """Bring a part of the next row into the registers that this row has left."""
        if self.schedule.home != "chip":
            return ()
        rows = [
            f"const {C_TYPES[p.dtype.name]}* next_{p.name} = "
            f"{p.name}_row + row_step * {p.name}_stride;"
            for p in self.kept
        ]
        loads = []
        for p in self.kept:
            kind = f"Items<{C_TYPES[p.dtype.name]}, kItems>"
            loads += [f"{kind} {p.name}_fresh;  // undefined after the last row",
                      f"if (more) load_items({p.name}_fresh, next_{p.name}, held_at, held_live);",
                      f"{p.name}_held = {p.name}_fresh;"]  # fmt: skip
        return ("const bool more = row + row_step < n_rows;", *rows, *loads)

    @property
    def refill_group(self) -> tuple[str, ...]:
        """The same, a group of shared memory."""
        if self.schedule.home != "chip":
            return ()
        return (*(f"if (more) {_group(p, f'next_{p.name}', 'rest')}" for p in self.kept),
                "end_group();")  # fmt: skip

    def _body(self, param: Param) -> str:
        return body_of(param, self.schedule)

    def _slots(self, count: str) -> Sequence[str]:
        lines = ["extern __shared__ __align__(16) unsigned char slices[];"]
        before = ""
        for p in self.kept:
            kind = C_TYPES[p.dtype.name]
            start = f"{before} + ({count}) * kWidth" if before else "slices"
            lines.append(f"{kind}* {p.name}_slots = reinterpret_cast<{kind}*>({start});")
            before = f"{p.name}_slots"
        return lines

    def _rings(self) -> tuple[str, ...]:
        """Where chunks of a row arrive, one ring for each array."""
        lines, start = ["extern __shared__ __align__(16) unsigned char rings[];"], "rings"
        for p in ring_params(self.kernel, self.kernel.sweeps[0]):
            kind = C_TYPES[p.dtype.name]
            lines.append(f"{kind}* {p.name}_ring = reinterpret_cast<{kind}*>({start});")
            start = f"{p.name}_ring + kStages * kItems * kTeam"
        return tuple(lines)

    def _fetch(self, rows: Sequence[str], first: str) -> list[str]:
        groups = [f"    {_group(p, row, first)}" for p, row in zip(self.kept, rows, strict=True)]
        return ["for (int group = 0; group < kGroups; ++group) {", *groups, "    end_group();", "}"]


def _live(at: str, live: str) -> tuple[str, str]:
    return (f"const int {live} = live_vectors<kVectors>({at}, end);",
            f"const bool whole = __all_sync(0xffffffffu, {live} == kVectors);")  # fmt: skip


def _group(param: Param, row: str, first: str) -> str:
    return (f"fetch_group({param.name}_slots, {row}, {first}, end - {first}, group * per_group, "
            "per_group);")  # fmt: skip
