"""How a pipeline may be executed; the user's word for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from fusegen.ir.errors import ArgumentError
from fusegen.ir.nearest import nearest

Form = Literal["auto", "online", "safe", "unfused"]
"""unfused: every reduction its own kernel, named element values written out.  safe: one kernel, the
row re-read per dependent level.  online: merged operators, fewest sweeps.  auto: what is fewest."""

FORMS: tuple[Form, ...] = get_args(Form)


def check_form(form: object) -> Form:
    """`form` if there is such a form. Raises ArgumentError with the nearest right name."""
    for known in FORMS:
        if isinstance(form, str) and form == known:
            return known
    raise ArgumentError(
        f"unknown form {form!r}", why=f"Forms are {', '.join(FORMS)}.", fix=nearest(form, FORMS)
    )


Precision = Literal["float32", "bf16x3", "tf32"]
"""How dots of float32 vectors may be multiplied on tensor cores. float32: as float32 arithmetic is
off, or less.  bf16x3: three products of two bfloat16 parts, off by 2^-16 of Σ |x||y|.  tf32: one of
numbers rounded to tfloat32, off by 2^-10; weighted sums of vectors as of bf16x3."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def check_precision(precision: object) -> Precision:
    """`precision` if there is such a one. Raises ArgumentError with the nearest right name."""
    for known in PRECISIONS:
        if isinstance(precision, str) and precision == known:
            return known
    raise ArgumentError(f"unknown precision {precision!r:.60}",
                        why=f"Precisions are {', '.join(PRECISIONS)}.",
                        fix=nearest(precision, PRECISIONS))


Role = Literal["call", "fold", "merge", "finish", "map"]
"""What a program makes of what.  call: rows → results.  fold: rows → states.  merge: states →
states.  finish: states → results.  map: states and rows → results, full rows among them."""

ROLES: tuple[Role, ...] = get_args(Role)


_ROLE_WORDS: Mapping[Role, str] = {
    "call": "", "fold": ", fold: rows → states", "merge": ", merge: states → states",
    "finish": ", finish: states → results", "map": ", map: states and rows → results",
}


def role_words(role: Role) -> str:
    """What stands behind a pipeline's name; nothing for a call."""
    return _ROLE_WORDS[role]


def check_role(role: object) -> Role:
    """`role` if there is such a role. Raises ArgumentError with the nearest right name."""
    for known in ROLES:
        if isinstance(role, str) and role == known:
            return known
    raise ArgumentError(
        f"unknown role {role!r}", why=f"Roles are {', '.join(ROLES)}.", fix=nearest(role, ROLES)
    )


Grouping = Literal["rows", "sweeps"]
"""rows: one kernel makes all sweeps of a row; sweeps: one kernel per sweep (unfused, split)."""
