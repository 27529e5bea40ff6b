"""The files of a library, written and compiled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fusegen.backend.cache.entries import artifact
from fusegen.backend.cpu.elf import flaw
from fusegen.backend.cpu.process import run, scratch
from fusegen.backend.cpu.toolchain import (
    Compiler,
    check_arithmetic,
    failed,
    find_compiler,
    version,
)
from fusegen.backend.export.images import files
from fusegen.backend.export.library import Library, headers, texts
from fusegen.backend.host.threads import aside, share, thread_count
from fusegen.backend.settings import compile_seconds
from fusegen.ir.errors import BackendError, CompilerError

Cancelled = Callable[[], bool]

# What a program needs of the machine that it runs on is the C library alone, and the library stays:
# threads of its own sleep in it.
_LINKED = ("-shared", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,--as-needed")
_OWN = ("-static-libstdc++", "-static-libgcc")
# Constants are computed as Python computes them: every operation rounds.
_PLAIN = ("-pthread", "-ffp-contract=off")


def write(library: Library, folder: Path) -> Path:
    """Write all files, compile them, and return the library's path. Raises BackendError where there
    is no compiler, CompilerError, OSError."""
    compiler = find_compiler()
    if compiler is None:
        raise BackendError("an exported library is compiled, and no C++ compiler was found. "
                           "Install g++ or clang++, or set CXX to one.")
    aside(lambda cancelled: check_arithmetic(compiler, cancelled))
    fixed, own = dict(headers()), dict(texts(library))
    for name, text in (fixed | own).items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    images = _images(library)
    for name, data in images.items():
        (folder / "src" / name).write_bytes(data)
    made = _linked(compiler, library, _objects(compiler, library, folder, fixed | own, images),
                   folder / f"src/{library.package}.map")
    found = folder / "lib" / f"lib{library.package}.so"
    new = found.with_suffix(".new")  # a process that has the old one open keeps it
    new.write_bytes(made)
    new.chmod(0o755)
    return new.rename(found)


def _images(library: Library) -> dict[str, bytes]:
    """Machine code for GPUs, file by file."""
    wanted = [image for part in library.parts for image in part.images]
    found: dict[str, bytes] = {}
    share(len(wanted), lambda i: found.update(files(wanted[i])), thread_count())
    return found


def _objects(
    compiler: Compiler, library: Library, folder: Path, texts: Mapping[str, str],
    images: Mapping[str, bytes],
) -> list[bytes]:
    """Every unit compiled: the library's own, for any processor, comes first."""
    main = (f"src/{library.package}.cpp", _PLAIN)
    every = [main, *((f"src/{u.name}", u.flags) for u in library.units)]
    shared = [t for n, t in texts.items() if n.endswith((".hpp", ".h"))]
    held = {u.name: [hashlib.sha256(images[n]).hexdigest() for n in u.holds]
            for u in library.units}
    made: list[bytes] = [b""] * len(every)

    def work(i: int) -> None:
        name, flags = every[i]
        around = [*shared, *held.get(Path(name).name, ())]
        made[i] = _object(compiler, folder, name, texts[name], flags, around)

    share(len(every), work, thread_count())
    return made


def _object(
    compiler: Compiler, folder: Path, name: str, text: str, flags: tuple[str, ...],
    around: Iterable[str],
) -> bytes:
    """One file compiled; kept under all that it depends on."""
    command = tuple(w for w in compiler.command(flags) if w != "-shared")
    key = ("export", text, *around, *command, version(compiler))

    def make(cancelled: Cancelled) -> bytes:
        with scratch() as room:
            made = room / "unit.o"
            source, include = folder / "src", folder / "include"
            whole = (*command, f"-I{source}", f"-I{include}", f"-Wa,-I{source}", "-c",
                     str(folder / name), "-o", str(made))
            _run(whole, room / "log", cancelled)
            return made.read_bytes()

    return artifact(key, f"object {Path(name).name}", make)


def _linked(compiler: Compiler, library: Library, objects: list[bytes], map_: Path) -> bytes:
    links = [o for p in library.places for o in p.links]

    def make(cancelled: Cancelled, own: tuple[str, ...]) -> bytes:
        with scratch() as room:
            names = []
            for i, data in enumerate(objects):
                names.append(str(room / f"{i}.o"))
                Path(names[-1]).write_bytes(data)
            made = room / "library.so"
            _run((*compiler.words, *_LINKED, *own, f"-Wl,--version-script={map_}",
                  f"-Wl,-soname,lib{library.package}.so", *names, *links, "-o", str(made)),
                 room / "log", cancelled)
            return made.read_bytes()

    try:
        found = aside(lambda cancelled: make(cancelled, _OWN))
    except CompilerError as error:
        if not error.refused:
            raise
        found = aside(lambda cancelled: make(cancelled, ()))  # no static libstdc++ is installed
    wrong = flaw(found, [f.name for f in library.functions()])
    if wrong:
        raise CompilerError(compiler.words, f"ended well, but what it wrote is unusable: {wrong}",
                            fix="Is there room in $TMPDIR?")
    return found


def _run(command: tuple[str, ...], log: Path, cancelled: Cancelled) -> None:
    try:
        ended = run(command, log, compile_seconds(), cancelled)
    except OSError as error:
        raise CompilerError(command, f"cannot be run: {error.strerror or error}") from error
    if ended.status != 0:
        raise failed(command, ended, compile_seconds())
