"""What users are told once: warnings that point at their own line, and the log."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from fusegen.lang.blame import is_ours

LOG = logging.getLogger("fusegen")
"""What is compiled, loaded, made again and refused, and how long it took. Silent unless asked for:
logging.basicConfig(level=logging.INFO), or DEBUG."""

LOG.addHandler(logging.NullHandler())


@cache
def warn_once(text: str) -> None:
    """A RuntimeWarning, once per process and text."""
    LOG.warning("%s", text)
    later = getattr(_LATER, "texts", None)
    if later is None:
        say([text])
    else:
        later.append(text)


def say(texts: Iterable[str]) -> None:
    """Warnings at the line of the nearest caller that is not fusegen's."""
    for text in texts:
        warnings.warn(text, RuntimeWarning, stacklevel=_depth())


_LATER = threading.local()


@contextmanager
def gathered(texts: list[str]) -> Iterator[None]:
    """What this thread warns of meanwhile is left to the thread it works for, to `say` there."""
    _LATER.texts = texts
    try:
        yield
    finally:
        _LATER.texts = None


def _depth() -> int:
    """Of the first caller that is not fusegen's, as `say` sees it."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and is_ours(frame):
        frame, depth = frame.f_back, depth + 1
    return depth
