"""Input of `fusegen run`: read from .npy or .npz, or made from a seed."""

from __future__ import annotations

import argparse
import math
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType, dtype_of
from fusegen.ir.errors import ArgumentError
from fusegen.ir.nearest import nearest
from fusegen.pipeline.pipeline import Pipeline

_MADE = {"rows": 4000, "cols": 25000, "dtype": "float32", "seed": 0, "inputs": ()}


def add_made_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that say what is made; none has a value where it is not given."""
    parser.add_argument("--rows", type=int, metavar="N", help="of made input (4000)")
    parser.add_argument("--cols", type=int, metavar="N", help="of made input (25000)")
    parser.add_argument("--dtype", help="of made input (float32)")
    parser.add_argument("--seed", type=int, help="of made input (0)")
    parser.add_argument("--with", dest="inputs", action="append", metavar="INPUT",
                        help="make this optional input too")


def inputs_of(
    pipeline: Pipeline, args: argparse.Namespace, constants: dict[str, Any]
) -> dict[str, Any]:
    """Arrays by parameter name. Raises ArgumentError."""
    given = [name for name in _MADE if getattr(args, name) is not None]
    if args.input is not None:
        if given:
            option = "with" if given[0] == "inputs" else given[0]
            raise ArgumentError(f"--{option} is of made input, and --input gives one",
                                fix=f"Leave --{option} or --input out.")
        return _read(pipeline, args.input)
    args = argparse.Namespace(**{**vars(args), **{n: _MADE[n] for n in _MADE if n not in given}})
    for option in ("rows", "cols"):
        if getattr(args, option) < 0:
            raise ArgumentError(f"--{option} must not be negative")
    if args.seed < 0:
        raise ArgumentError("--seed must not be negative")
    if args.axis not in (-2, -1, 0, 1):
        raise ArgumentError(f"--axis {args.axis} does not exist", why="Made input has two axes.",
                            fix="Choose 0 or 1, or give --input.")
    for name in args.inputs:
        if name not in pipeline.signature.optional:
            raise ArgumentError(f"{pipeline.name} has no optional input {name!r}",
                                fix=nearest(name, pipeline.signature.optional))
    work = pipeline.work(dtype=args.dtype, inputs=tuple(args.inputs), **constants)
    _check_room(sum(_bytes(i, work.dtypes[i.name], args.rows, args.cols)
                    for i in work.graph.inputs), "made input")
    rng = np.random.default_rng(args.seed)
    return {
        i.name: _make(i, work.dtypes[i.name], args.rows, args.cols, args.axis, rng)
        for i in work.graph.inputs
    }


def _make(
    node: g.Input, dtype: DType, rows: int, cols: int, axis: int, rng: np.random.Generator
) -> Any:
    made = _random(_shape(node, dtype, rows, cols), dtype, cols, rng)
    if node.axis is g.Axis.ELEMENT and axis not in (-1, 1):
        made = np.ascontiguousarray(np.moveaxis(made, -1, axis))
    return made


def _shape(node: g.Input, dtype: DType, rows: int, cols: int) -> tuple[int, ...]:
    return {
        g.Axis.ELEMENT: (rows, cols), g.Axis.PER_COLUMN: (cols,), g.Axis.PER_ROW: (rows,),
        g.Axis.ROW_VECTOR: (rows, dtype.length), g.Axis.COLUMN_VECTOR: (cols, dtype.length),
    }[node.axis]


def _random(shape: tuple[int, ...], dtype: DType, cols: int, rng: np.random.Generator) -> Any:
    match dtype.kind:
        case "bool":
            return rng.random(shape) < 0.5
        case "int":
            info = np.iinfo(dtype.numpy)
            low, high = max(int(info.min), 0), min(int(info.max), max(cols - 1, 0))
            return rng.integers(low, high, shape, dtype=dtype.numpy, endpoint=True)
        case "float":
            wide = np.float64 if dtype.itemsize == 8 else np.float32
            return rng.standard_normal(shape, dtype=wide).astype(dtype.numpy, copy=False)


def _bytes(node: g.Input, dtype: DType, rows: int, cols: int) -> int:
    return math.prod(_shape(node, dtype, rows, cols)) * dtype.itemsize


def _check_room(needed: int, what: str) -> None:
    """Raises ArgumentError for what this machine's memory cannot hold."""
    try:
        room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not told here: the allocation decides
        return
    if needed > room:
        raise ArgumentError(f"{what} would take {needed / 2**30:,.0f} GiB, this machine has "
                            f"{room / 2**30:,.0f}", fix="Ask for less.")


def _read(pipeline: Pipeline, path: Path) -> dict[str, Any]:
    names = pipeline.signature.arrays
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}")
    try:
        data = np.load(path, mmap_mode="r" if path.suffix == ".npy" else None, allow_pickle=False)
        if isinstance(data, np.ndarray):
            return _one(pipeline, data)
        for found in data.files:
            if found not in names:
                raise ArgumentError(f"{path} has an array {found!r}, {pipeline.name} takes "
                                    f"{', '.join(names)}", fix=nearest(found, names))
        # What an archive unpacks to is in its directory; a few kilobytes may hold terabytes.
        _check_room(sum(i.file_size for i in data.zip.infolist()), f"what {path} unpacks to")
        return {n: _known(data[n]) for n in names if n in data.files}
    except (ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        why = str(error) or type(error).__name__
        if "pickle" in why:  # NumPy's advice would run what the file says
            why = "It holds Python objects, or is no such file at all."
        raise ArgumentError(f"{path} is not a whole .npy or .npz file of plain arrays", why=why,
                            fix="numpy.save and numpy.savez write them.") from None


def _one(pipeline: Pipeline, data: Any) -> dict[str, Any]:
    """A .npy file's array as the pipeline's only input."""
    names = pipeline.signature.arrays
    needed = [n for n in names if n not in pipeline.signature.optional]
    if len(needed) > 1:
        raise ArgumentError(f"{pipeline.name} needs {', '.join(needed)}; a .npy holds one",
                            fix="Write a .npz with an array under each name.")
    return {names[0]: _known(data)}


def _known(array: Any) -> Any:
    """Arrays saved as bfloat16 come back as 2-byte blanks: NumPy files do not know the type."""
    if array.dtype == np.dtype("V2"):
        return array.view(dtype_of("bfloat16").numpy)
    return array
