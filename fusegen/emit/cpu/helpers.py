"""The functions and types of namespace fg, one partial each: a program gets those that it uses."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fusegen.emit.comments import code
from fusegen.emit.render import render

LIBM = (
    "exp2", "expm1", "log", "log2", "log1p", "sqrt", "tanh", "sin", "cos", "erf", "floor", "ceil",
    "rint",
)  # fmt: skip
"""C math functions without a vector form of ours: lane by lane, all from one partial."""

ORDER = (
    "lanes", "infinity", "nan", "lowest_of", "piece", "width", "like", "whole", "mask", "all",
    "all_if", "as", "convert", "narrow", "inverse", "select", "one_where", "column_numbers",
    "lane_by_lane", "in_lane", "rarely", "greater_of", "lesser_of", "across", "any", "highest",
    "lowest", "greatest", "least", "total", "product", "lanes_where", "descending", "ascending",
    "precedes", "prefetch", "expect",
    "load", "load_float16", "load_bfloat16", "load_float32", "load_float64", "load_int",
    "load_bool", "to_single", "store", "store_float16", "store_bfloat16", "store_float32",
    "store_float64", "store_int", "store_bool", "zero_wins", "square", "rounded_product",
    "magnitude", "sign", "mirror", "is_nan", "is_inf", "is_finite", "exp_within", "exp",
    "exp_below", *LIBM, "pow", "reciprocal_sqrt", "sigmoid", "xlogy", "to_int",
    "shift_anchor", "scale_anchor", "leader",
    "best_list", "rank", "ranked", "rank_of", "value_of", "following", "sort_two_bytes",
    "sort_ranked", "network", "slots_for", "ranking", "keep", "kth_of", "append", "reaching",
    "where_any", "candidates", "over_entries", "offer",
)  # fmt: skip
"""Every helper, after those that it uses itself."""

TYPED = frozenset({"exp_within", "exp", "exp_below", "to_single"})
"""Helpers whose constants depend on the compute type: a partial for each."""

FOR_VECTORS = {
    "lanes_where": (32, 64), "append": (64,), "keep": (64,), "reaching": (64,), "where_any": (64,),
}  # fmt: skip
"""Helpers for which processors have instructions: a partial for each width of theirs, in bytes."""

HEADERS = {
    "_mm256_": "immintrin.h", "_mm512_": "immintrin.h", "std::conditional_t": "type_traits",
    "std::swap": "utility", "std::decay_t": "type_traits",
    "std::is_arithmetic_v": "type_traits", "std::index_sequence": "utility",
    "std::memcpy": "cstring", "std::numeric_limits": "limits",
}  # fmt: skip
"""What a program must include for a name of the standard library, besides cmath and cstdint."""


def helpers_for(text: str, values: Mapping[str, object]) -> list[str]:
    """The helpers that C++ text calls as `fg::name`, and those that they call, in order."""
    todo = set(re.findall(r"\bfg::(\w+)", code(text)))
    found: dict[str, str] = {}
    while todo:
        name = todo.pop()
        found[name] = _helper(name, values)
        todo |= _names_in(found[name]) - found.keys()
    return [found[name] for name in ORDER if name in found]


def headers_for(text: str) -> list[str]:
    wanted = {header for name, header in HEADERS.items() if name in code(text)}
    return sorted({"cmath", "cstdint"} | wanted)


def _helper(name: str, values: Mapping[str, object]) -> str:
    partial = "libm" if name in LIBM else name
    if (size := values["vector_bytes"]) in FOR_VECTORS.get(name, ()):
        partial = f"{name}_{8 * size}"
    if name in TYPED:
        partial = f"{name}_{values['real']}"
    return render(f"cpu/helpers/{partial}.hpp.j2", {**values, "name": name})


def _names_in(text: str) -> set[str]:
    """Helpers that a helper's code uses: inside namespace fg they stand unqualified."""
    return set(re.findall(r"(?<![:.\w])(\w+)", code(text))) & set(ORDER)
