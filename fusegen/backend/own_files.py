"""fusegen's own files: where the templates are, and a hash of all that output depends on."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path


def package_root() -> Path:
    return Path(__file__).parents[1]


def template_root() -> Path:
    """templates/ of the checkout, or its copy inside an installed wheel."""
    packaged = package_root() / "templates"
    return packaged if packaged.is_dir() else package_root().parent / "templates"


_OURS = re.compile(r'^#include "([\w./]+)"\n', re.MULTILINE)


def merged(name: str) -> str:
    """A C++ file of the templates and all that it includes by `"…"`, each once. Names are looked up
    beside the file, then from the root of the templates."""
    root, known = template_root(), set[Path]()

    def text(path: Path) -> str:
        if path in known:
            return ""
        known.add(path)
        beside = path.parent
        found = path.read_text(encoding="utf-8").replace("#pragma once\n", "")
        return _OURS.sub(lambda m: text(next(
            p for p in (beside / m[1], root / m[1]) if p.is_file())), found)

    return text(root / name)


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
