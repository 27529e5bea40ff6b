"""On whose boundaries the vectors of a row lie, and which arrays have to be shifted to them."""

from __future__ import annotations

from fusegen.backend.cuda.schedule.cuda import LoadMode
from fusegen.ir.kernel import Kernel, Param


def anchor(kernel: Kernel, load: LoadMode) -> Param | None:
    """The array on whose boundaries a row's vectors lie, where not all arrays share them: what is
    written, if anything is. Rows that share them may all begin on 16 bytes: that is where vectors
    of the smallest elements begin, of others twice as many bytes may."""
    if load == "peeled":
        return min(kernel.elements, key=lambda p: p.dtype.itemsize, default=None)
    return next((p for p in kernel.elements if p.output), next(iter(kernel.elements), None))


def loader_of(param: Param, kernel: Kernel, load: LoadMode) -> str:
    """The function of <fusegen/…> that brings a chunk's items of an array of elements, or of what
    all rows share: that does not follow where rows begin inside a vector."""
    if param.shape == "per_column":
        return "load_shifted" if load in ("peeled", "shifted") else "load_items"
    shifts = load == "shifted" and not param.output and param != anchor(kernel, load)
    return "load_shifted" if shifts else "load_items"
