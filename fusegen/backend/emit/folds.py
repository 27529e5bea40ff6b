"""⊕ of base monoids as a term of C++, for both languages."""

from __future__ import annotations

from collections.abc import Callable

from fusegen.ir.kernel import ListFold
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


def taken_in(
    folded: Folded | ListFold, place: str, value: str, named: Callable[[str], str]
) -> str:
    """The statement by which `value` joins what is held at a place."""
    match folded.fold:
        case "sum":
            return f"{place} += {value};"
        case "prod":
            return f"{place} *= {value};"
        case "max":
            return f"{place} = {named('greater_of')}({place}, {value});"
        case "min":
            return f"{place} = {named('lesser_of')}({place}, {value});"
