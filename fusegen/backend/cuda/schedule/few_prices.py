"""What few rows cost: what is waited for, one after the other, in microseconds.

They leave most multiprocessors idle, so bytes count less than launches, loads and meetings do.
"""

from __future__ import annotations

from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.figures import FewRows, Figures
from fusegen.backend.cuda.schedule.merges import MAX_CLUSTER
from fusegen.backend.cuda.schedule.occupancy import resident, slots
from fusegen.backend.cuda.schedule.work import Work
from fusegen.backend.target import WARP


def figures_of(work: Work, figures: Figures) -> FewRows:
    """Rows that are only read, and values that take long to make, have figures of their own."""
    return figures.few if work.stores and not work.heavy else figures.few_others


def latencies(
    one: CudaSchedule, work: Work, rows: int, figures: Figures
) -> tuple[tuple[str, float], ...]:
    """Each with its name, in microseconds: they add up."""
    few, many = figures_of(work, figures), figures.many
    share = -(-work.vectors // one.blocks) * one.width  # elements of a block
    sweeps = 2 if work.stores else 1
    per_sm = one.per_sm if one.home.steady else max(1, resident(one, work))
    passes = one.block_rows // one.rows_per_block
    blocks = -(-rows // one.block_rows) * one.blocks
    rounds = -(-blocks // slots(one, per_sm, many))
    beside = min(per_sm, -(-blocks // one.target.multiprocessors))  # blocks on one multiprocessor
    lengths = share * one.block_rows * beside * few.element * sweeps
    again = few.again if not one.home.keeps and work.sweeps > 1 else 0.0
    crowd = blocks / one.target.multiprocessors - 1.0
    crowded = one.blocks == MAX_CLUSTER and one.clustered and crowd > 0.0
    sliced = one.home.slice_vectors > 0 and not one.home.threads_keep
    vector = (few.slice_vector + few.slice_mapped * work.extra if sliced
              else one.width * few.thread_element)
    thread = passes * share / one.team_threads / one.width * vector
    met = rounds * (few.steady if one.home.steady else 1.0)
    return (("launch and first load", few.launch),
            ("elements", rounds * (lengths + thread) * (1 + again)),
            ("merges", met * one.top.merge.latency(one.threads, one.blocks, few)),
            ("clusters", few.beside_16 * crowd if crowded else 0.0),
            ("mapped", mapped(one, work) * few.mapped),
            ("slices", _slices(one, few)))


def mapped(one: CudaSchedule, work: Work) -> int:
    """Vectors that a thread maps one after the other, and waits for what rows share beside each."""
    holds = one.home.threads_keep and not one.home.band_rows and one.width > 1
    enough = not one.in_warp or one.lanes == WARP
    alone = work.extra > 0 and work.stores and one.has_edges and holds and enough
    return one.vectors if alone else 0


def _slices(one: CudaSchedule, few: FewRows) -> float:
    """Parts of rows that are in shared memory."""
    if not one.home.slice_vectors:
        return 0.0
    return few.slices if one.home.steady else few.filling
