"""PIPELINE on the command line: a library name, or path.py:name; constants become options."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from fusegen.check import reducing
from fusegen.errors import ArgumentError
from fusegen.library import PIPELINES
from fusegen.names import nearest
from fusegen.own import OwnMonoid
from fusegen.pipeline import Pipeline
from fusegen.signature import REQUIRED

_PREFIX = "constant_"


def find_pipeline(name: str) -> Pipeline:
    """The pipeline called `name`; a monoid of one's own as the pipeline that reduces with it."""
    found = find_named(name)
    return reducing(found) if isinstance(found, OwnMonoid) else found


def find_named(name: str) -> Pipeline | OwnMonoid:
    """What is called `name`. Raises ArgumentError with the nearest right name."""
    path, colon, member = name.rpartition(":")
    if not colon:
        if name in PIPELINES:
            return PIPELINES[name]
        raise ArgumentError(
            f"there is no pipeline {name!r}", why=f"The library has {', '.join(PIPELINES)}.",
            fix=nearest(name, PIPELINES) or "Your own pipelines are path.py:name.",
        )  # fmt: skip
    module = _load(Path(path))
    found = {n: v for n, v in vars(module).items() if isinstance(v, Pipeline | OwnMonoid)}
    if member not in found:
        raise ArgumentError(f"{path} has no pipeline {member!r}",
                            why=f"It has {', '.join(found) or 'none'}.",
                            fix=nearest(member, found))  # fmt: skip
    return found[member]


@cache
def _load(path: Path) -> ModuleType:
    """Import the user's file as a module, once; naming it on the command line asks for that."""
    if not path.is_file():
        others = [p.as_posix() for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise ArgumentError(f"there is no file {path}", fix=nearest(path.as_posix(), others))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # its own neighbours, as `python path.py` has them
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


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
        )  # fmt: skip


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
