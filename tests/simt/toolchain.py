"""Builds a CUDA translation unit into a shared library, through a content-addressed cache."""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from simt import batch, dynamic_shared
from simt.built import building, digest, folder
from simt.source import find_kernels, without_comments

KERNEL_FILE = "kernel.cu"
"""The name of the kernel source in compiler messages and debug information."""

_HERE = Path(__file__).parent
LEVEL = "-O0"
"""Of optimisation: kernels run for a blink of what the compiler takes for them. With "-O1" what
nobody uses is not computed, and so no error."""

_COMMON_FLAGS = [
    "-std=c++20",
    "-fPIC",
    "-fvisibility=hidden",  # each module has its own runtime; they must not see one another
    "-fno-gnu-unique",  # nor share the shared memory of equally named templates
    "-fno-extern-tls-init",  # shared memory has no constructors
    "-fno-exceptions",  # as CUDA has none
    f"-I{_HERE}",
]
_RUNTIME_FLAGS = [*_COMMON_FLAGS, "-O2", "-fno-omit-frame-pointer"]
_KERNEL_FLAGS = [
    *_COMMON_FLAGS,
    "-w",  # unknown pragmas, mostly
    "-fno-strict-aliasing",  # CUDA code reads floats as float4
    f"-I{_HERE / 'shim'}",
]
_CHECK_FLAGS = [
    "-fsanitize=thread",
    "--param=tsan-distinguish-volatile=1",  # threads wait for one another through them
    "-fsanitize=alignment,bounds,integer-divide-by-zero,shift-exponent,signed-integer-overflow",
    "-fno-sanitize-recover=all",
]


_ALONE = ["-g1"]  # line tables, to name the line of a bad access
_TOGETHER = ["-fsanitize-undefined-trap-on-error"]
"""Of what fails among others, only that it does is asked for: what and where is said when it runs
alone. A quarter of the compiler's time."""


class CompileError(Exception):
    """The compiler rejected the source; the message is the compiler's."""


def available() -> str | None:
    """Return why kernels cannot be run on this machine, or None if they can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "the SIMT executor needs Linux on x86-64"
    missing = [tool for tool in ("g++", "readelf", "addr2line") if shutil.which(tool) is None]
    return f"the SIMT executor needs {' and '.join(missing)}" if missing else None


@dataclass(frozen=True)
class Built:
    """A source's kernels in a shared library."""

    library: Path
    mark: str = ""  # behind the names of its kernels, where the library holds others too
    foreign: tuple[tuple[int, int], ...] = ()  # of them, in shared memory: offset and bytes


def build_module(source: str, *, check: bool) -> Built:
    """Compile a CUDA source with its launchers; `together` may have compiled it among others."""
    library = _product(source, check)
    if not library.exists() and not _entry(library).exists():
        ask = getattr(asked, "to_build", None)
        if ask is not None:
            ask(source, check)
    if not library.exists() and _entry(library).exists():
        return Built(*_read_entry(_entry(library)))
    return build_alone(source, check=check)


def build_alone(source: str, *, check: bool) -> Built:
    """As build_module, in a library of its own."""
    library = _product(source, check)
    if not library.exists():
        common = _Common.built(_flags(check) + _ALONE)
        with building(library) as scratch:
            if scratch is not None:
                exports = "\n".join(f"SIMT_EXPORT_KERNEL({name})" for name in find_kernels(source))
                text = f'#line 1 "{KERNEL_FILE}"\n{source}\n#line 1 "launchers"\n{exports}\n'
                _compile_and_link(text, common, scratch / library.name)
    return Built(library)


asked = threading.local()
"""`to_build`, if this thread has it, is called with a source that is to be built, and `check`; when
it returns, the source may have been built by `build_together`."""


def build_together(sources: Collection[str], *, check: bool) -> None:
    """Compile sources as one; each that cannot be compiled so is left to build_module."""
    unit, numbers = batch.joined((s, find_kernels(s)) for s in dict.fromkeys(sources))
    if len(numbers) < 2:
        return
    flags = _flags(check) + _TOGETHER
    library = folder() / f"{digest(unit, *flags, _runtime_identity())}.so"
    common = _Common.built(flags)
    try:
        with building(library) as scratch:
            if scratch is not None:
                _compile_and_link(unit, common, scratch / library.name)
    except CompileError:
        return
    shared = _shared_arrays(library)
    for source, number in numbers.items():
        foreign = [place for name, *place in shared if batch.members_in(name) - {number}]
        entry = _entry(_product(source, check))
        draft = entry.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps([library.name, batch.member(number), foreign]))
        draft.replace(entry)


def _product(source: str, check: bool) -> Path:
    key = digest(without_comments(source), *_flags(check), _runtime_identity())
    return folder() / f"{key}.so"


def _entry(product: Path) -> Path:
    return product.with_suffix(".member")


def _read_entry(entry: Path) -> tuple[Path, str, tuple[tuple[int, int], ...]]:
    library, mark, foreign = json.loads(entry.read_text())
    return folder() / library, f"_{mark}", tuple((offset, size) for offset, size in foreign)


def _flags(check: bool) -> list[str]:
    return [*_KERNEL_FLAGS, LEVEL, *(_CHECK_FLAGS if check else [])]


