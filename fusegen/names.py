"""Names that reach C++ source and file names: always plain identifiers, never a keyword."""

from __future__ import annotations

import re

_CPP_WORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept
    const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline
    int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct
    switch template this thread_local throw true try typedef typeid typename union unsigned using virtual
    void volatile wchar_t while xor xor_eq main std""".split()
)

# Names the templates use for themselves: user names that collide get an underscore.
_TEMPLATE_WORDS = frozenset(
    """row col cols rows lane warp team tile item items live state chunk lanes merge rebase absorb
    identity project n_rows n_cols begin end args first last sweep acc next part out self entry entries
    count bar slot threadIdx blockIdx blockDim gridDim
    exp exp2 expm1 log log2 log1p sqrt tanh sin cos erf floor ceil rint pow abs max min""".split()
)  # fmt: skip


def c_identifier(name: str) -> str:
    """`name` as a safe C++ identifier; the same name wherever that is possible."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name)
    plain = re.sub(r"__+", "_", plain).strip("_") or "value"
    if plain[0].isdigit():
        plain = f"n{plain}"
    return f"{plain}_" if plain in _CPP_WORDS or plain in _TEMPLATE_WORDS else plain
