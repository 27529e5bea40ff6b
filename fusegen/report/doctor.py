"""What works on this machine, why the rest does not, and what to install."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from fusegen.errors import BackendError
from fusegen.runtime.settings import cache_bytes
from fusegen.schedule.target import host_cpu
from fusegen.version import __version__

_NEEDED = ("numpy", "ml_dtypes", "sympy", "mpmath", "networkx", "jinja2")
_OPTIONAL = (
    ("matplotlib", "graph pictures: pip install matplotlib"),
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
    from fusegen.runtime.toolchain import find_compiler, unusable

    found, fix = find_compiler(), "install gcc or clang, or set CXX"
    if found is None:
        return Finding("CPU kernels", "no C++ compiler: runs on NumPy, slower", False, fix)
    why = unusable(found, host_cpu().flags)
    if why:
        return Finding("CPU kernels", f"{why}\nruns on NumPy, slower", False, fix)
    return Finding("CPU kernels", f"{found}, for {host_cpu().name}", True)


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
    return "as nvidia-smi says: pip install cupy-cuda12x nvidia-cuda-nvrtc-cu12 " \
           "nvidia-cuda-runtime-cu12, or cupy-cuda13x nvidia-cuda-nvrtc nvidia-cuda-runtime "\
           "nvidia-cuda-cccl"


def _optional(name: str, fix: str) -> Finding:
    found = _version(name)
    return Finding(name, found or "not installed (optional)", found is not None, fix)


def _cache() -> Finding:
    from fusegen.runtime.cache.folder import opened

    try:
        with opened() as folder:
            sizes = [f.n_bytes for f in folder.files()]
    except (BackendError, OSError) as error:
        return Finding("cache", "off", False, str(error))
    held = f"{len(sizes)} files, {sum(sizes) / 1e6:.1f} of {cache_bytes() / 1e6:g} MB"
    return Finding("cache", f"{folder.path}: {held}", True)


def text() -> str:
    """The doctor's report."""
    return "\n".join(map(str, findings()))
