"""The C++ compiler, asked once for every text: its libraries are shared by all tests and workers.

What fusegen keeps itself is tested with folders that are empty at first; what the compiler answers
is the same every time. Standard headers are read precompiled: they take half of a small kernel's
time. Tests of the compiler's own ways use the fixture `plain_compiler`.

Most libraries are compiled with LIGHT flags, because -O3 takes four to ten times as long, and -O1
twice. What -O3 makes of kernels is the matter of the tests that use the fixture `users_flags`: the
library, what the algebra accepts, and every type, form and list of `test_cpu_*`.
"""

from __future__ import annotations

import gc
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from simt.built import building, digest, folder
from simt.source import without_comments
from simt.toolchain import linker_flags

from fusegen.backend.cpu import toolchain
from fusegen.backend.cpu.process import Ended
from fusegen.backend.emit.headers import include_dir
from fusegen.pipeline.traces import Traces

plain = toolchain._attempt
USERS = toolchain.FLAGS
LIGHT = tuple("-Og" if flag == "-O3" else flag for flag in USERS)

XLA_LIGHTLY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""For what XLA compiles itself: texts in jnp, to compare with. Half the time of JAX's tests."""

_STANDARD = re.compile(r"^#include <\w[\w.]*>$", re.MULTILINE)
_LESS = "#include <cstddef>\n#undef _GLIBCXX_USE_STD_SPEC_FUNCS\n"
"""Before <cmath>: no Bessel functions, which are half of what would have to be read again."""


def bare(source: str) -> str:
    """A text without what no compiler sees, and with headers of ours that it may name: to tell
    whether two are the same program."""
    seen = without_comments(source)
    if seen is not source:
        seen = "\n".join(filter(None, seen.splitlines()))
    return seen + (_ours() if "<fusegen/" in source else "")


@cache
def _ours() -> str:
    files = sorted(path for path in include_dir().rglob("*") if path.is_file())
    return "".join(path.read_text(encoding="utf-8") for path in files)


def shared(
    command: tuple[str, ...], source: str, functions: Iterable[str], seconds: float,
    cancelled: Callable[[], bool],
) -> tuple[bytes, Ended]:
    """As `toolchain._attempt`, of which it stands in the place."""
    names = tuple(functions)
    if "CXX" in os.environ:
        return plain(command, source, names, seconds, cancelled)
    key = digest(_version(command[0]), *command, "", *names, bare(source))
    product = folder() / f"{key}.cpp.so"
    if not product.exists():
        headers = "\n".join(_STANDARD.findall(source))
        quick = (*command, *linker_flags(), "-include", str(_precompiled(command, headers)))
        with building(product) as scratch:
            if scratch is not None:
                data, _ = plain(quick, source, names, seconds, cancelled)
                (scratch / product.name).write_bytes(data)
    return product.read_bytes(), Ended(0, "", 0.0)


def forget() -> None:
    """Every pipeline loses its executables, whatever flags they were compiled with."""
    for found in gc.get_objects():
        if type(found) is Traces:
            found.__init__(found.pipeline, found._arrays)  # type: ignore[misc]


@cache
def _precompiled(command: tuple[str, ...], headers: str) -> Path:
    """These headers as one, which the compiler reads as NAME.gch where the flags are the same."""
    key = digest(_version(command[0]), *command, headers)
    header = folder() / f"{key}.headers.h"
    product = header.with_name(f"{header.name}.gch")
    with building(product) as scratch:
        if scratch is not None:
            header.write_text(f"{_LESS}{headers}\n")
            made = ("-x", "c++-header", str(header), "-o", str(scratch / product.name))
            subprocess.run([*command, *made], check=True)
    return header


@cache
def _version(program: str) -> str:
    ask = [program, "-dumpfullversion", "-dumpmachine"]
    return subprocess.run(ask, capture_output=True, text=True, check=True).stdout
