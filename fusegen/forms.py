"""How a pipeline may be executed; the user's word for it."""

from __future__ import annotations

from typing import Literal, get_args

from fusegen.errors import ArgumentError
from fusegen.names import nearest

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


Grouping = Literal["rows", "sweeps"]
"""rows: one kernel makes all sweeps of a row; sweeps: one kernel per sweep (unfused, split)."""
