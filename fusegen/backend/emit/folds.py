"""⊕ of base monoids as a term of C++, for both languages."""

from __future__ import annotations

from collections.abc import Callable

from fusegen.ir.monoid import Folded


def folded_into(folded: Folded, left: str, right: str, named: Callable[[str], str]) -> str:
    """`left ⊕ right`; `named` is how the language calls a helper of ours."""
    match folded.fold:
        case "sum":
            return f"{left} + {right}"
        case "prod":
            return f"{left} * {right}"
        case "max":
            return f"{named('greater_of')}({left}, {right})"
        case "min":
            return f"{named('lesser_of')}({left}, {right})"
