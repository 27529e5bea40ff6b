"""The text of inline assembly, turned into C++ statements.

Operand ``%3`` is the C++ variable ``simt_3``, which assembly.py binds; a register that the text
declares is a local variable, and a label a local label.
"""

from __future__ import annotations

import re

from simt.instructions import RULES
from simt.operands import REGISTER_TYPES, split_operands
from simt.tensor_instructions import TENSOR_RULES

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BRACE_OR_LABEL = re.compile(r"\s*(?:([{}])|([A-Za-z_]\w*)\s*:(?!:))")


class UnknownInstruction(ValueError):
    """An instruction without a rule, or whose operands do not fit it."""


def translate_instructions(text: str, operand_count: int) -> str:
    """Return C++ statements for an assembly text with ``operand_count`` operands."""
    statements: list[str] = []
    labels: list[str] = []
    for piece in re.findall(r"[^;]+;?", _COMMENT.sub(" ", text)):
        begin = 0
        while mark := _BRACE_OR_LABEL.match(piece, begin):
            begin = mark.end()
            labels += [f"simt_label_{mark[2]}"] if mark[2] else []
            statements.append(mark[1] or f"{labels[-1]}: ;")
        instruction = " ".join(piece[begin:].split())
        if instruction and not instruction.endswith(";"):
            raise UnknownInstruction(f"no semicolon after {instruction!r}")
        if instruction.rstrip("; "):
            _check_operands(instruction, operand_count)
            statements.append(_statement(instruction.rstrip("; ")))
    declarations = f"__label__ {', '.join(labels)};" if labels else ""
    return " ".join(["{", declarations, *statements, "}"])


def _check_operands(instruction: str, count: int) -> None:
    for index in re.findall(r"(?<!%)%(\d+)", instruction):
        if int(index) >= count:
            raise UnknownInstruction(f"no operand %{index} in {instruction!r}: there are {count}")


def _statement(instruction: str) -> str:
    registers = re.fullmatch(r"\.reg \.(\w+) ([\w ,]+)", instruction)
    if registers and registers[1] in REGISTER_TYPES:
        names = ", ".join(f"simt_reg_{name.strip()}" for name in registers[2].split(","))
        return f"{REGISTER_TYPES[registers[1]]} {names};"
    guard = re.match(r"@(!?)([A-Za-z_]\w*) (.*)", instruction)
    if guard:
        return f"if ({guard[1]}simt_reg_{guard[2]}) {{ {_statement(guard[3])} }}"
    return _call(instruction) + ";"


def _call(instruction: str) -> str:
    name, _, rest = instruction.partition(" ")
    operands = split_operands(rest)
    for pattern, rule in (*RULES, *TENSOR_RULES):
        match = re.fullmatch(pattern, name)
        if match is None:
            continue
        try:
            return rule(match, operands)
        except ValueError as error:
            raise UnknownInstruction(f"cannot read {instruction!r}: {error}") from None
    raise UnknownInstruction(f"{instruction!r} is not an instruction this executor knows")
