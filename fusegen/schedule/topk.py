"""How a team keeps the K best candidates of a row: keys, slots, and when the list is cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusegen.dtypes import DType
from fusegen.expr import Var
from fusegen.kernel import Kernel
from fusegen.monoid import KBest
from fusegen.schedule.cuda import MAX_WIDTH, CudaSchedule

SHARED_LIST_BYTES = 33792  # of all lists of a block; larger ones live in device memory
FEW_CANDIDATES = 128  # that are sorted by counting
_SPARE_BITS = {"bfloat16": 16, "float16": 13}  # of a float that holds such a value

Order = Literal["FloatOrder", "DoubleOrder", "IntOrder", "LongOrder"]


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """A candidate as an integer: its value's order, then its column."""

    order: Order
    spare: int  # low bits of a float that are 0 in all values
    wide: bool  # 128 bits

    @property
    def n_bytes(self) -> int:
        return 16 if self.wide else 8


@dataclass(frozen=True, slots=True)
class ListPlan:
    """A list of K candidates in a team's memory."""

    key: KeyPlan
    slots: int  # a power of two
    kept: int  # candidates that may stay when the list is cut
    crowd: int  # candidates that make a list to be cut
    groups: int  # of a thread's first items, whose best ones set the first edge; 0: there is none
    takes_all: bool  # or do all items of the first tile become candidates?
    guess: bool  # does the list of a long row begin with an edge that a sample makes likely?
    samples: int  # vectors that set an edge after many candidates at once; 0: there is none

    @property
    def n_bytes(self) -> int:
        return self.slots * self.key.n_bytes


def key_plan(kernel: Kernel, best: KBest, schedule: CudaSchedule) -> KeyPlan:
    """The narrowest key of a list's candidates."""
    loaded = loaded_type(kernel, best)
    if best.kind == "int":
        narrow = loaded is not None and (loaded.itemsize < 4 or loaded.name == "int32")
        order: Order = "IntOrder" if narrow else "LongOrder"
        return KeyPlan(order, 0, not narrow or schedule.wide_columns)
    if kernel.compute.itemsize == 8:
        return KeyPlan("DoubleOrder", 0, True)
    spare = _SPARE_BITS.get(loaded.name, 0) if loaded else 0
    return KeyPlan("FloatOrder", spare, schedule.wide_columns)


def loaded_type(kernel: Kernel, best: KBest) -> DType | None:
    """The type in memory of values that are ranked as they were loaded."""
    name = best.lift.name if isinstance(best.lift, Var) else None
    return next((p.dtype for p in kernel.params if p.name == name), None)


def list_plan(kernel: Kernel, best: KBest, schedule: CudaSchedule) -> ListPlan:
    """Room for twice as many candidates as a list keeps; more where many come at a time."""
    k = best.k
    key = key_plan(kernel, best, schedule)
    kept = k + k // 8 + 16
    least = 256 if schedule.team == "lanes" else 512 if k <= 64 else 2048 if k <= 256 else 4096
    if schedule.blocks > 1 and schedule.blocks * kept <= 4096:
        least = max(least, schedule.blocks * kept)  # what the last block of a row gathers
    slots = 1 << (max(least, 2 * kept) - 1).bit_length()
    crowd = min(2 * k + k // 2 + 64, max(slots * 7 // 16, kept + kept // 8))
    samples = min(slots - crowd, max(512, 4 * k))
    groups, tile = _groups(k, slots, schedule), schedule.items * schedule.team_threads
    sample = 2 * schedule.width * schedule.team_threads
    guess = k >= (256 if schedule.width == MAX_WIDTH else 512) and sample <= slots
    return ListPlan(
        key=key, slots=slots, kept=kept, crowd=crowd, groups=groups,
        takes_all=not groups and tile <= slots, guess=guess,
        samples=samples if 2 * samples > 3 * k else 0,
    )  # fmt: skip


def _groups(k: int, slots: int, schedule: CudaSchedule) -> int:
    """As few groups as hold the best items apart; none where every item may be a candidate."""
    team, groups = schedule.team_threads, 1
    while groups < schedule.vectors and team * groups < 2 * k:
        groups *= 2
    return groups if 4 * team * groups >= 5 * k and team * groups <= slots else 0


def in_device_memory(kernel: Kernel, schedule: CudaSchedule) -> bool:
    """Do the kernel's lists exceed what a block can keep in static shared memory?"""
    if schedule.lists != "streamed":
        return False
    total = sum(
        list_plan(kernel, best, schedule).n_bytes
        for sweep in kernel.sweeps for best in sweep.monoid.lists
    )  # fmt: skip
    return total * schedule.rows_per_block > SHARED_LIST_BYTES
