"""Which names generated functions use beside users' own, and fusegen/ir/own_names.py, made of them.

The sources looked at have users' names of one form, zq1, that no template has; arrays' have four
digits. Every word of the
templates is one of these, or was seen in functions without users' names alone: APART lists those.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from simt.source import blank_comments_and_strings

import fusegen
from fusegen.ir import own_names
from fusegen.ir.names import follows_a_rule

PIPELINE, _USERS = "zqp", re.compile(r"zq\d+")
_DERIVED = re.compile(r"zq(\d+)_((?:(?!zq)\w)+)")
_BARE_NAME = re.compile(r"(?<![\w.])(?<!->)(?<!::)[A-Za-z_]\w*")  # no member, nothing qualified
_ROOM = Path(fusegen.__file__).parent
_TEMPLATES = _ROOM.parent / "templates"
_APART = Path(__file__).parents[1] / "golden" / "names_apart.txt"
_TEXT = '''\
"""Names of generated functions. Written by `pytest tests/test_names.py --update-names`."""

from __future__ import annotations

_BESIDE = """
{beside}
"""

_ENDINGS = """
{endings}
"""

_ARRAYS = """
{arrays}
"""

BESIDE = frozenset(_BESIDE.split())
"""What they call their own beside users' values: a user's name that is one gets an underscore."""

ENDINGS = frozenset(_ENDINGS.split())
"""What they derive from a name, word by word: x_row, x_kept_stride, top_key_of."""

ARRAYS = frozenset(_ARRAYS.split())
"""What they would derive names of their own from, were it an array: n_rows, load_items."""
'''


@dataclass
class Found:
    """Names that no rule of names.py tells from users'. every: what else the functions say."""

    beside: set[str] = field(default_factory=set)
    endings: set[str] = field(default_factory=set)
    arrays: set[str] = field(default_factory=set)
    every: set[str] = field(default_factory=set)

    def unknown(self) -> set[str]:
        return (self.beside - own_names.BESIDE) | (self.endings - own_names.ENDINGS) | (
            self.arrays - own_names.ARRAYS - own_names.BESIDE)

    def add(self, other: Found) -> None:
        self.beside |= other.beside
        self.endings |= other.endings
        self.arrays |= other.arrays
        self.every |= other.every

    def write(self) -> None:
        """With what is known already as long as it is spelled somewhere: tests may not reach it.
        Raises AssertionError for words of templates that no source says."""
        kept = _spelled()
        words = {"beside": self.beside | (own_names.BESIDE & kept),
                 "endings": self.endings | (own_names.ENDINGS & kept)}
        words["arrays"] = (self.arrays | own_names.ARRAYS) - words["beside"]
        lines = {name: _lines(found) for name, found in words.items()}
        apart = {w: at for w, at in template_words().items()
                 if w not in words["beside"] and not follows_a_rule(w)}
        Path(own_names.__file__).write_text(_TEXT.format(**lines), encoding="utf-8")
        _APART.write_text(_lines({*apart} & self.every) + "\n", encoding="utf-8")
        unseen = {w: at for w, at in apart.items() if w not in self.every}
        assert not unseen, f"no source that these tests look at says {unseen}"


def look(source: str, free: Collection[str] = ()) -> Found:
    """`free`: names that were given beside the users', and differ from all of them."""
    found = Found()
    for function in _functions(source):
        names, users = _names_in(function)
        found.every |= names
        own = {n for n in names if not n.startswith(("__", "sum_")) and PIPELINE not in n
               and "_total" not in n and not any(part in n for part in free)}
        derived = {(by[2], len(by[1]) > 3) for n in own if (by := _DERIVED.fullmatch(n))}
        own -= {n for n in own if follows_a_rule(n) or len(_USERS.findall(n)) > 1
                or n.startswith("zq")}
        found.endings.update(word for ending, _ in derived for word in ending.split("_"))
        for ending, of_array in derived:
            into = found.arrays if of_array else found.beside
            into |= {stem for n in own if n.endswith(f"_{ending}")
                     and not follows_a_rule(stem := n.removesuffix(f"_{ending}"))}
        if users:
            found.beside |= own
    return found


