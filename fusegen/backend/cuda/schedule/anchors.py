"""On whose boundaries the vectors of a row lie, and which arrays have to be shifted to them."""

from __future__ import annotations

from fusegen.backend.cuda.schedule.cuda import VECTOR_BYTES, CudaSchedule, LoadMode
from fusegen.backend.target import WARP
from fusegen.ir.kernel import Kernel, Param


def anchor(kernel: Kernel, load: LoadMode) -> Param | None:
    """The array on whose boundaries a row's vectors lie, where not all arrays share them: what is
    written, if anything is. Rows that share them may all begin on 16 bytes: that is where vectors
    of the smallest elements begin, of others twice as many bytes may."""
    if load == "peeled":
        return min(kernel.elements, key=lambda p: p.dtype.itemsize, default=None)
    return next((p for p in kernel.elements if p.output), next(iter(kernel.elements), None))


def loader_of(param: Param, kernel: Kernel, schedule: CudaSchedule) -> str:
    """The function of <fusegen/…> that brings a chunk's items of an array of elements, or of what
    all rows share: that does not follow where rows begin inside a vector."""
    load = schedule.load
    if param.shape == "per_column":
        if not schedule.has_edges:
            return "load_items"
        return "load_within" if _in_words(param, kernel, schedule) else "load_shifted"
    shifts = load == "shifted" and not param.output and param != anchor(kernel, load)
    return "load_shifted" if shifts else "load_items"


def _in_words(param: Param, kernel: Kernel, schedule: CudaSchedule) -> bool:
    """Is an array that all rows share read in the 16-byte words around vectors? Each comes by two
    accesses where it would by four or five, which saves up to a fifth of the time, and takes twice
    the registers: where it is only mapped, few vectors at a time have them."""
    home, warp = schedule.home, schedule.in_warp
    whole = param.dtype.itemsize * schedule.width == VECTOR_BYTES
    full = home.band_rows > 0  # of rows, are lanes?
    lists = any(s.monoid.lists for s in kernel.sweeps)  # have room for fewer elements at the edges
    # Every lane takes one element at the edges, of which there are nearly four vectors.
    enough = home.threads_keep and schedule.lanes == WARP if warp else True
    sweeps = [s for s in kernel.sweeps if param.name in s.streams]
    maps = all(s.monoid.is_empty and s.element_stores for s in sweeps)
    return whole and enough and maps and not full and not lists
