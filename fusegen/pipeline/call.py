"""One call in full: arrays laid out, the executable that serves them, and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fusegen.backend.arrays.layout import Layout, lay_out
from fusegen.backend.arrays.rows import Axes
from fusegen.backend.backend import Trial
from fusegen.backend.executable import Executable, Progress
from fusegen.backend.memory import Adopted
from fusegen.backend.scalars import scalars_in
from fusegen.compile.passes import Work
from fusegen.ir.errors import ArgumentError
from fusegen.ir.shared import lazy
from fusegen.pipeline.variants import Key, Variants

if TYPE_CHECKING:
    from fusegen.compile.tuning import Tuned


@dataclass
class Call:
    """One run of a typed text on arrays as kernels read and write them."""

    variants: Variants
    layout: Layout
    constants: Mapping[str, Any]

    @property
    def key(self) -> Key:
        rows = self.layout.rows
        shape = (rows.n_rows, rows.n_cols)
        return Key(self.layout.memory, self.layout.like.index, shape, self.layout.phase, rows.inner,
                   self.layout.batch_rows)

    @lazy
    def executable(self) -> Executable:
        """Compiled and loaded where the arrays are."""
        with self.layout.memory.working(self.layout.like):
            return self.variants.executable(self.key)

    def tune(self) -> tuple[Work, Tuned]:
        """Measure the choice for calls like this one. Raises ArgumentError, BackendError."""
        if self.variants.choices.deterministic:
            raise ArgumentError("tune and deterministic exclude one another",
                                why="What is fastest depends on the number of rows.")
        layout = self.layout

        def trial() -> Trial:
            return Trial(layout.fresh(), layout.outputs, self.key.shape, layout.like.given)

        with layout.memory.working(layout.like):
            return self.variants.tune(self.key, trial)

    def run(self, threads: int | None = None, progress: Progress | None = None) -> None:
        """Fill the results. threads, progress: see `Executable`."""
        if self.layout.rows.n_rows:
            run_on(self.executable, self.layout, threads, progress)

    def hand_back(self) -> Any:
        """The results as the user's kind of arrays, nested as the pipeline returns them."""
        return self.layout.hand_back()


def run_on(
    executable: Executable, layout: Layout, threads: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Fill the results of rows, one at least."""
    copies = () if layout.memory.single else layout.copies  # work is queued elsewhere alone
    with layout.memory.working(layout.like):
        executable(
            layout.arrays, layout.rows.n_rows, layout.rows.n_cols, like=layout.like.given,
            copies=copies, threads=threads, progress=progress,
        )


def prepare(
    variants: Variants, adopted: Mapping[str, Adopted], constants: Mapping[str, Any],
    axis: Axes = -1, out: Any = None, keepdims: bool = False,
) -> Call:
    """Lay out inputs and results. Raises ShapeError, DTypeError, ArgumentError."""
    memory = next(iter(adopted.values())).memory
    strips = variants.takes_side_by_side(memory)
    layout = lay_out(variants.graph, variants.params, adopted, axis, out, keepdims, strips)
    scalars = scalars_in(variants.graph, variants.params, constants)
    if scalars:
        layout = replace(layout, arrays={**layout.arrays, **scalars})
    return Call(variants, layout, constants)
