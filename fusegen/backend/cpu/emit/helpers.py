"""The functions and types of namespace fg, one partial each: a program gets those that it uses."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from fusegen.backend.emit.render import render
from fusegen.backend.own_files import template_root

LIBM = (
    "exp2", "expm1", "log", "log2", "log1p", "sqrt", "tanh", "sin", "cos", "erf", "floor", "ceil",
    "rint",
)
"""C math functions without a vector form of ours: lane by lane, all from one partial."""

ORDER = (
    "lanes", "rounding_as_set", "infinity", "nan", "lowest_of", "piece", "width", "like",
    "whole", "mask", "all", "all_if", "as", "convert", "narrow", "inverse", "select",
    "one_where", "column_numbers", "one_by_one", "lane_by_lane", "in_lane", "rarely",
    "greater_of", "lesser_of", "across", "any", "highest", "lowest", "greatest", "least",
    "total", "product", "lanes_where", "descending", "ascending", "precedes", "field",
    "best_of_states", "prefetch", "expect", "all_lanes", "first_lanes", "each", "byte_vector",
    "byte_place", "first_bytes", "fetch", "put", "in_upper_halves", "upper_halves",
    "load", "load_float16", "load_bfloat16",
    "load_float32", "load_float64", "load_int", "load_bool", "to_single", "store",
    "store_float16", "store_bfloat16", "store_float32", "store_float64", "store_int",
    "store_bool", "zero_wins", "square", "rounded_product", "magnitude", "sign", "mirror",
    "is_nan", "is_inf", "is_finite", "exp_within", "exp_below", "exp", *LIBM, "pow",
    "reciprocal_sqrt", "sigmoid", "xlogy", "to_int", "shift_anchor", "scale_anchor", "movable",
    "factor_between", "largest_of", "leader", "best_list", "rank", "ranked", "rank_of", "value_of",
    "following", "sort_two_bytes", "sort_ranked", "network", "slots_for", "ranking", "keep",
    "kth_of", "append", "reaching", "where_any", "candidates", "over_entries", "offer",
)
"""Every helper, after those that it uses itself."""

TYPED = frozenset({"exp_within", "exp", "exp_below", "to_single"})
"""Helpers whose constants depend on the compute type: a partial for each."""

FOR_VECTORS = {
    "lanes_where": (32, 64), "append": (64,), "keep": (64,), "reaching": (64,), "where_any": (64,),
    "exp_within": (64,), "exp": (64,), "exp_below": (64,), "fetch": (64,), "put": (64,),
    "load_bfloat16": (64,), "store_bfloat16": (64,),
}
"""Helpers for which processors have instructions: a partial for each width of theirs, in bytes.
They are called by the names that GCC and Clang share: <immintrin.h> takes longer to read than a
kernel to compile."""

_DECLARED = re.compile(
    r"\{# (?:uses: (?P<uses>[^;#]*))?(?:; )?(?:includes: (?P<includes>[^#]*))? #\}\n"
)
"""The first line of a partial that calls others, or functions of the standard library."""


@dataclass(frozen=True, slots=True)
class Helpers:
    """Texts in order, each after those that it uses, and the standard headers that they need."""

    texts: tuple[str, ...]
    headers: tuple[str, ...]


def helpers_for(names: Collection[str], values: Mapping[str, object]) -> Helpers:
    """What these names of fg stand for, and what those use themselves."""
    todo, found, headers = set(names), set[str](), {"cmath", "cstdint"}
    while todo:
        name = todo.pop()
        found.add(name)
        uses, includes = _declared(_partial(name, values))
        headers |= includes
        todo |= uses - found
    texts = (render(_partial(n, values), {**values, "name": n}) for n in ORDER if n in found)
    return Helpers(tuple(texts), tuple(sorted(headers)))


@cache
def _declared(partial: str) -> tuple[frozenset[str], frozenset[str]]:
    """(names of fg, standard headers) that a partial says it needs."""
    line = _DECLARED.match((template_root() / partial).read_text(encoding="utf-8"))
    parts = line.groupdict() if line else {}
    uses, includes = (frozenset(filter(None, re.split(", | ", parts.get(key) or "")))
                      for key in ("uses", "includes"))
    return uses, includes


def _partial(name: str, values: Mapping[str, object]) -> str:
    """The template of a helper: some have one for each width of vectors, or compute type."""
    partial = "libm" if name in LIBM else name
    if name in TYPED:
        partial = f"{partial}_{values['real']}"
    if (size := values["vector_bytes"]) in FOR_VECTORS.get(name, ()):
        assert isinstance(size, int)
        partial = f"{partial}_{8 * size}"
    return f"cpu/helpers/{partial}.hpp.j2"