def beside_users(source: str) -> set[str]:
    """All names of the functions in which a user's name is."""
    found = map(_names_in, _functions(source))
    return {n for names, users in found if users for n in names}


@lru_cache(20_000)
def _names_in(function: str) -> tuple[frozenset[str], bool]:
    """Its names, and whether a user's is one of them."""
    names = frozenset(_BARE_NAME.findall(function))
    return names, any(_USERS.fullmatch(n) for n in names)


def _functions(source: str) -> Iterator[str]:
    """What stands at the top level of a source, each with its braces."""
    text = re.sub(r"^ *#.*|extern *(\{)?|namespace[^{;]*\{", "", blank_comments_and_strings(source),
                  flags=re.MULTILINE)
    depth = start = 0
    for mark in re.finditer(r"[{};]", text):
        depth = max(0, depth + {"{": 1, "}": -1, ";": 0}[mark[0]])
        if depth == 0:
            yield text[start : mark.end()].strip()
            start = mark.end()


# ---- templates ----

_WITHOUT_USERS = ("cuda/host.cu.j2", "cuda/roles/seals.cu.j2")
_NOTE = re.compile(r"\{#.*?#\}|//[^\n]*", re.DOTALL)
_TEMPLATE = re.compile(r"\{%.*?%\}|\{\{(?:.*?\}\}|[^}\n]*$)", re.DOTALL | re.MULTILINE)
_ASKED = re.compile(r"""[=(] ?"\w+"|"\w+" in\b|"\w" if|else "\w"$""")  # no code
_LITERAL = re.compile(r"""(?<!\w)"([^"\n]*)"|(?<!\w)'([^'\n]*)'""")
_GAP = "\N{REPLACEMENT CHARACTER}"  # what a template is given


def template_words() -> Mapping[str, str]:
    """Every name that a template of kernels spells in code, and one that does. What is joined with
    something given is of a form, or derived from a name."""
    found: dict[str, str] = {}
    for path in sorted(p for what in ("cpu", "cuda") for p in (_TEMPLATES / what).rglob("*.j2")):
        name = path.relative_to(_TEMPLATES).as_posix()
        if name not in _WITHOUT_USERS:
            for word in _words(path.read_text(encoding="utf-8")):
                found.setdefault(word, name)
    return found


def _words(text: str) -> Iterator[str]:
    """The names in code, also where it is an expression's literal."""
    given: list[str] = []

    def gap(part: re.Match[str]) -> str:
        before = part.string[part.start() - 1 : part.start()]
        if (part[0].startswith("{{") or "set " in part[0]) and not re.match(r"[\w+]", before):
            shown = _ASKED.sub("", part[0])
            given.extend("".join(found) for found in _LITERAL.findall(shown))
        return _GAP if part[0].startswith("{{") else " "

    code = _TEMPLATE.sub(gap, _NOTE.sub("", text))
    code = re.sub(r'"(\\.|[^"\n])*"|^ *#.*', " ", code, flags=re.MULTILINE)
    for one in (code, *(re.sub(r"%[ds]", _GAP, part) for part in given)):
        for match in _BARE_NAME.finditer(one):
            around = one[match.start() - 1 : match.start()] + one[match.end() : match.end() + 1]
            if _GAP not in around and not match[0].startswith("_"):
                yield match[0]


def unknown_words() -> Mapping[str, str]:
    """Words of templates that are neither reserved nor known to stand apart from users' names."""
    apart = {*_APART.read_text(encoding="utf-8").split()}
    return {w: at for w, at in template_words().items()
            if not (w in apart or w in own_names.BESIDE or follows_a_rule(w))}


def _spelled() -> set[str]:
    """Every word of the templates and of what prints source in Python."""
    templates = [p for p in _TEMPLATES.rglob("*") if p.is_file()]
    texts = [p.read_text(encoding="utf-8") for p in (*templates, *_ROOM.glob("backend/**/*.py"))]
    words = set().union(*(re.findall(r"[A-Za-z]\w*", text) for text in texts))
    return words | {part for word in words for part in word.split("_")}


def _lines(words: Collection[str]) -> str:
    return textwrap.fill(" ".join(sorted(words)), 96, initial_indent="    ",
                         subsequent_indent="    ", break_on_hyphens=False)
