"""Vectors of up to four numbers, which CUDA cores have in registers: scores are made where they are
folded."""

from __future__ import annotations

from fusegen.ir.kernel import FromVectors, Kernel, Param, Sweep
from fusegen.ir.monoid import Folded

FOUR = 4  # numbers of a vector in shared memory, that come in one access


def made_at_items(kernel: Kernel, sweep: Sweep) -> bool:
    """Is a score made where it is folded, beside what others wait for? Of short vectors, where a
    fold asks once for it."""
    sources = [s for s in sweep.loads if isinstance(s, FromVectors)]
    monoid = sweep.monoid
    once = not (monoid.pivots or monoid.best or monoid.lists or monoid.own or sweep.element_stores)
    return once and len(sources) == 1 and all(
        kernel.param(n).k <= FOUR for n in sources[0].reads) and all(
        c.width == 1 and (not isinstance(c, Folded) or c.fold == "sum") for c in monoid.components)


def beside_vectors(kernel: Kernel, sweep: Sweep) -> tuple[Param, ...]:
    """Numbers of a column that come to shared memory with its vector, in place of those that it has
    fewer than four."""
    if not made_at_items(kernel, sweep):
        return ()
    (source,) = (s for s in sweep.loads if isinstance(s, FromVectors))
    numbers = dict.fromkeys(kernel.param(n) for s in sweep.loads
                            if not isinstance(s, FromVectors) for n in s.reads)
    found = [p for p in numbers if p.shape in ("columns", "per_column")
             and p.dtype.name == f"float{8 * kernel.compute.itemsize}"]
    return tuple(found[: FOUR - kernel.param(source.columns[0]).k]) if source.columns else ()