def source_lines(library: Path, instructions: Collection[int]) -> list[int]:
    """Return the kernel lines of instructions, given as offsets in the library."""
    if not instructions:
        return []
    command = ["addr2line", "-i", "-a", "-e", str(library), *map(hex, instructions)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    # One line for each inlined call, the innermost first: shim functions come before the kernel.
    found = (re.search(rf"\b{re.escape(KERNEL_FILE)}:(\d+)", rows)
             for rows in re.split(r"^0x\w+$", output, flags=re.MULTILINE)[1:])
    return [int(match[1]) for match in found if match]


@dataclass(frozen=True)
class _Common:
    """What every library is made with. Built before a library's lock is taken: with it in hand,
    nobody may ask for another."""

    flags: list[str]
    runtime: Path
    link: tuple[str, ...]

    @classmethod
    def built(cls, flags: list[str]) -> _Common:
        return cls([*flags, "-include", str(_build_shim(flags))], _build_runtime(), linker_flags())


def _compile_and_link(text: str, common: _Common, library: Path) -> None:
    scratch = library.parent
    (scratch / KERNEL_FILE).write_text(text)
    kernel_object = scratch / "kernel.o"
    compile_kernel = ["-x", "c++", "-c", KERNEL_FILE, "-o", str(kernel_object)]
    _run_compiler([*common.flags, *compile_kernel], scratch)
    arrays = _undefined_shared_arrays(kernel_object)
    dynamic = _build_dynamic_shared(arrays, dynamic_shared.boundary(text))
    # The dynamic array has to come last in the thread-local segment, hence last in the command.
    inputs = [kernel_object, common.runtime, dynamic]
    _run_compiler(["-shared", *common.link, "-o", str(library), *map(str, inputs)], scratch)


@functools.cache
def linker_flags() -> tuple[str, ...]:
    """The quickest way to link: the usual one takes as long as a small kernel does.

    A quick linker; and for the largest libraries, empty ones of the same names: the process that
    loads the module has the true ones, in which it finds everything or refuses to load.
    """
    quick = next((name for name in ("mold", "gold") if shutil.which(f"ld.{name}")), None)
    linker = () if quick is None else (f"-fuse-ld={quick}",)
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return linker
    empty = [str(_empty_library(name)) for name in ("libstdc++.so.6", "libgcc_s.so.1")]
    return (*linker, "-nodefaultlibs", "-Wl,--no-as-needed", *empty, "-lm", "-lc")


def _empty_library(name: str) -> Path:
    product = folder() / f"{digest(name, 'empty')}.{name}"
    with building(product) as scratch:
        if scratch is not None:
            make = ["-shared", "-nostdlib", f"-Wl,-soname,{name}", "-x", "c", "/dev/null"]
            _run_compiler([*make, "-o", product.name], scratch)
    return product


def _undefined_shared_arrays(kernel_object: Path) -> tuple[str, ...]:
    """Return the symbols of all `extern __shared__` arrays: thread-local and not defined."""
    return tuple(row[-1] for row in _thread_local_symbols(kernel_object) if row[6] == "UND")


def _shared_arrays(library: Path) -> list[tuple[str, int, int]]:
    """Name, offset and bytes of what is in static shared memory."""
    return [(row[-1], int(row[1], 16), int(row[2], 0)) for row in _thread_local_symbols(library)
            if int(row[2], 0)]


def _thread_local_symbols(file: Path) -> list[list[str]]:
    """The rows of readelf."""
    command = ["readelf", "--symbols", "--wide", str(file)]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in table.splitlines()]
    return [row for row in rows if len(row) == 8 and row[3] == "TLS"]


@functools.cache
def _build_dynamic_shared(names: tuple[str, ...], boundary: int) -> Path:
    """Assembled without a lock, whoever else does it too: a module's own is held meanwhile."""
    text = dynamic_shared.assembly(names, boundary)
    product = folder() / f"{digest(text)}.shared.o"
    if not product.exists():
        with tempfile.TemporaryDirectory(dir=folder()) as name:
            scratch = Path(name)
            (scratch / "shared.s").write_text(text)
            _run_compiler(["-c", "shared.s", "-o", product.name], scratch)
            (scratch / product.name).replace(product)
    return product


@functools.cache
def _build_runtime() -> Path:
    """Compile the scheduler and the checker, which do not depend on the kernel."""
    product = folder() / f"{_runtime_identity()}.runtime.o"
    with building(product) as scratch:
        if scratch is not None:
            # All in one translation unit, because most of the time goes into standard headers.
            together = "".join(f'#include "{path}"\n' for path in sorted(_HERE.glob("*.cpp")))
            (scratch / "runtime.cpp").write_text(together)
            _run_compiler([*_RUNTIME_FLAGS, "-c", "runtime.cpp", "-o", product.name], scratch)
    return product


def _build_shim(flags: list[str]) -> Path:
    """A header that is cuda_shim.h, precompiled: reading it takes as long as a kernel does.

    The compiler takes HEADER.gch for HEADER if that was made with the same flags.
    """
    header = folder() / f"{digest(_runtime_identity(), *flags)}.shim.h"
    product = header.with_name(f"{header.name}.gch")
    if not product.exists():
        with building(product) as scratch:
            if scratch is not None:
                header.write_text(f'#include "{_HERE / "cuda_shim.h"}"\n')
                output = ["-o", str(scratch / product.name)]
                _run_compiler([*flags, "-x", "c++-header", str(header), *output], scratch)
    return header


def _run_compiler(arguments: list[str], directory: Path) -> None:
    command = ["g++", *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(done.stderr)


@functools.cache
def _runtime_identity() -> str:
    """Return a digest of the compiler, of this file and of all C++ files next to it."""
    command = ["g++", "-dumpfullversion", "-dumpmachine"]
    compiler = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    files = sorted(path for path in _HERE.rglob("*") if path.suffix in (".h", ".cpp"))
    return digest(compiler, *(path.read_text() for path in [Path(__file__), *files]))
