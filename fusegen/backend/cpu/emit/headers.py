"""Which fixed headers a program uses: <fusegen/cpu/…>, see backend/emit/headers.py."""

from __future__ import annotations

from collections.abc import Collection, Iterator

LIBM = (
    "exp2", "expm1", "log2", "log1p", "sqrt", "tanh", "sin", "cos", "erf", "floor", "ceil",
    "rint",
)
"""C math functions without a vector form of ours: lane by lane."""

GIVEN = ("real", "lanes", "piece", "list_block")
"""What a program says itself, before the first header."""

HEADERS: dict[str, tuple[str, ...]] = {
    "vectors": (
        "width", "like", "whole", "mask", "all", "all_if", "as", "convert", "narrow", "inverse",
        "select", "one_where", "column_numbers", "one_by_one", "lane_by_lane", "in_lane", "rarely",
    ),
    "limits": ("infinity", "nan", "lowest_of"),
    "reduce": (
        "greater_of", "lesser_of", "across", "any", "highest", "lowest", "greatest", "least",
        "total", "product", "both",
    ),
    "order": ("lanes_where", "descending", "ascending", "precedes"),
    "walk": (
        "all_lanes", "first_lanes", "sums", "each", "each_by_turns", "each_whole", "until",
        "over_entries",
    ),
    "memory": (
        "prefetch", "expect", "fetch", "put", "load", "store", "apart", "largest_of",
    ),
    "results": (
        "expect_end", "expect_part", "whole_lines", "past_lines", "each_result", "published",
    ),
    "types": (
        "load_float16", "load_bfloat16", "load_float32", "load_float64", "load_int", "load_bool",
        "to_single", "store_float16", "store_bfloat16", "store_float32", "store_float64",
        "store_int", "store_bool",
    ),
    "exp": ("exp_within", "exp_below", "exp"),
    "maths": (
        "zero_wins", "zeros_win", "divisor", "quotient", "square", "rounded_product", "magnitude",
        "sign", "mirror", "is_nan", "is_inf", "is_finite", "log", *LIBM, "pow", "reciprocal_sqrt",
        "sigmoid", "xlogy", "to_int",
    ),
    "pairs": (
        "in_blocks", "product_term", "sum_tile", "copy_vectors", "turn_vectors", "block_vectors_of",
        "block_columns", "clear_beside", "parts_of",
    ),
    "pivots": ("shift_anchor", "scale_anchor", "movable", "factor_between"),
    "states": ("field", "set_field", "best_of_states"),
    "ranks": (),
    "best": ("leader", "best_list", "offer_peak"),
    "compress": (),
    "search": ("search", "find"),
    "abreast": ("turn_rows", "leaders", "best_lists"),
    "sorting": (),
    "ranking": ("ranking",),
    "kth": (),
    "candidates": ("candidates",),
    "bounds": (
        "has_bounds", "pairs_of", "round_rows", "round_columns", "bound_tile", "bound_columns",
        "dot_bar", "distance_bar", "squared", "last_of",
    ),
}
"""By header, the names of namespace fusegen that kernels say; a program gets what it says. Headers
without any are of others."""

_OF = {name: header for header, names in HEADERS.items() for name in names}


def headers_for(names: Collection[str]) -> Iterator[str]:
    """The headers that have these names, in the order of HEADERS; KeyError for a name of none."""
    used = {_OF[name] for name in names if name not in GIVEN}
    return (f"fusegen/cpu/{header}.hpp" for header in HEADERS if header in used)
