"""Inline assembly: every ``asm`` statement becomes C++ that does what its instructions say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from simt.ptx import UnknownInstruction, translate_instructions
from simt.source import blank_comments, blank_comments_and_strings

_STATEMENT = re.compile(r"\b(?:asm|__asm__|__asm)\b\s*(?:\b(?:volatile|__volatile__)\b\s*)?\(")
_LITERAL = r'"((?:\\.|[^"\\\n])*)"'
_TEMPLATE = re.compile(rf"\s*(?:{_LITERAL}[\s\\]*)+")
_OPERAND = re.compile(rf"[\s\\]*{_LITERAL}[\s\\]*\((.*)\)[\s\\]*", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class AssemblyError(ValueError):
    """An ``asm`` statement that cannot be run; ``line`` is where it begins."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class _Operand:
    constraint: str
    expression: str

    def binding(self, index: int, in_place: bool) -> str:
        """Name the operand, evaluated once; shim/ptx.h checks the type against the constraint."""
        letter = self.constraint[-1]
        if self.constraint[0] in "=+":
            return f"auto& simt_{index} = simt::ptx::output<'{letter}'>({self.expression});"
        if in_place:
            return f"auto&& simt_{index} = simt::ptx::in_place<'{letter}'>({self.expression});"
        return f"const auto simt_{index} = simt::ptx::input<'{letter}'>({self.expression});"


def translate_assembly(source: str) -> str:
    """Return the source without ``asm``; every line keeps its number. Raises AssemblyError."""
    code, text = blank_comments_and_strings(source), blank_comments(source)
    parts, end = [], 0
    for match in _STATEMENT.finditer(code):
        line = code.count("\n", 0, match.start()) + 1
        close = _closing(code, match.end())
        try:
            call = _translate(list(_split(code, text, match.end(), close, ":")))
        except (UnknownInstruction, _Malformed) as error:
            raise AssemblyError(str(error), line) from None
        breaks = re.findall(r"\\?\n", text[match.start() : close])  # a macro's lines continue
        parts += [source[end : match.start()], call, " ".join(breaks)]
        end = close + 1
    return "".join([*parts, source[end:]])


class _Malformed(ValueError):
    pass


def _translate(sections: list[tuple[int, int, str, str]]) -> str:
    """Turn the sections between colons, as ranges with their texts, into one statement."""
    _, _, template, _ = sections[0]
    operands = [
        _operand(item)
        for start, stop, text, code in sections[1:3]
        for _, _, item, _ in _split(code, text, 0, stop - start, ",")
        if item.strip(" \t\n\\")
    ]
    text = _literal_text(template)
    in_place = "wgmma.mma_async" in text  # it reads its registers when the statement is over
    bindings = " ".join(operand.binding(i, in_place) for i, operand in enumerate(operands))
    instructions = translate_instructions(text, len(operands))
    return f"do {{ {bindings} {instructions} }} while (0)"


def _literal_text(text: str) -> str:
    if not _TEMPLATE.fullmatch(text):
        raise _Malformed(f"its text must be string literals, not {text.strip()!r}")
    joined = "".join(re.findall(_LITERAL, text))
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), joined)


def _operand(text: str) -> _Operand:
    match = _OPERAND.fullmatch(text)
    if match is None or not re.fullmatch(r"[=+]?[hrlfdn]", match[1]):
        raise _Malformed(f"cannot read the operand {text.strip()!r}")
    return _Operand(match[1], re.sub(r"\\?\n", " ", match[2]))


def _closing(code: str, start: int) -> int:
    """Return where the parenthesis that was opened before ``start`` is closed."""
    depth = 1
    for index in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[index], 0)
        if depth == 0:
            return index
    return len(code)


def _split(
    code: str, text: str, start: int, end: int, separator: str
) -> Iterator[tuple[int, int, str, str]]:
    """Yield each part outside of brackets: its range, its text, and its text without literals."""
    depth, begin = 0, start
    for index in range(start, end + 1):
        if index == end or (code[index] == separator and depth == 0):
            yield begin, index, text[begin:index], code[begin:index]
            begin = index + 1
        elif code[index] in "([{":
            depth += 1
        elif code[index] in ")]}":
            depth -= 1
