"""Partials of namespace fg say in their first line what they use, and say all of it."""

from __future__ import annotations

import re

from fusegen.backend.cpu.emit.helpers import ORDER, _declared
from fusegen.backend.emit.comments import code
from fusegen.backend.own_files import template_root

FOLDER = template_root() / "cpu" / "helpers"
STANDARD = {
    "std::conditional_t": "type_traits",
    "std::swap": "utility", "std::decay_t": "type_traits",
    "std::is_arithmetic_v": "type_traits", "std::index_sequence": "utility",
    "std::memcpy": "cstring", "std::numeric_limits": "limits",
}


def test_partials_declare_what_they_use():
    wrong = []
    for path in sorted(FOLDER.glob("*.hpp.j2")):
        own = re.sub(r"(_(float|double))?(_(256|512))?$", "", path.name.removesuffix(".hpp.j2"))
        text = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", " ", path.read_text("utf-8"), flags=re.S)
        text = code(text)
        names = set(re.findall(r"(?<![:.\w])(\w+)", text)) | set(re.findall(r"fg::(\w+)", text))
        members = set(re.findall(r"(?:void|bool) (\w+)\(", text))  # named alike
        uses, includes = _declared(f"cpu/helpers/{path.name}")
        if uses != (found := (names & set(ORDER)) - {own} - members):
            wrong.append(f"{path.name}: uses {sorted(found)}")
        if includes != {h for n, h in STANDARD.items() if n in text}:
            wrong.append(f"{path.name}: includes")
    assert wrong == []


def test_every_partial_stands_after_those_that_it_uses():
    for path in FOLDER.glob("*.hpp.j2"):
        own = re.sub(r"(_(float|double))?(_(256|512))?$", "", path.name.removesuffix(".hpp.j2"))
        if own in ORDER:
            uses, _ = _declared(f"cpu/helpers/{path.name}")
            assert all(ORDER.index(u) < ORDER.index(own) for u in uses), path.name
