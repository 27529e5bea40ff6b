"""What works on this machine, why the rest does not, and what to install."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fusegen.errors import BackendError
from fusegen.schedule.target import host_cpu
from fusegen.version import __version__

_NEEDED = ("numpy", "ml_dtypes", "sympy", "networkx", "jinja2")
_OPTIONAL = (
    ("matplotlib", 'graph pictures: pip install "fusegen[plot]"'),
    ("torch", "torch tensors in and out: pip install torch"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's report; `fix` says what to do where something is missing."""

    what: str
    state: str
    good: bool
    fix: str = ""

    def __str__(self) -> str:
        line = f"{'ok     ' if self.good else 'missing'}  {self.what:<14} {self.state}"
        return f"{line}\n{'':25}{self.fix}" if self.fix and not self.good else line


def findings() -> Iterator[Finding]:
    """Everything that fusegen's backends need, in order of importance."""
    yield Finding("fusegen", f"{__version__} on Python {platform.python_version()}", True)
    for name in _NEEDED:
        found = _version(name)
        yield Finding(name, found or "not installed", found is not None, f"pip install {name}")
    yield _compiler()
    yield _gpu()
    yield from (_optional(name, fix) for name, fix in _OPTIONAL)
    yield _cache()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _compiler() -> Finding:
    from fusegen.runtime.cpu import find_compiler

    found = find_compiler()
    state = f"{found}, for {host_cpu().name}" if found else "no C++ compiler: runs on NumPy, slower"
    return Finding("CPU kernels", state, found is not None, "install gcc or clang, or set CXX")


def _gpu() -> Finding:
    from fusegen.runtime.cuda import available, current_target

    reason = available()
    if reason is None:
        return Finding("GPU kernels", f"CuPy, {current_target().name}", True)
    return Finding("GPU kernels", reason.splitlines()[0], False, _gpu_fix())


def _gpu_fix() -> str:
    if any(_version(f"cupy-cuda{n}x") for n in (12, 13)):
        return "CuPy is installed; it needs an NVIDIA GPU and its driver (nvidia-smi)"
    if shutil.which("nvidia-smi") is None:
        return "needs an NVIDIA GPU with its driver; source and plan work without"
    return 'pip install "fusegen[cuda12]" or "fusegen[cuda13]", as nvidia-smi says'


def _optional(name: str, fix: str) -> Finding:
    found = _version(name)
    return Finding(name, found or "not installed (optional)", found is not None, fix)


def _cache() -> Finding:
    from fusegen.runtime.cache import cache_dir

    try:
        folder = cache_dir()
    except BackendError as error:
        return Finding("cache", "off", False, str(error))
    sizes = list(_sizes(folder))
    return Finding("cache", f"{folder}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB", True)


def _sizes(folder: Path) -> Iterator[int]:
    """Bytes of each file. What other processes remove meanwhile is left out."""
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                yield (Path(parent) / name).stat().st_size


def text() -> str:
    """The doctor's report."""
    return "\n".join(map(str, findings()))
