"""Random pipelines as plain data: terms that can be written as text and built as fusegen values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import fusegen as fg
from fusegen.ir import graph as g
from fusegen.lang.trace import trace
from fusegen.lang.value import builder


@dataclass(frozen=True, slots=True)
class Term:
    """A name, a number, or an operation over terms."""

    op: str  # "name", "number", an infix operator, or a function of fusegen's language
    args: tuple[Any, ...]

    def __add__(self, other: Operand) -> Term: return Term("+", (self, term(other)))
    def __sub__(self, other: Operand) -> Term: return Term("-", (self, term(other)))
    def __rsub__(self, other: Operand) -> Term: return Term("-", (term(other), self))
    def __mul__(self, other: Operand) -> Term: return Term("*", (self, term(other)))
    def __rmul__(self, other: Operand) -> Term: return Term("*", (term(other), self))
    def __truediv__(self, other: Operand) -> Term: return Term("/", (self, term(other)))
    def __rtruediv__(self, other: Operand) -> Term: return Term("/", (term(other), self))
    def __gt__(self, other: Operand) -> Term: return Term(">", (self, term(other)))
    def __pow__(self, power: int) -> Term: return Term("**", (self, term(power)))

    def __str__(self) -> str:
        return written(self)


Operand = Term | int | float


def name(text: str) -> Term:
    return Term("name", (text,))


def term(value: Operand) -> Term:
    return value if isinstance(value, Term) else Term("number", (value,))


def fn(op: str, *args: Operand) -> Term:
    """A call of fusegen's language: fn("exp", x) is fg.exp(x)."""
    return Term(op, tuple(term(a) for a in args))


_LEVEL = {">": 0, "<": 0, ">=": 0, "==": 0, "+": 1, "-": 1, "*": 2, "/": 2, "**": 3}
_INFIX: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b, "**": lambda a, b: a**b, ">": lambda a, b: a > b,
    "<": lambda a, b: a < b, ">=": lambda a, b: a >= b, "==": lambda a, b: a == b,
}


def written(t: Term, outer: int = 0) -> str:
    """The term as the language's text."""
    if t.op in ("name", "number"):
        return str(t.args[0])
    if t.op not in _LEVEL:
        return f"fg.{t.op}({', '.join(written(a) for a in t.args)})"
    level = _LEVEL[t.op]
    left, right = t.args
    body = f"{written(left, level)} {t.op} {written(right, level + 1)}"
    return f"({body})" if level < outer else body


def built(t: Term, env: Mapping[str, Any]) -> Any:
    """The term as a fusegen value (or a number); only inside a pipeline being traced."""
    if t.op == "name":
        return env[t.args[0]]
    if t.op == "number":
        return t.args[0]
    args = [built(a, env) for a in t.args]
    if t.op in _INFIX:
        return _INFIX[t.op](*args)
    return getattr(fg, t.op)(*args)


def names_of(t: Term) -> set[str]:
    if t.op == "name":
        return {t.args[0]}
    return set().union(*(names_of(a) for a in t.args if isinstance(a, Term)))


@dataclass(frozen=True, slots=True)
class Line:
    """`name = term`; a topk keeps one of its two lists."""

    name: str
    value: Term
    part: int | None = None

    def __str__(self) -> str:
        return f"{self.name} = {self.value}{'' if self.part is None else f'[{self.part}]'}"


@dataclass(frozen=True, slots=True)
class Case:
    """One random pipeline; equal seeds give equal cases."""

    seed: int
    inputs: tuple[str, ...]
    lines: tuple[Line, ...]
    outputs: tuple[str, ...]
    family: str

    def __str__(self) -> str:
        body = "; ".join(map(str, self.lines))
        return f"({', '.join(self.inputs)}): {body}; return {', '.join(self.outputs)}"

    def about(self, entry: str) -> Case:
        """Only the lines that this reduction needs; all of them where it has no line of its own."""
        lines = {line.name: line for line in self.lines}
        lists = [line.name for line in self.lines if line.part is not None]
        goal = entry if entry in lines else lists[0] if len(lists) == 1 else None
        if goal is None:
            return self
        needed, todo = {goal}, [goal]
        while todo:
            below = (names_of(lines[todo.pop()].value) & set(lines)) - needed
            needed |= below
            todo += sorted(below)
        kept = tuple(line for line in self.lines if line.name in needed)
        return replace(self, lines=kept, outputs=(goal,))

    def pipeline(self) -> fg.Pipeline:
        """The pipeline itself; inputs called r are per row."""

        def run(*inputs: Any) -> tuple[Any, ...]:
            env = dict(zip(self.inputs, inputs, strict=True))
            for line in self.lines:
                value = built(line.value, env)
                env[line.name] = value if line.part is None else value[line.part]
                builder().labels.setdefault(env[line.name].node, line.name)
            return tuple(env[o] for o in self.outputs)

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        run.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
            inspect.Parameter(n, kind, annotation=fg.PerRow if n == "r" else inspect._empty)
            for n in self.inputs
        ])
        run.__name__ = f"case_{self.seed}"
        return fg.pipeline(run)

    def graph(self) -> g.Graph:
        """The pipeline traced by fusegen."""
        return trace(self.pipeline(), frozenset(self.inputs), {})
