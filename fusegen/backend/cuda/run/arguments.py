"""What kernels are called with, in the order of parameters: pointers, numbers, tensor maps."""

from __future__ import annotations

from fusegen.backend.cuda.run.extent import Extent, column_tiles
from fusegen.backend.cuda.run.tensor_maps import Mapped, Tiled
from fusegen.backend.cuda.schedule.launch import Launch
from fusegen.backend.cuda.schedule.tiles.rounds import spread
from fusegen.backend.cuda.schedule.tiles.scratch import Scratch


def pointers_of(launch: Launch) -> tuple[str, ...]:
    """Names of a kernel's pointers, in order."""
    return (*(p.name for p in launch.params), *(scratch_name(launch, s) for s in launch.scratch))


def numbers_of(launch: Launch, extent: Extent, splits: int = 1) -> tuple[int, ...]:
    """A kernel's 64-bit arguments after its pointers; strides in elements."""
    known = {"n_rows": extent.n_rows, "n_cols": extent.n_cols, "n_inner": extent.inner or 1,
             "blocks_of_a_row": launch.grid_rows, "first_column": extent.first_column,
             "batch_rows": extent.batch_rows, "splits": splits}
    known |= {f"{name}_rows": rows for name, rows in extent.batches}
    if launch.visits:
        tiles = column_tiles(launch, extent)
        first, end = launch.visits.of(tiles)
        known |= {"first_visit": first, "end_visit": end, "spread": spread(tiles),
                  "again": int(launch.visits.again)}
    for name, strides in extent.strides:
        outer = "batch_stride" if launch.tile else "outer_stride"
        axes = (outer, "stride")[-len(strides) :]
        known |= {f"{name}_{axis}": s for axis, s in zip(axes, strides, strict=True)}
    return tuple(known[n] for n in launch.scalars)


def maps_of(launch: Launch, extent: Extent) -> tuple[Mapped, ...]:
    """Tensor maps behind a kernel's numbers, of some of its arrays of vectors."""
    at = {name: i for i, name in enumerate(pointers_of(launch))}
    strides, batches = dict(extent.strides), dict(extent.batches)
    found = []
    for m in launch.maps:
        p = launch.kernel.param(m.array)
        n_rows = extent.n_cols
        apart = strides[m.array]
        rows = batches.get(m.array, extent.batch_rows)  # of a batch
        if p.shape == "row_vector":
            n_rows, apart = rows, (rows * apart[0], *apart)
        shape = (extent.n_rows // max(1, rows), n_rows, p.k)
        box = m.box
        if launch.tile and launch.tile.chunked and p.shape == "row_vector":
            box = min(box, -(-rows // 8) * 8)
        found.append(Mapped(at[m.array], Tiled(p.dtype.number.name, p.dtype.itemsize, shape,
                                               (apart[0], apart[1]), box)))
    return tuple(found)


def scratch_name(launch: Launch, scratch: Scratch) -> str:
    """Tells apart what launches of a program must not share."""
    return f"{launch.symbol}.{scratch.name}" if scratch.kind == "tickets" else scratch.name
