"""The Jinja environment: the only importer of jinja2.

Templates print what Python decided: loops over prepared items and includes, nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import jinja2

from fusegen.backend.emit.comments import comment
from fusegen.backend.own_files import template_root
from fusegen.ir.errors import InternalError


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_root()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # C++ text; every name in it was checked to be an identifier
    )
    made.filters["comment"] = comment
    made.filters["wrapped"] = wrapped
    return made


def wrapped(items: Iterable[str], width: int = 96) -> list[str]:
    """Items joined by commas, in as few lines of at most so many characters as hold them."""
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) + 2 <= width:
            lines[-1] += f", {item}"
        else:
            lines.append(item)
    return lines


def render(template: str, values: Mapping[str, Any]) -> str:
    """The template's text; blank lines collapsed to one, no trailing blanks, and directives of the
    preprocessor at the margin."""
    try:
        text = _environment().get_template(template).render(values)
    except jinja2.TemplateError as error:
        raise InternalError(f"template {template}: {error}") from error
    text = re.sub(r"[ \t]+\n", "\n", text)
    text = re.sub(r"^ +#(?=\w)", "#", text, flags=re.MULTILINE)
    text = re.sub(r"\n{3,}", "\n\n", text)
    text = text.strip("\n") + "\n"
    _verify(template, text)
    return text


def _verify(template: str, text: str) -> None:
    """Every line is one line to every compiler. No template continues a macro."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.endswith("\\") or "??/" in line or not line.isprintable():
            raise InternalError(f"template {template}, line {number} of the output: {line!r}")
