"""What users are told once: warnings that point at their own line, and the log."""

from __future__ import annotations

import logging
import sys
import warnings
from functools import cache

from fusegen.sources import package_root

LOG = logging.getLogger("fusegen")
"""What is compiled, loaded, made again and refused, and how long it took. Silent unless asked for:
logging.basicConfig(level=logging.INFO), or DEBUG."""

LOG.addHandler(logging.NullHandler())


@cache
def warn_once(text: str) -> None:
    """A RuntimeWarning, once per process and text."""
    LOG.warning("%s", text)
    warnings.warn(text, RuntimeWarning, stacklevel=_depth())


def _depth() -> int:
    """Of the first caller that is not fusegen's, as `warn_once` sees it."""
    ours, depth = str(package_root()), 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        frame, depth = frame.f_back, depth + 1
    return depth
