"""Lines of the user's text: where what is being traced is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fusegen.ir.loc import Loc
from fusegen.lang.blame import PACKAGE, line_outside

_LANGUAGE_FILES = {
    f"{PACKAGE}{file}.py"
    for file in ("lang/value", "lang/trace", "lang/elementwise", "lang/reductions", "lang/columns",
                 "lang/vectors", "lang/words", "lang/refused", "lang/own", "lang/callables",
                 "pipeline/pipeline", "ir/varying", "ir/literals")
}
_LINE: ContextVar[Loc | None] = ContextVar("fusegen_line", default=None)


def here() -> Loc:
    """The nearest line of the stack that is not the language itself, or what `written_at` says."""
    return _LINE.get() or line_outside(_LANGUAGE_FILES)


@contextmanager
def written_at(line: Loc | None) -> Iterator[None]:
    """New nodes belong to this line; None: to the caller's, as they do by themselves."""
    token = _LINE.set(line)
    try:
        yield
    finally:
        _LINE.reset(token)
