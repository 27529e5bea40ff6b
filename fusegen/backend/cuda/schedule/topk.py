"""How a team keeps the K best candidates of a row: keys, slots, and when the list is cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.target import WARP
from fusegen.ir.dtypes import DType
from fusegen.ir.expr import Var
from fusegen.ir.kernel import Kernel
from fusegen.ir.monoid import KBest

SHARED_LIST_BYTES = 33792  # of all lists of a block; larger ones live in device memory
STATIC_SHARED_BYTES = 47104  # of lists and their tallies; blocks have more than these
FULLEST_BIN = 96  # keys of a histogram's bin that are sorted by counting
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
    slots: int  # candidates that there is room for
    kept: int  # candidates that may stay when the list is cut
    cut_at: int  # candidates that make a list to be cut
    countable: int  # candidates that are put in order without a histogram
    bin_bits: int  # of a histogram's bins
    groups: int  # of a thread's first items, whose best set the first threshold; 0: there is none
    guess: bool  # does the list of a long row begin with a threshold that a sample makes likely?
    samples: int  # vectors that set a threshold after many candidates at once; 0: there is none

    @property
    def n_bytes(self) -> int:
        return self.slots * self.key.n_bytes

    @property
    def tally_bytes(self) -> int:
        """What a list has in shared memory beside its candidates, at most."""
        return (4 << self.bin_bits) + 512


def key_plan(kernel: Kernel, best: KBest, wide_columns: bool) -> KeyPlan:
    """The narrowest key of a list's candidates. wide_columns: a column's number needs 64 bits."""
    loaded = loaded_type(kernel, best)
    if best.kind == "int":
        narrow = loaded is not None and (loaded.itemsize < 4 or loaded.name == "int32")
        order: Order = "IntOrder" if narrow else "LongOrder"
        return KeyPlan(order, 0, not narrow or wide_columns)
    if kernel.compute.itemsize == 8:
        return KeyPlan("DoubleOrder", 0, True)
    spare = _SPARE_BITS.get(loaded.name, 0) if loaded else 0
    return KeyPlan("FloatOrder", spare, wide_columns)


def loaded_type(kernel: Kernel, best: KBest) -> DType | None:
    """The type in memory of values that are ranked as they were loaded."""
    name = best.lift.name if isinstance(best.lift, Var) else None
    streamed = any(name in s.streams for s in kernel.sweeps)
    return next((p.dtype for p in kernel.params if streamed and p.name == name), None)


def list_plan(kernel: Kernel, best: KBest, schedule: CudaSchedule) -> ListPlan:
    """How a list is kept; more slots would leave fewer blocks on a multiprocessor."""
    k, shared = best.k, schedule.clustered
    kept = k + k // 8 + 16
    countable = min(max(128, schedule.team_threads), 256)  # as many find their place by counting
    guess = schedule.sampled and k >= 512 and not shared and _sample(schedule) <= 4096
    slots = _slots(k, kept, max(countable, k + FULLEST_BIN, kept), guess, schedule)
    cut_at = min(2 * k + k // 2 + 64, max(slots * 7 // 16, kept + kept // 8))
    if k >= 512:  # one more candidate of every thread finds room
        cut_at = max(cut_at, slots - schedule.team_threads)
    if shared and k > WARP // 2:  # far more of them may have come together
        countable = min(countable, cut_at - 1)
    share = -(-k // schedule.blocks) if shared else k  # that the first tile of a block has to have
    samples = min((slots - cut_at) * 4 // 5, max(512, 4 * k)) // WARP * WARP
    return ListPlan(
        key=key_plan(kernel, best, schedule.wide_columns), slots=slots, kept=kept, cut_at=cut_at,
        countable=countable, bin_bits=10 if shared and k >= 512 else 9,
        groups=_groups(share, schedule), guess=guess,
        samples=samples if 2 * samples > 3 * k else 0,
    )


def _sample(schedule: CudaSchedule) -> int:
    """Items of the sample that a guess is made from."""
    return 2 * schedule.width * schedule.team_threads


def _slots(k: int, kept: int, beside: int, guess: bool, schedule: CudaSchedule) -> int:
    """Room for what a list keeps, for as many `beside` as are put in order, and for some of the
    candidates that come meanwhile."""
    few = WARP if not schedule.home.stages else 64  # rings leave little room
    least = 256 if schedule.in_warp else 512 if k <= few else 768 if k <= 64 else 1536
    if guess:
        least = max(least, _sample(schedule))
    if schedule.split and schedule.blocks * kept <= 4096:
        least = max(least, schedule.blocks * kept)  # what the last block of a row gathers
    if schedule.clustered:  # what the first block of a row gathers
        least = max(least, beside + max(512, min(5 * k, 7 * k // 2 + 256)))
    return (max(least, 5 * k // 2, kept + beside) + 255) // 256 * 256


def _groups(k: int, schedule: CudaSchedule) -> int:
    """As few groups as hold the best items apart, or each item by itself; none where nearly every
    item may be a candidate."""
    team, groups = schedule.team_threads, 1
    while groups < schedule.vectors and team * groups < 2 * k:
        groups *= 2
    if 2 * k <= team * groups:
        return groups
    return schedule.items if 4 * team * schedule.items >= 5 * k else 0


def in_device_memory(kernel: Kernel, schedule: CudaSchedule) -> bool:
    """Do the kernel's lists exceed what a block can keep in static shared memory?"""
    if schedule.lists != "streamed":
        return False
    plans = [list_plan(kernel, best, schedule)
             for sweep in kernel.sweeps for best in sweep.monoid.lists]
    total = sum(p.n_bytes for p in plans) * schedule.rows_per_block
    tallies = sum(p.tally_bytes for p in plans) * schedule.rows_per_block
    # Blocks that share a row are few: they need not leave room for others.
    most = STATIC_SHARED_BYTES if schedule.clustered else SHARED_LIST_BYTES
    return total > most or total + tallies > STATIC_SHARED_BYTES
