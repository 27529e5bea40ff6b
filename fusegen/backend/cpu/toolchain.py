"""The C++ compiler: which one, what it is asked for, and what is said when it fails."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fusegen.backend.cpu.elf import flaw
from fusegen.backend.cpu.process import SAID_BYTES, Ended, run, scratch
from fusegen.backend.host.threads import aside
from fusegen.backend.notices import LOG, warn_once
from fusegen.backend.settings import compile_seconds
from fusegen.ir.errors import ArgumentError, CompilerError

Cancelled = Callable[[], bool]

# Never -ffast-math: it folds the rounding constants of exp away, and some compilers then switch
# the whole process to flushing subnormals.
FLAGS = (
    "-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fPIC",
    "-shared", "-Wno-psabi",
)
_FAST_MATH = ("-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-ffinite-math-only",
              "-fassociative-math", "-freciprocal-math")
# Macros by which compilers say so; a value of 0 denies it.
_UNPROVED = ("__FAST_MATH__", "__FINITE_MATH_ONLY__", "__ASSOCIATIVE_MATH__", "__RECIPROCAL_MATH__",
             "__NO_SIGNED_ZEROS__")
_DEFINED = re.compile(r"^#define (\w+) (.*)$", re.MULTILINE)
_PREDEFINED_BYTES = 1 << 20  # g++ 12 says 15 kB
_MOST_LIBRARY = 1 << 28  # bytes: kernels have 10 kB to 1 MB

_USUAL = ("c++", "g++", "clang++")
_PROBE = 'extern "C" int fusegen_probe() { return 1; }\n'
_PROBE_SECONDS = 10.0  # or the limit for kernels, if that is less
_SHOWN_LINES = 12


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler as a command: the program's path, and what $CXX says behind it."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.words)

    def command(self, flags: Iterable[str]) -> tuple[str, ...]:
        """What compiles a shared library, but for its files."""
        return (*self.words, *FLAGS, *flags)


def find_compiler() -> Compiler | None:
    """$CXX with its options, else c++, g++ or clang++ on PATH; None without one.

    A $CXX that names no program is passed over, with a warning. Raises ArgumentError for one that
    cannot be read, or that asks for arithmetic of its own.
    """
    text = os.environ.get("CXX", "")
    try:
        own = shlex.split(text)
    except ValueError as error:
        raise ArgumentError(f"CXX={text} cannot be read: {error}",
                            fix="Write a command and its options, as for a shell.") from error
    wrong = [word for word in own if word in _FAST_MATH]
    if wrong:
        raise ArgumentError(f"CXX={text} asks for {wrong[0]}", fix="Leave it out.",
                            why="Results would not be those that were proved.")
    if own:
        found = _program(own[0])
        if found is not None:
            return Compiler((found, *own[1:]))
        warn_once(f"CXX={text} names no program, so fusegen looks for another C++ compiler.")
    return next((Compiler((p,)) for p in map(_program, _USUAL) if p is not None), None)


def _program(name: str) -> str | None:
    """An absolute path."""
    found = shutil.which(name)
    return None if found is None else str(Path(found).absolute())


@cache
def version(compiler: Compiler) -> str:
    """The compiler's version and machine: another one may make another library. Raises
    CompilerError where it cannot be run or does not end."""
    command = (*compiler.words, "-dumpfullversion", "-dumpmachine")
    return aside(lambda cancelled: _answer(command, cancelled))


def _answer(command: tuple[str, ...], cancelled: Cancelled, most: int = SAID_BYTES) -> str:
    """What a compiler says when it is asked. Raises CompilerError where it cannot be run or does
    not end."""
    try:
        with scratch() as folder:
            ended = run(command, folder / "log", _probe_seconds(), cancelled, most)
    except OSError as error:
        raise _not_run(command, error) from error
    if ended.status is None or ended.status < 0:
        raise failed(command, ended, _probe_seconds())
    return ended.said


def _probe_seconds() -> float:
    return min(_PROBE_SECONDS, compile_seconds())


def check_arithmetic(compiler: Compiler, cancelled: Cancelled) -> None:
    """Raises ArgumentError for one that calculates otherwise than proved, whoever asks it to: a
    response file, a configuration file, a script around it. Read from what it predefines."""
    command = (*compiler.words, *FLAGS, "-dM", "-E", "-x", "c++", os.devnull)
    macros = _answer(command, cancelled, most=_PREDEFINED_BYTES)
    wrong = [m[1] for m in _DEFINED.finditer(macros) if m[1] in _UNPROVED and m[2] != "0"]
    if wrong:
        raise ArgumentError(
            f"CXX={compiler} compiles with {wrong[0]}",
            why="Results would not be those that were proved.",
            fix="Look for -ffast-math and its like in files that it reads.",
        )


# ---- building ----


_PROVED: set[Compiler] = set()  # asked once per process


def build(
    compiler: Compiler, flags: Iterable[str], source: str, functions: Iterable[str],
    cancelled: Cancelled,
) -> bytes:
    """A shared library with these functions, whole and for this machine. Raises CompilerError."""
    if compiler not in _PROVED:
        check_arithmetic(compiler, cancelled)
        _PROVED.add(compiler)
    command = compiler.command(flags)
    found, ended = _attempt(command, source, functions, compile_seconds(), cancelled)
    LOG.info("compiled with %s: %d bytes in %.2f s", compiler, len(found), ended.seconds)
    return found


def _attempt(
    command: tuple[str, ...], source: str, functions: Iterable[str], seconds: float,
    cancelled: Cancelled,
) -> tuple[bytes, Ended]:
    try:
        with scratch() as folder:
            text, made = folder / "kernel.cpp", folder / "kernel.so"
            text.write_text(source)
            whole = (*command, "-o", str(made), str(text))
            ended = run(whole, folder / "log", seconds, cancelled)
            if ended.status != 0:
                raise failed(command, ended, seconds)
            n_bytes = made.stat().st_size if made.is_file() else 0
            data = made.read_bytes() if 0 < n_bytes <= _MOST_LIBRARY else b""
    except OSError as error:
        raise _not_run(command, error) from error
    huge = f"it has {n_bytes} bytes" if n_bytes > _MOST_LIBRARY else ""
    wrong = huge or flaw(data, functions)
    if wrong:
        raise CompilerError(command, f"ended well, but what it wrote is unusable: {wrong}",
                            ended.said, fix="Is there room in $TMPDIR? Is CXX a C++ compiler?")
    return data, ended


def _not_run(command: tuple[str, ...], error: OSError) -> CompilerError:
    return CompilerError(command, f"cannot be run: {error.strerror or error}",
                         fix="Is there room in $TMPDIR, and may CXX be executed?")


def failed(command: tuple[str, ...], ended: Ended, seconds: float) -> CompilerError:
    """What a command that failed is reported as."""
    said = "\n".join(ended.said.strip().splitlines()[:_SHOWN_LINES])
    if ended.flooded:
        return CompilerError(command, "was stopped: it said more than 64 MB", said,
                             fix="Is CXX a C++ compiler?")
    if ended.status is None:
        return CompilerError(
            command, f"was stopped after {ended.seconds:.0f} s of {seconds:g}", said,
            fix="FUSEGEN_COMPILE_SECONDS is how long it may take.",
        )
    if ended.status < 0:
        return CompilerError(command, f"was ended by signal {-ended.status}", said,
                             fix="Was there memory enough?")
    return CompilerError(command, f"failed with status {ended.status}", said, refused=True,
                         fix="g++ 11, clang++ 12 and later know these options.")


# ---- can anything be compiled? ----


_UNUSABLE: dict[tuple[str, ...], str] = {}


def unusable(compiler: Compiler, flags: tuple[str, ...]) -> str:
    """Why not even an empty library can be made, as a person reads it; "" where it can. Found out
    once per process."""
    command = compiler.command(flags)
    if command not in _UNUSABLE:
        _UNUSABLE[command] = aside(lambda cancelled: _hindrance(command, cancelled))
    return _UNUSABLE[command]


def known_unusable(compiler: Compiler, flags: tuple[str, ...]) -> bool:
    """Has `unusable` found something?"""
    return bool(_UNUSABLE.get(compiler.command(flags)))


def _hindrance(command: tuple[str, ...], cancelled: Cancelled) -> str:
    try:
        _attempt(command, _PROBE, ["fusegen_probe"], _probe_seconds(), cancelled)
    except CompilerError as error:
        return str(error)
    return ""
