"""What code mentions by name: globals, attributes, imported modules."""

from __future__ import annotations

import dis
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import CodeType
from typing import Any

_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_BY_TEXT = frozenset({"getattr", "hasattr", "vars", "globals", "__dict__", "attrgetter"})


def nested(code: CodeType) -> Iterator[CodeType]:
    """The code, and that of functions that are defined inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def attributes_of(code: CodeType) -> Iterator[str]:
    """What may be attributes: names, and texts where `getattr` or its like stands beside them."""
    for one in nested(code):
        yield from (n for n in one.co_names if not n.startswith("__"))
        yield from texts_of(one)


def texts_of(code: CodeType) -> Iterator[str]:
    """Constants that `getattr`, `hasattr`, `vars` or `__dict__` may take for names."""
    if not _BY_TEXT.isdisjoint(code.co_names):
        for constant in code.co_consts:
            if isinstance(constant, str):
                parts = constant.split(".")
                yield from (n for n in parts if n.isidentifier() and not n.startswith("__"))


def globals_of(code: CodeType) -> set[str]:
    found: set[str] = set()
    for one in nested(code):
        found |= {str(i.argval) for i in dis.get_instructions(one) if i.opname in _GLOBAL}
        if "globals" in one.co_names:
            found.update(texts_of(one))
    return found


def imports_of(code: CodeType, held: Mapping[str, Any]) -> Iterator[str]:
    """Full names of the modules that are imported inside, and of the packages around them."""
    for one in nested(code):
        steps = list(dis.get_instructions(one))
        for at, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":
                level = steps[at - 2].argval  # before the list of names
                dots = "." * level if isinstance(level, int) else ""
                with suppress(ImportError):
                    name = importlib.util.resolve_name(dots + step.argval, held.get("__package__"))
                    parts = name.split(".")
                    yield from (".".join(parts[: n + 1]) for n in range(len(parts)))
