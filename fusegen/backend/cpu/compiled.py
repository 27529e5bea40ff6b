"""Generated C++ as a library in the process: compiled, or taken from the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fusegen.backend.cache.entries import artifact
from fusegen.backend.cache.folder import opened
from fusegen.backend.cpu.elf import flaw
from fusegen.backend.cpu.loaded import Library, library
from fusegen.backend.cpu.toolchain import build, find_compiler, known_unusable, unusable, version
from fusegen.backend.notices import LOG
from fusegen.backend.target import CpuTarget, host_cpu, runnable
from fusegen.ir.errors import BackendError, CompilerError, InternalError


def compiled(source: str, target: CpuTarget, name: str, functions: Iterable[str]) -> Library:
    """The source as a library with these functions, from the cache if it is there.

    Raises BackendError, CompilerError, or InternalError for source that a compiler which is sound
    otherwise refuses.
    """
    _check_target(target)
    compiler = find_compiler()
    if compiler is None:
        raise BackendError(
            "no C++ compiler was found. Install g++ or clang++, or set CXX to one."
        )
    key = ("cpu", source, *compiler.command(target.flags), version(compiler))
    wanted, tried = tuple(functions), list[Library]()  # held, so as to be loaded once

    def make(cancelled: Callable[[], bool]) -> bytes:
        made = build(compiler, target.flags, source, wanted, cancelled)
        tried.append(_loaded(made, name))  # what cannot be loaded is not kept
        return made

    def good(data: bytes) -> bool:
        return _good(data, name, wanted, tried)

    try:
        return _loaded(artifact(key, f"library {name}", make, good), name)
    except CompilerError as error:
        if not error.refused or unusable(compiler, target.flags):
            raise
        raise InternalError(
            f"generated source does not compile; it is kept in {_kept(source, name)}\n{error}"
        ) from error


def _good(data: bytes, name: str, functions: Iterable[str], tried: list[Library]) -> bool:
    """Is what was kept of use here? What is not is made again."""
    wrong = flaw(data, functions)
    try:
        if not wrong:
            tried.append(_loaded(data, name))
    except BackendError as error:
        wrong = str(error)
    if wrong:
        LOG.warning("cache: the library of %s is made again: %s", name, wrong)
    return not wrong


def _loaded(data: bytes, name: str) -> Library:
    try:
        return library(data, name)
    except OSError as error:
        raise BackendError(f"the compiled library of {name} cannot be loaded: {error}") from error


def _kept(source: str, name: str) -> str:
    """Where the source can be read; in the message itself where nothing can be written."""
    try:
        with opened() as folder:
            folder.write(f"failed_{name}.cpp", source.encode())
            return str(folder.path / f"failed_{name}.cpp")
    except (BackendError, OSError) as error:
        return f"no file: {error}"


def hindrance(target: CpuTarget, *, failed: bool = False) -> str:
    """Why nothing can be compiled here; "" where it can. Found out when a compiler has `failed`,
    and known from then on."""
    compiler = find_compiler()
    if compiler is None:
        return "no C++ compiler was found. Install gcc or clang"
    tried = failed or known_unusable(compiler, target.flags)
    return unusable(compiler, target.flags) if tried else ""


def _check_target(target: CpuTarget) -> None:
    host = host_cpu()
    if target not in runnable(host):
        raise BackendError(f"this machine is {host.name}: it cannot run code for {target.name}.")
