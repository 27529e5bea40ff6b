"""Names that reach C++ source and file names: always plain identifiers, never a keyword."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count

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

# Names that generated functions use beside the user's own: a user's gets an underscore.
_OF_TEMPLATES = """
    above absorb across after again ahead all_strips along arrays arrived at await_blocks
    await_chunk await_group bar bar_of before begin below best best_of_peaks best_of_vectors bit
    block block_reduce blockDim blockIdx blocks blocks_of_a_row chunk clamped clear
    cluster_reduce col column column_of column_t columns combine count count_best cut down
    each_list edge end end_group entry equal exp_narrow exp_times exp_times_narrow fabs fabsf
    fetch_chunk fetch_group fg finish first first_column first_live first_row first_tile found
    free from gather greatest greatest_item grid_reduce gridDim group guess guess_threshold head
    held_live here high i identity inner isfinite isinf isnan item item_of_bit items key_at keys
    keys_of known known_values lane lane_mask lanes lanes_reduce last last_of_row least leave_pieces
    live live_vectors llabs load_columns load_down load_items load_vector low max meet_cluster
    merge merge_rows merged min mine moved n_cols n_cols_wide n_inner n_live n_rows n_vectors
    next offer offer_element orders other outer own own_entries own_entry own_state parity part
    part_of_state partial_states peak pending_items pending_pairs per_group phase piece pieces
    place place_of pragma prelude publish r raise rank reaching reaching_items read_items
    read_stash rebase refill rings row row_of rows rsqrt rsqrtf scratch seen share slice slices
    slot some sort stage stash state states step store_down store_items strip strips tail take
    take_tile team teams tell_count threadIdx tickets ties tile tile_state to to_boundary
    together unroll value_of vector vectors_per_group visit warp warps whole word
"""

# Constants (kTeam), types (State, Items), C's macros (NAN), its integers, a sweep's own (state1).
_FORMS = re.compile(
    r"k?[A-Z]\w{2,}|V|F|u?int\d+_t|(chunk|next)_\w+|(at|folded|left|warp_states|partial_states|parts"
    r"|piece|pieces|rebase|state|sweep|total|totals)_?\d\w*"
)

# What generated functions derive from a name, word by word: x_row, x_kept_stride, top_key_of.
_OF_DERIVED = """
    a anchor apart at bar begin best body bytes candidates column count divisor edge entry
    expected first found fresh guessed held in is item items kept key keys known lanes last late
    lists lopsided m map mine next of offered orders out outer own partial peak peaks pending
    place ratio reach ring row rows same sampled shift slots sorted start stash stored stride
    value vector wanted
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
