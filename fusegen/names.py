"""Names that reach C++ source and file names: always plain identifiers, never a keyword."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from fusegen.ops import OPS

_CPP_WORDS = frozenset(
    {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
    "case", "catch", "char", "class", "compl", "concept", "const", "consteval", "constexpr",
    "constinit", "const_cast", "continue", "co_await", "co_return", "co_yield", "decltype",
    "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit", "export",
    "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable",
    "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq",
    "private", "protected", "public", "register", "reinterpret_cast", "requires", "return",
    "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch",
    "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename",
    "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor",
    "xor_eq", "main", "std",
}
)

# Names the templates use for themselves: user names that collide get an underscore.
_TEMPLATE_WORDS = frozenset(
    {
    "row", "rows", "column", "columns", "rank", "warp", "lane", "team", "tile", "item", "items",
    "state", "chunk", "next", "other", "mine", "moved", "merge", "rebase", "identity", "n_rows",
    "n_cols", "n_cols_wide", "begin", "end", "args", "start", "slice", "phase", "raw", "vector",
    "above", "below", "clear", "cut", "offer", "seed", "clamped", "float_t", "column_t", "lanes",
    "entry", "fabs", "llabs", "rsqrt", "isnan", "isinf", "isfinite", "threadIdx", "blockIdx",
    "blockDim", "gridDim", "col", "fg", "known", "part", "V", "n_inner", "across", "down", "strip",
    "strips", "place", "outer", "inner", "first", "first_row", "along", "stash", "slot", "r", "own",
    "orders", "found", "lane_mask", "live", "at", "whole", "edge", "column_of", "keys", "bar",
    "count", "count_items", "count_of", "least", "least_of", "low", "high", "peak", "best", "equal",
    "last", "word", "word_of", "warps", "blocks", "blocks_of_a_row", "share", "together", "seen",
    "here", "ties", "key_at", "keys_of", "reached", "value_of", "n_vectors", "i", "e", "g", "v",
}
) | {op.c for op in OPS.values() if op.spelling in ("libm", "helper")}  # fmt: skip


def c_identifier(name: str) -> str:
    """`name` as a safe C++ identifier; the same name wherever that is possible."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name)
    plain = re.sub(r"__+", "_", plain).strip("_") or "value"
    if plain[0].isdigit():
        plain = f"n{plain}"
    return f"{plain}_" if plain in _CPP_WORDS or plain in _TEMPLATE_WORDS else plain


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that offers the known name most like `name`; empty if none is like it."""
    found = get_close_matches(name, [str(k) for k in known], n=1, cutoff=0.5)
    return f"Did you mean {found[0]!r}?" if found else ""
