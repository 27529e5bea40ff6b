"""What works on this machine, why the rest does not, and what to install."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from fusegen.backend.findings import Finding, version_of
from fusegen.backend.registry import BACKENDS
from fusegen.backend.settings import cache_bytes
from fusegen.ir.errors import BackendError
from fusegen.ir.version import __version__

_NEEDED = ("numpy", "ml_dtypes", "sympy", "mpmath", "networkx", "jinja2")
_OPTIONAL = (
    ("matplotlib", "graph pictures: pip install matplotlib"),
    ("torch", "torch tensors in and out: pip install torch"),
    ("jax", "JAX arrays in and out, and in its programs: pip install jax"),
)


def findings() -> Iterator[Finding]:
    """Everything that fusegen's backends need, in order of importance."""
    yield Finding("fusegen", f"{__version__} on Python {platform.python_version()}", True)
    for name in _NEEDED:
        found = version_of(name)
        yield Finding(name, found or "not installed", found is not None, f"pip install {name}")
    for backend in reversed(BACKENDS):
        yield from backend.findings()
    yield from (_optional(name, fix) for name, fix in _OPTIONAL)
    yield _cache()


def _optional(name: str, fix: str) -> Finding:
    found = version_of(name)
    return Finding(name, found or "not installed (optional)", found is not None, fix)


def _cache() -> Finding:
    from fusegen.backend.cache.folder import opened

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
