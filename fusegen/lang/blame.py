"""Errors as users meet them: at their own line, with no frame of ours between theirs."""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

from fusegen.ir.errors import ArgumentError, FusegenError, InternalError, PipelineError
from fusegen.ir.loc import Loc

PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
_COMMANDS = PACKAGE + "cli" + os.sep  # there the user's line is on the terminal
LIBRARIES = frozenset({"cupy", "jax", "numpy", "pandas", "polars", "scipy", "torch", "xarray"})
"""Libraries of arrays."""

P = ParamSpec("P")
T = TypeVar("T")


def is_ours(frame: FrameType) -> bool:
    """Is it a frame of fusegen's, generated ones included?"""
    module: str = frame.f_globals.get("__name__", "")
    return module == "fusegen" or module.startswith("fusegen.")


def _is_a_librarys(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] in LIBRARIES


def loc_of(frame: FrameType, line: int | None = None) -> Loc:
    """The line that a frame is at, or was when it raised."""
    file, line = frame.f_code.co_filename, frame.f_lineno if line is None else line
    return Loc(file, line, linecache.getline(file, line).strip())


def line_outside(files: Collection[str]) -> Loc:
    """The nearest line of the stack that is in none of these files, and in no library of arrays."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (
        frame.f_code.co_filename in files or _is_a_librarys(frame)
    ):
        frame = frame.f_back
    return Loc("<unknown>", 0) if frame is None else loc_of(frame)


def callers_line() -> Loc | None:
    """The nearest line of the stack outside fusegen and libraries of arrays, which call pipelines
    too; None below the command line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (is_ours(frame) or _is_a_librarys(frame)):
        if frame.f_code.co_filename.startswith(_COMMANDS):
            return None
        frame = frame.f_back
    return None if frame is None else loc_of(frame)


def blamed(error: FusegenError) -> FusegenError:
    """The error, pointing at a line of the user's; of its frames only the user's are kept.

    What is ours (InternalError) stays as it is: its frames are what a report needs.
    """
    if isinstance(error, InternalError):
        return error
    if isinstance(error, PipelineError) and not _at_theirs(error.where):
        line = callers_line()
        if line is not None:
            error.move(line)
    if error.__cause__ is None:
        error.__suppress_context__ = True
    return error.with_traceback(_theirs(error.__traceback__))


def _at_theirs(where: Loc | None) -> bool:
    return where is not None and not where.file.startswith(PACKAGE)


def _theirs(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without our frames."""
    kept = []
    while trace is not None:
        if not is_ours(trace.tb_frame):
            kept.append(trace)
        trace = trace.tb_next
    found: TracebackType | None = None
    for one in reversed(kept):
        found = TracebackType(found, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return found


def blames(fn: Callable[P, T]) -> Callable[P, T]:
    """A function that users call: what it raises points at their line."""

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return fn(*args, **kwargs)
        except FusegenError as error:
            raise blamed(error)  # noqa: B904
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # from inside
            raise blamed(_unfit(fn, error))  # noqa: B904

    return call


def _unfit(fn: Callable[..., object], error: TypeError) -> ArgumentError:
    """What a call gets whose arguments do not fit the def."""
    names = [str(p.replace(annotation=p.empty)) for p in inspect.signature(fn).parameters.values()]
    shown = ", ".join(n for n in names if n != "self")
    return ArgumentError(f"{fn.__name__} was called otherwise than it is: {error}",
                         fix=f"Write {fn.__name__}({shown}).")
