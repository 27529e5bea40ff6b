"""Which names generated functions use beside users' own, and fusegen/ir/own_names.py, made of them.

The sources looked at have users' names of one form, zq1, that no template has.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from simt.source import blank_comments_and_strings

import fusegen
from fusegen.ir import own_names
from fusegen.ir.names import follows_a_rule

PIPELINE, _USERS = "zqp", re.compile(r"zq\d+")
_BARE_NAME = re.compile(r"(?<![\w.])(?<!->)(?<!::)[A-Za-z_]\w*")  # no member, nothing qualified
_ROOM = Path(fusegen.__file__).parent
_TEXT = '''\
"""Names of generated functions. Written by `pytest tests/test_names.py --update-names`."""

from __future__ import annotations

_BESIDE = """
{beside}
"""

_ENDINGS = """
{endings}
"""

BESIDE = frozenset(_BESIDE.split())
"""What they call their own beside users' values: a user's name that is one gets an underscore."""

ENDINGS = frozenset(_ENDINGS.split())
"""What they derive from a name, word by word: x_row, x_kept_stride, top_key_of."""
'''


@dataclass
class Found:
    """Names that no rule of names.py tells from users'."""

    beside: set[str] = field(default_factory=set)
    endings: set[str] = field(default_factory=set)

    def unknown(self) -> set[str]:
        return (self.beside - own_names.BESIDE) | (self.endings - own_names.ENDINGS)

    def add(self, other: Found) -> None:
        self.beside |= other.beside
        self.endings |= other.endings

    def write(self) -> None:
        """With what is known already as long as it is spelled somewhere: tests may not reach it."""
        kept = _spelled()
        words = {"beside": self.beside | (own_names.BESIDE & kept),
                 "endings": self.endings | (own_names.ENDINGS & kept)}
        lines = {name: textwrap.fill(" ".join(sorted(found)), 96, initial_indent="    ",
                                     subsequent_indent="    ", break_on_hyphens=False)
                 for name, found in words.items()}
        Path(own_names.__file__).write_text(_TEXT.format(**lines), encoding="utf-8")


def look(source: str, free: Collection[str] = ()) -> Found:
    """`free`: names that were given beside the users', and differ from all of them."""
    found = Found()
    for name in beside_users(source):
        users = _USERS.findall(name)
        if name.startswith(("__", PIPELINE, "sum_")) or "_total" in name or len(users) > 1:
            continue  # CUDA's; global; made by Taken.free
        if name in users or follows_a_rule(name) or any(part in name for part in free):
            continue
        if users and name.startswith(f"{users[0]}_"):
            found.endings.update(name.removeprefix(f"{users[0]}_").split("_"))
        else:
            found.beside.add(name)
    return found


def beside_users(source: str) -> set[str]:
    """All names of the functions in which a user's name is."""
    found: set[str] = set()
    for function in _functions(source):
        names = set(_BARE_NAME.findall(function))
        if any(_USERS.fullmatch(n) for n in names):
            found |= names
    return found


def _functions(source: str) -> Iterator[str]:
    """What stands at the top level of a source, each with its braces."""
    text = re.sub(r"^ *#.*|extern *(\{)?|namespace[^{;]*\{", "", blank_comments_and_strings(source),
                  flags=re.MULTILINE)
    depth = start = 0
    for mark in re.finditer(r"[{};]", text):
        depth = max(0, depth + {"{": 1, "}": -1, ";": 0}[mark[0]])
        if depth == 0:
            yield text[start : mark.end()]
            start = mark.end()


def _spelled() -> set[str]:
    """Every word of the templates and of what prints source in Python."""
    templates = [p for p in (_ROOM.parent / "templates").rglob("*") if p.is_file()]
    texts = [p.read_text(encoding="utf-8") for p in (*templates, *_ROOM.glob("backend/**/*.py"))]
    words = set().union(*(re.findall(r"[A-Za-z]\w*", text) for text in texts))
    return words | {part for word in words for part in word.split("_")}
