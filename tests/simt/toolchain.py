"""Builds a CUDA translation unit into a shared library, through a content-addressed cache."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from simt.source import find_kernels

KERNEL_FILE = "kernel.cu"
"""The name of the kernel source in compiler messages and debug information."""

_HERE = Path(__file__).parent
_MAX_DYNAMIC_SHARED_BYTES = 227 * 1024  # the most that any GPU gives to one block

_COMMON_FLAGS = [
    "-std=c++20",
    "-fPIC",
    "-fvisibility=hidden",  # each module has its own runtime; they must not see one another
    "-fno-gnu-unique",  # nor share the shared memory of equally named templates
    "-fno-extern-tls-init",  # shared memory has no constructors
    f"-I{_HERE}",
]
_RUNTIME_FLAGS = [*_COMMON_FLAGS, "-O2"]
_KERNEL_FLAGS = [
    *_COMMON_FLAGS,
    "-O1",
    "-g1",  # line tables, to name the line of a bad access
    "-w",  # unknown pragmas, mostly
    "-fno-strict-aliasing",  # CUDA code reads floats as float4
    f"-I{_HERE / 'shim'}",
    "-include",
    str(_HERE / "cuda_shim.h"),
]
_CHECK_FLAGS = [
    "-fsanitize=thread",
    "--param=tsan-distinguish-volatile=1",  # threads wait for one another through them
    "-fsanitize=alignment,bounds,integer-divide-by-zero,shift-exponent,signed-integer-overflow",
    "-fno-sanitize-recover=all",
]


class CompileError(Exception):
    """The compiler rejected the source; the message is the compiler's."""


def available() -> str | None:
    """Return why kernels cannot be run on this machine, or None if they can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "the SIMT executor needs Linux on x86-64"
    missing = [tool for tool in ("g++", "readelf", "addr2line") if shutil.which(tool) is None]
    return f"the SIMT executor needs {' and '.join(missing)}" if missing else None


def build_module(source: str, *, check: bool) -> Path:
    """Compile a CUDA source with its launchers; return the path of the shared library."""
    flags = [*_KERNEL_FLAGS, *(_CHECK_FLAGS if check else [])]
    key = _digest(source, *flags, _runtime_identity())
    library = _cache_directory() / f"{key}.so"
    if not library.exists():
        runtime = _build_runtime()
        with tempfile.TemporaryDirectory(dir=_cache_directory()) as scratch:
            built = _compile_and_link(source, flags, runtime, Path(scratch))
            built.replace(library)
    return library


def source_line(library: Path, instruction: int) -> int | None:
    """Return the kernel line of an instruction, given as an offset in the library."""
    command = ["addr2line", "-i", "-e", str(library), hex(instruction)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    # One line for each inlined call, the innermost first: shim functions come before the kernel.
    match = re.search(rf"\b{re.escape(KERNEL_FILE)}:(\d+)", output)
    return int(match[1]) if match else None


def _compile_and_link(source: str, flags: list[str], runtime: Path, scratch: Path) -> Path:
    exports = "\n".join(f"SIMT_EXPORT_KERNEL({name})" for name in find_kernels(source))
    text = f'#line 1 "{KERNEL_FILE}"\n{source}\n#line 1 "launchers"\n{exports}\n'
    (scratch / KERNEL_FILE).write_text(text)
    kernel_object = scratch / "kernel.o"
    dynamic_shared = scratch / "dynamic_shared.s"
    library = scratch / "module.so"
    compile_kernel = ["-x", "c++", "-c", KERNEL_FILE, "-o", str(kernel_object)]
    _run_compiler([*flags, *compile_kernel], scratch)
    dynamic_shared.write_text(_dynamic_shared_assembly(_undefined_shared_arrays(kernel_object)))
    # The dynamic array has to come last in the thread-local segment, hence last in the command.
    inputs = [kernel_object, runtime, dynamic_shared]
    _run_compiler(["-shared", "-Wl,-z,defs", "-o", str(library), *map(str, inputs)], scratch)
    return library


def _undefined_shared_arrays(kernel_object: Path) -> list[str]:
    """Return the symbols of all `extern __shared__` arrays: thread-local and not defined."""
    command = ["readelf", "--symbols", "--wide", str(kernel_object)]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in table.splitlines()]
    return [row[-1] for row in rows if len(row) == 8 and row[3] == "TLS" and row[6] == "UND"]


def _dynamic_shared_assembly(names: list[str]) -> str:
    """Define the dynamic shared array once, under all names that kernels declare for it."""
    capacity = _MAX_DYNAMIC_SHARED_BYTES if names else 1  # an empty segment would not exist
    lines = ['.section .tbss, "awT", @nobits', ".balign 128"]
    for name in ["simt_dynamic_shared", *names]:
        lines += [f".globl {name}", f".hidden {name}", f".type {name}, @tls_object", f"{name}:"]
    lines += [f".zero {capacity}", '.section .note.GNU-stack, "", @progbits', ""]
    return "\n".join(lines)


def _build_runtime() -> Path:
    """Compile the scheduler and the checker, which do not depend on the kernel."""
    library = _cache_directory() / f"runtime-{_runtime_identity()}.o"
    if not library.exists():
        sources = sorted(_HERE.glob("*.cpp"))
        with tempfile.TemporaryDirectory(dir=_cache_directory()) as name:
            # All in one translation unit, because most of the time goes into standard headers.
            scratch = Path(name)
            together = "".join(f'#include "{path}"\n' for path in sources)
            (scratch / "runtime.cpp").write_text(together)
            _run_compiler([*_RUNTIME_FLAGS, "-c", "runtime.cpp", "-o", "runtime.o"], scratch)
            (scratch / "runtime.o").replace(library)
    return library


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
    return _digest(compiler, *(path.read_text() for path in [Path(__file__), *files]))


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:32]


@functools.cache
def _cache_directory() -> Path:
    """Return this user's own directory for built libraries."""
    directory = Path(tempfile.gettempdir()) / f"fusegen-simt-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{directory} must belong to this user alone")
    return directory
