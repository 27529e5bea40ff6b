"""fusegen's own files: where the templates are, and a hash of all that output depends on."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


def package_root() -> Path:
    return Path(__file__).parents[1]


def template_root() -> Path:
    """templates/ of the checkout, or its copy inside an installed wheel."""
    packaged = package_root() / "templates"
    return packaged if packaged.is_dir() else package_root().parent / "templates"


@cache
def sources_digest() -> str:
    """A hash of fusegen's modules and templates: cached results of other versions never match."""
    total = hashlib.sha256()
    templates = {".j2", ".h", ".cuh", ".hpp", ".cpp"}
    for root, suffixes in ((package_root(), {".py"}), (template_root(), templates)):
        for path in sorted(p for p in root.rglob("*") if p.suffix in suffixes):
            total.update(path.relative_to(root).as_posix().encode())
            total.update(path.read_bytes())
    return total.hexdigest()
