"""The functions of namespace fg: which partial holds each, and which others it calls.

In the order they are emitted. A program gets those that its text names, and what they need.
"""

from __future__ import annotations

import re

NEEDS: dict[str, tuple[str, ...]] = {
    "lanes": (), "infinity": (), "nan": (), "width": (), "like": (), "whole": ("like",),
    "mask": (), "all": (), "all_if": (), "as": (), "convert": (), "narrow": ("mask",),
    "inverse": (), "select": ("mask",), "one_where": (), "columns": ("whole",),
    "lane_by_lane": (),
    "rarely": (), "greater_of": (), "lesser_of": (), "across": (), "any": ("across", "as"),
    "highest": ("all", "mask", "across", "any", "rarely", "infinity", "nan"),
    "lowest": ("all", "mask", "across", "any", "rarely", "infinity", "nan"),
    "greatest": ("across", "greater_of"), "least": ("across", "lesser_of"),
    "total": ("across",), "product": ("across",),
    "lanes_where": ("across",), "precedes": (),
    "descending": ("lanes_where", "inverse"), "ascending": ("lanes_where", "inverse"),
    "load": (), "load_float16": ("like", "as", "convert", "select", "all"),
    "load_bfloat16": ("like", "as", "convert"),
    "load_float32": ("like", "convert"), "load_float64": ("like", "convert"),
    "load_int": ("like", "convert", "whole"), "load_bool": ("like", "convert", "mask"),
    "store": (), "to_single": ("like", "as", "convert", "select", "all"),
    "store_float16": ("like", "as", "convert", "select", "all", "to_single"),
    "store_bfloat16": ("like", "as", "convert", "select", "all", "to_single"),
    "store_float32": ("like", "convert"), "store_float64": ("like", "convert"),
    "store_int": ("like", "convert", "all", "select"), "store_bool": ("like", "convert", "one_where"),
    "zero_wins": (), "square": (), "magnitude": (), "sign": ("select", "all"),
    "is_nan": (), "is_inf": ("magnitude", "infinity"), "is_finite": ("magnitude", "infinity"),
    "exp_within": ("like", "as"), "exp": ("exp_within", "all"),
    "exp_below": ("exp_within", "like", "as", "all"), "log": ("lane_by_lane",),
    "exp2": ("lane_by_lane",), "expm1": ("lane_by_lane",), "log2": ("lane_by_lane",),
    "log1p": ("lane_by_lane",), "sqrt": ("lane_by_lane",), "tanh": ("lane_by_lane",),
    "sin": ("lane_by_lane",), "cos": ("lane_by_lane",), "erf": ("lane_by_lane",),
    "floor": ("lane_by_lane",), "ceil": ("lane_by_lane",), "rint": ("lane_by_lane",),
    "pow": (), "reciprocal_sqrt": ("sqrt", "all"), "sigmoid": ("exp", "all"),
    "xlogy": ("log", "zero_wins", "select", "all"),
    "to_int": ("whole", "convert", "select", "all"),
    "shift_anchor": (), "scale_anchor": (),
    "leader": ("precedes",), "lowest_of": (), "best_list": ("precedes", "descending", "lowest_of"),
    "candidates": ("precedes", "descending"),
    "offer": (),
}  # fmt: skip

LIBM = frozenset(n for n, needs in NEEDS.items() if needs == ("lane_by_lane",))
"""C math functions without a vector form of ours."""

TYPED = frozenset({"exp_within", "exp", "exp_below", "to_single"})
"""Helpers whose constants depend on the compute type: one partial each."""

HEADERS = {
    "candidates": "algorithm", "across": "utility", "all": "type_traits", "convert": "type_traits",
}  # fmt: skip
"""Standard headers, besides those that every program includes."""


def helpers_of(text: str) -> list[str]:
    """Names of the helpers that C++ text calls, with their own, in the order of the table."""
    wanted = set(re.findall(r"\bfg::(\w+)", text))
    for name in reversed(NEEDS):  # who needs comes after what it needs
        if name in wanted:
            wanted |= set(NEEDS[name])
    return [n for n in NEEDS if n in wanted]
