"""Statistics of every column of a table that memory does not hold: one pass over the file, by Dask.

    python examples/column_statistics.py      # 64 MB, as .npy, Zarr and HDF5 if these are installed
    python examples/column_statistics.py --gb 20 --sources zarr --folder /data

Chunks of rows become states, 88 bytes a column, which merge along Dask's tree. A few chunks are
resident, whatever the file has: the peak is measured, printed, and held against 2 GB.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.diagnostics import ProgressBar

import fusegen as fg

MOST_RESIDENT = 2.0  # GB
CHUNK = 1 << 24  # numbers: 64 MB
CHECKED = [0, 7, -1]  # columns


@fg.pipeline
def statistics(x, *, k=5):
    """As a textbook has them; derived, proved and folded as one state."""
    return {"mean": fg.mean(x), "variance": fg.var(x), "logsumexp": fg.logsumexp(x),
            "top": fg.topk(x, k)}


# ---- files ----


@dataclass(frozen=True)
class Stored:
    """A .npy file that is mapped while a chunk is copied: pages of files that stay mapped count as
    resident."""

    path: Path
    shape: tuple[int, int]
    dtype: np.dtype
    ndim: int = 2

    def __getitem__(self, key: Any) -> np.ndarray:
        return np.array(np.load(self.path, mmap_mode="r")[key])


def write(kind: str, path: Path, shape: tuple[int, int], blocks: Iterator[np.ndarray]) -> None:
    match kind:
        case "npy":
            with path.open("wb") as file:
                np.lib.format.write_array_header_1_0(
                    file, {"descr": "<f4", "fortran_order": False, "shape": shape})
                for block in blocks:
                    block.tofile(file)
            return
        case "zarr":
            import zarr

            table = zarr.create_array(str(path), shape=shape, dtype="f4", compressors=None,
                                      chunks=(min(shape[0], 1024), shape[1]))
        case _:
            import h5py

            table = h5py.File(path, "w").create_dataset("x", shape, "f4")
    first = 0
    for block in blocks:
        table[first : first + len(block)] = block
        first += len(block)
    if kind == "hdf5":
        table.file.close()


def opened(kind: str, path: Path, chunks: tuple[int, int]) -> da.Array:
    match kind:
        case "npy":
            like = np.load(path, mmap_mode="r")
            return da.from_array(Stored(path, like.shape, like.dtype), chunks=chunks)
        case "zarr":
            return da.from_zarr(str(path), chunks=chunks)
        case _:
            import h5py

            return da.from_array(h5py.File(path)["x"], chunks=chunks)


def random_blocks(
    shape: tuple[int, int], n_rows: int, kept: list[np.ndarray]
) -> Iterator[np.ndarray]:
    """Normal numbers, columns of other means and scales; `kept` gets the columns to check."""
    rng = np.random.default_rng(0)
    mean, scale = rng.normal(0, 30, shape[1]), rng.uniform(0.1, 3, shape[1])
    for first in range(0, shape[0], n_rows):
        size = (min(n_rows, shape[0] - first), shape[1])
        block = rng.standard_normal(size, np.float32)
        block *= scale.astype("f4")
        block += mean.astype("f4")
        kept.append(block[:, CHECKED].copy())
        yield block


# ---- a run ----


def peak(*, anew: bool = False) -> float:
    """GB that the process had in memory at most, from now on where it is begun anew (where Linux
    lets it)."""
    if anew:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024 / 1e9


def timed(*lazy: Any) -> tuple[tuple[Any, ...], dict[str, float]]:
    """(results, seconds on the clock and of processors)."""
    start, cpu = time.perf_counter(), time.process_time()
    with ProgressBar():
        found = dask.compute(*lazy)
    return found, {"s": round(time.perf_counter() - start, 2),
                   "cpu_s": round(time.process_time() - cpu, 2)}


def check(found: dict[str, Any], columns: np.ndarray) -> None:
    """Against float64, of the columns that were kept: (rows, few)."""
    x, (values, rows) = columns.astype("f8"), found["top"]
    top = x.max(0)
    np.testing.assert_allclose(found["mean"][CHECKED], x.mean(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["variance"][CHECKED], x.var(0), rtol=1e-4)
    np.testing.assert_allclose(found["logsumexp"][CHECKED],
                               top + np.log(np.exp(x - top).sum(0)), rtol=1e-6, atol=1e-5)
    best = np.argsort(-x, axis=0, kind="stable")[: len(rows)]
    np.testing.assert_array_equal(rows[:, CHECKED], best)
    np.testing.assert_array_equal(values[:, CHECKED], np.take_along_axis(x, best, 0))


def run(kind: str, folder: Path, shape: tuple[int, int], peer: bool) -> dict[str, Any]:
    """Write the file, read it once, say what that took."""
    path, kept = folder / f"table.{kind}", []
    n_rows = min(CHUNK // shape[1], -(-shape[0] // 6))
    before = peak(anew=True)
    write(kind, path, shape, random_blocks(shape, n_rows, kept))
    try:
        x = opened(kind, path, (n_rows, shape[1]))
        small = fg.dask.apply(statistics, x[: 2 * n_rows, :8], axis=0)
        dask.compute(small)  # derives, proves and compiles
        (found,), took = timed(fg.dask.apply(statistics, x, axis=0))
        resident = peak()
        check(found, np.concatenate(kept))
        gb = x.nbytes / 1e9
        print(f"{kind}: {gb:.2f} GB in {took['s']:.1f} s, {took['cpu_s']:.1f} s of processors; "
              f"{resident:.2f} GB resident at most", flush=True)
        assert resident < max(MOST_RESIDENT, before + 0.5), f"{resident:.2f} GB resident"
        said = {"source": kind, "shape": shape, "gb": round(gb, 3), "chunks": x.npartitions,
                **took, "peak_resident_gb": round(resident, 3)}
        if peer:
            said["dask_mean_and_var_alone"] = timed(x.mean(0), x.var(0))[1]
        return said
    finally:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def main() -> None:
    there = [k for k, m in (("npy", "numpy"), ("zarr", "zarr"), ("hdf5", "h5py"))
             if importlib.util.find_spec(m)]
    read = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    read.add_argument("--gb", type=float, default=0.064, help="size of the file")
    read.add_argument("--columns", type=int, default=1000)
    read.add_argument("--sources", nargs="+", default=there, choices=there)
    read.add_argument("--folder", type=Path, help="where there is room for it")
    read.add_argument("--peer", action="store_true", help="time Dask's own mean and var as well")
    read.add_argument("--output", type=Path, help="results as JSON")
    given = read.parse_args()
    shape = (int(given.gb * 1e9 / 4 / given.columns), given.columns)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        runs = [run(kind, Path(folder), shape, given.peer) for kind in given.sources]
    if given.output:
        said = {"machine": platform.processor() or platform.machine(),
                "versions": {"dask": dask.__version__, "numpy": np.__version__}, "runs": runs}
        given.output.write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
