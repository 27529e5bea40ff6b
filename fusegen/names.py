"""Names that reach C++ source and file names: always plain identifiers, never a keyword."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import count

from fusegen.ops import OPS

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

# Names that generated functions use beside the user's own: a user's gets an underscore.
_OF_TEMPLATES = """
    above absorb across after ahead all_strips along arrays arrived at await_blocks await_chunk
    await_group bar bar_of before begin begin_with below best bit bit_of_item block block_reduce
    blockDim blockIdx blocks blocks_of_a_row chunk clamped clear cluster_reduce col column
    column_of column_t columns combine count count_items count_of cut down each_list edge end
    end_group entry equal exactly exp_narrow exp_times fabs fabsf fetch_chunk fetch_group fg
    finish first first_edge first_live first_row found free from gather greatest greatest_item
    greatest_of_warp grid_reduce gridDim group guess head held_live here high i identity inner
    isfinite isinf isnan item item_of_bit items items_up_to key_at key_for keys keys_of known
    known_values lane lane_mask lanes lanes_reduce last last_bit last_of_row last_of_ties least
    least_of least_of_warp leave_pieces little_more live live_vectors llabs load_columns
    load_down load_items load_vector low max meet_cluster merge merge_rows merged min mine moved
    n_cols n_cols_wide n_inner n_live n_rows n_vectors next offer orders other outer own
    own_state parity part part_of_state partial_states peak per_group phase piece pieces place
    place_of pragma prelude publish r raise rank reached reaching reaching_items read_items
    read_stash rebase refill rescan rings row row_of rows rsqrt rsqrtf scratch seen share slice
    slices slot some sort sort_by_counting sort_of_lanes span_keys stage stash state states step
    store_down store_items strip strips sum_of_lower sum_of_warp tail take take_of_lanes team
    team_sync teams tell_count threadIdx tickets ties tile tile_state to to_boundary together
    top_word unroll value_of vector vectors_per_group visit warp warps whole word word_of
    word_of_items word_of_warp
"""

# Constants (kTeam), types (State, Items), C's macros (NAN), its integers, a sweep's own (state1).
_FORMS = re.compile(
    r"k?[A-Z]\w{2,}|V|F|u?int\d+_t|(chunk|next)_\w+|(at|folded|left|meeting|partial_states|parts"
    r"|piece|pieces|rebase|state|sweep|total|totals)_?\d\w*"
)

# What generated functions derive from a name, word by word: x_row, x_kept_stride, top_key_of.
_OF_DERIVED = """
    a anchor apart at bar begin best body bytes candidates column count divisor edge entry
    expected found fresh guessed held in is item items kept key keys known lanes last late lists
    lopsided m map mine next of offered orders out outer own partial peak peaks pending place
    ratio reach ring row rows same sampled shift slots sorted start stash stored stride value
    wanted
"""

_FUNCTIONS = [op.c for op in OPS.values() if op.spelling in ("libm", "helper")]
_RESERVED = {*_OF_CPP.split(), *_OF_TEMPLATES.split(), *_FUNCTIONS, *(f"{c}f" for c in _FUNCTIONS)}
_DERIVED = frozenset(_OF_DERIVED.split())


def c_identifier(name: str) -> str:
    """`name` as a name in C++ functions; the same wherever that is possible."""
    plain = identifier(name)
    return f"{plain}_" if reserved(plain) else plain


def identifier(name: str) -> str:
    """`name` in letters, digits and single underscores; it may mean something to C++."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name)
    plain = re.sub(r"__+", "_", plain).strip("_") or "value"
    return f"n{plain}" if plain[0].isdigit() else plain


def reserved(name: str) -> bool:
    """Has C++, or a generated function, a meaning of its own for the name?"""
    return name in _RESERVED or _FORMS.fullmatch(name) is not None


class Taken:
    """Names in use. `free` finds a new one in time that does not grow with their number.

    beside: names that are elsewhere: a new one may be the same, but not be derived from them.
    """

    def __init__(self, names: Iterable[str] = (), beside: Iterable[str] = ()) -> None:
        self._own: set[str] = set()
        self._every: set[str] = set()
        self._stems: set[str] = set()  # of every name: what it may be derived from
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
        return name in self._stems or any(stem in self._every for stem in stems_of(name))


def stems_of(name: str) -> Iterator[str]:
    """Names that generated functions may derive this one from."""
    words = name.split("_")
    for i in range(len(words) - 1, 0, -1):
        if words[i] not in _DERIVED:
            return
        yield "_".join(words[:i])


def nearest(name: object, known: Iterable[str]) -> str:
    """A sentence that offers the known name most like `name`; empty if none is like it."""
    if not isinstance(name, str):
        return ""
    found = get_close_matches(name, [str(k) for k in known], n=1, cutoff=0.6)
    return f"Did you mean {found[0]!r}?" if found else ""
