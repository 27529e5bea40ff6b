"""Names that reach C++ source and file names: always plain identifiers, never a keyword."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import count

from fusegen.ir import own_names
from fusegen.ir.ops import OPS

_OF_CPP = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class co_await
    co_return co_yield compl concept const const_cast consteval constexpr constinit continue
    decltype default delete do double dynamic_cast else enum errno explicit export extern false
    float for friend goto if inline int long main math_errhandling mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires return short signed sizeof static static_assert static_cast std
    struct switch template this thread_local throw true try typedef typeid typename union
    unsigned using virtual void volatile wchar_t while xor xor_eq
"""

# Constants (kTeam), types (State, Items), C's macros (NAN), its integers, a sweep's own (state1).
_FORMS = re.compile(
    r"k?[A-Z]\w{2,}|V|F|u?int\d+_t|(chunk|next)_\w+|(at|exponent_scale|folded|left|warp_states"
    r"|partial_states|parts|piece|pieces|rebase|references|state|states_of_rows|sweep|total|totals)"
    r"_?\d\w*"
)

_FUNCTIONS = [op.c for op in OPS.values() if op.spelling in ("libm", "helper")]
_KNOWN = frozenset(["fusegen", *_OF_CPP.split(), *_FUNCTIONS, *(f"{c}f" for c in _FUNCTIONS)])


def c_identifier(name: str) -> str:
    """`name` as a name in C++ functions; the same wherever that is possible."""
    plain = identifier(name)
    return f"{plain}_" if reserved(plain) else plain


def array_identifier(name: str) -> str:
    """`name` as that of an array, of which functions derive names that are not their own."""
    plain = c_identifier(name)
    return f"{plain}_" if plain in own_names.ARRAYS else plain


def identifier(name: str) -> str:
    """`name` in letters, digits and single underscores; it may mean something to C++."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name)
    plain = re.sub(r"__+", "_", plain).strip("_") or "value"
    return f"n{plain}" if plain[0].isdigit() else plain


def reserved(name: str) -> bool:
    """Has C++, or a generated function, a meaning of its own for the name?"""
    return name in own_names.BESIDE or follows_a_rule(name)


def follows_a_rule(name: str) -> bool:
    """Is the name C++'s, an operation's, or of a form that only generated functions use?"""
    return name in _KNOWN or _FORMS.fullmatch(name) is not None


class Taken:
    """Names in use. `free` finds a new one in time that does not grow with their number.

    beside: names that are elsewhere: a new one may be the same, but not be derived from them.
    joined: do generated functions join names of two values, as of a dot and its vectors?
    """

    def __init__(
        self, names: Iterable[str] = (), beside: Iterable[str] = (), *, joined: bool = False
    ) -> None:
        self._own: set[str] = set()
        self._every: set[str] = set()
        self._stems: set[str] = set()  # of every name: what it may be derived from
        self._within: dict[str, list[str]] = {}  # every name that is joined of it, and of what else
        self._joined = joined
        self._numbers: dict[str, int] = {}  # the last that a wish was given
        for name in names:
            self.add(name)
        for name in beside:
            self._note(name)

    def __contains__(self, name: str) -> bool:
        return name in self._own

    def add(self, name: str) -> str:
        self._own.add(name)
        self._note(name)
        return name

    def _note(self, name: str) -> None:
        self._every.add(name)
        self._stems.update(stems_of(name))
        if self._joined:
            for part in _parts_of(name):
                self._within.setdefault(part, []).append(name)

    def free(self, wish: str) -> str:
        """The name itself, or with the first number that makes it new, from now on taken: neither
        it nor one of the others is what generated functions derive from the other."""
        for i in count(self._numbers.get(wish, 1)):
            name = wish if i == 1 else f"{wish}_{i}"
            if name not in self._own and not self._is_related(name):
                self._numbers[wish] = i + 1
                return self.add(name)
        raise AssertionError("numbers do not end")

    def _is_related(self, name: str) -> bool:
        if name in self._stems or any(stem in self._every for stem in stems_of(name)):
            return True
        known = {*self._every, name} if name in self._within else self._every
        return self._joined and any(
            _is_join(one, known) for one in (name, *self._within.get(name, ())))


def stems_of(name: str) -> Iterator[str]:
    """Names that generated functions may derive this one from."""
    words = name.split("_")
    for i in range(len(words) - 1, 0, -1):
        if words[i] not in own_names.ENDINGS:
            return
        yield "_".join(words[:i])


def _parts_of(name: str) -> Iterator[str]:
    """Names that it may be joined of; a number is none."""
    words = name.split("_")
    for size in range(1, len(words)):
        for i in range(len(words) - size + 1):
            if not words[i].isdigit():
                yield "_".join(words[i : i + size])


def _is_join(name: str, known: Collection[str]) -> bool:
    """Is it two names or more, one behind the other, and what is derived from these?"""
    ends: dict[int, int] = {0: 0}  # by words: the most names that they are
    words = name.split("_")
    for end in range(1, len(words) + 1):
        found = [ends[i] + 1 for i in ends if i < end and "_".join(words[i:end]) in known
                 and (i, end) != (0, len(words))]
        if found:
            ends[end] = max(found)
    return any(names > 1 and all(w in own_names.ENDINGS for w in words[end:])
               for end, names in ends.items())
