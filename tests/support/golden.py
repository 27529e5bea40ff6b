"""Generated sources as `tests/golden` keeps them, and what is held against them.

They name the texts that their lines come from: file, line and what stands there. Which number the
line has is the file's own matter, so it is not kept: a text that gets a line more or less changes
no golden. That each number is right is checked of the source, before it is dropped.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "golden"
_ROOT = FOLDER.parents[1]
_HOMES = ("fusegen/library", "tests/support")
_NAMED = re.compile(r"\b(\w+\.py):(\d+)(?:  (\S.*))?")


def check(name: str, text: str, config: pytest.Config) -> None:
    """Compare a source with that kept; with --update-golden, keep it."""
    found, kept = _unnumbered(text), FOLDER / name
    if config.getoption("--update-golden"):
        kept.write_text(found)
    assert found == kept.read_text(), f"{name} changed: look, then pytest FILE --update-golden"


def _unnumbered(text: str) -> str:
    """The source without the numbers of lines, each of which has been looked up."""
    return _NAMED.sub(_looked_up, text)


def _looked_up(named: re.Match[str]) -> str:
    file, number, quoted = named.groups()
    line = _lines(file)[int(number) - 1].strip()
    if quoted is None:
        assert line, f"{file}:{number} is empty"
    else:
        assert line == quoted, f"{file}:{number} is not what the source says of it"
    start, _, rest = named[0].partition(f":{number}")
    return start + rest


@cache
def _lines(file: str) -> list[str]:
    (path,) = (found for home in _HOMES if (found := _ROOT / home / file).exists())
    return path.read_text().splitlines()
