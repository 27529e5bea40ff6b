"""PIPELINE on the command line: a library name, or path.py:name; constants become options."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from fusegen.ir.errors import ArgumentError, FusegenError
from fusegen.ir.loc import Loc
from fusegen.ir.nearest import nearest
from fusegen.lang.blame import PACKAGE, loc_of
from fusegen.lang.own import OwnMonoid
from fusegen.lang.signature import REQUIRED
from fusegen.library.check import reducing
from fusegen.library.vectors import EVERY
from fusegen.pipeline.pipeline import Pipeline

_PREFIX = "constant_"
_FOLDERS: set[Path] = set()  # of users' files, as loaded


def users_mistake(error: BaseException) -> ArgumentError | None:
    """What a user's file raised on its own account, at its line; None where we did."""
    where = _place(error)
    if where is None or where.file.startswith("<") or not _is_theirs(where.file):
        return None
    return ArgumentError(f"{type(error).__name__}: {error}", where=where)


def find_pipeline(name: str) -> Pipeline:
    """The pipeline called `name`; a monoid of one's own as the pipeline that reduces with it."""
    found = find_named(name)
    return reducing(found) if isinstance(found, OwnMonoid) else found


def find_named(name: str) -> Pipeline | OwnMonoid:
    """What is called `name`. Raises ArgumentError with the nearest right name."""
    if name in EVERY:
        return EVERY[name]
    path, colon, member = name.rpartition(":")
    if not colon and _is_path(name):
        every = [f"{name}:{n}" for n in _members(Path(name))]
        raise ArgumentError(f"{name} is a file, not one of its pipelines",
                            why=f"It has {', '.join(every) or 'none'}.",
                            fix=f"Name one: {every[0] if every else 'path.py:name'}.")
    if not colon:
        raise ArgumentError(
            f"there is no pipeline {name!r}", why=f"The library has {', '.join(EVERY)}.",
            fix=nearest(name, EVERY) or "Your own pipelines are path.py:name.",
        )
    found = _members(Path(path))
    if member not in found:
        raise ArgumentError(f"{path} has no pipeline {member!r}",
                            why=f"It has {', '.join(found) or 'none'}.",
                            fix=nearest(member, found))
    return found[member]


def _is_path(name: str) -> bool:
    """Does it look like one, or is there a file?"""
    return name.endswith(".py") or any(s in name for s in "/\\") or Path(name).exists()


def _members(path: Path) -> dict[str, Pipeline | OwnMonoid]:
    """What the user's file has. Raises ArgumentError."""
    return {n: v for n, v in vars(_load(path)).items() if isinstance(v, Pipeline | OwnMonoid)}


@cache
def _load(path: Path) -> ModuleType:
    """Import the user's file as a module, once; naming it on the command line asks for that."""
    if path.is_dir():
        raise ArgumentError(f"{path} is a folder", fix="Name a file: path.py:name.")
    if not path.is_file():
        others = [p.as_posix() for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise ArgumentError(f"there is no file {path}", fix=nearest(path.as_posix(), others))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    _FOLDERS.add(Path(spec.origin or "").parent)
    sys.path.insert(0, str(path.parent))  # its own neighbours, as `python path.py` has them
    try:
        spec.loader.exec_module(module)
    except (FusegenError, KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise ArgumentError(f"{path} cannot be imported: {type(error).__name__}: {error}",
                            where=_place_in(path, error)) from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _place_in(path: Path, error: BaseException) -> Loc | None:
    """Where a file that is imported went wrong: its first line, if none of it was understood."""
    found = _place(error)
    nowhere = found is not None and found.file.startswith(("<", PACKAGE))
    return Loc(str(path), 1, "") if nowhere else found


def _place(error: BaseException) -> Loc | None:
    """The line where it went wrong: the last one of a user's file, if only libraries are below."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return Loc(error.filename, error.lineno or 0, (error.text or "").strip())
    found: TracebackType | None = None
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if found is None or _is_theirs(file) or file.startswith(PACKAGE):
            found = trace
        trace = trace.tb_next
    return None if found is None else loc_of(found.tb_frame, found.tb_lineno)


def _is_theirs(file: str) -> bool:
    """Is it a file that was named on the command line, or a neighbour of one?"""
    return Path(file).parent in _FOLDERS and not file.startswith(PACKAGE)


def add_constants(parser: argparse.ArgumentParser, pipeline: Pipeline) -> None:
    """One option per keyword constant, with its default's type."""
    if not pipeline.signature.constants:
        return
    group = parser.add_argument_group(f"constants of {pipeline.name}")
    for name, default in pipeline.signature.constants.items():
        required = default is REQUIRED
        group.add_argument(
            f"--{name.replace('_', '-')}", dest=_PREFIX + name, type=_reader(default),
            required=required, default=argparse.SUPPRESS, metavar=name.upper(),
            help="needed" if required else f"default {default!r}",
        )


def _reader(default: Any) -> Any:
    if isinstance(default, bool):
        return _truth
    return type(default) if isinstance(default, int | float | str) else _number


def _truth(text: str) -> bool:
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return known[text.lower()]


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def constants_of(args: argparse.Namespace) -> dict[str, Any]:
    """The constants given on the command line."""
    return {n.removeprefix(_PREFIX): v for n, v in vars(args).items() if n.startswith(_PREFIX)}
