"""Nodes taken apart into linear combinations: exactly, in the order of the text, each part once."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

import fusegen as fg
from fusegen.compile.passes import trace_pipeline
from fusegen.ir import graph as g
from fusegen.rewrite.exponent import Exponent, linear


def _result(text: Callable[..., Any]) -> g.Node:
    (result,) = trace_pipeline(fg.pipeline(text), frozenset("xy"), {}).graph.outputs
    return result


def _plainly(node: g.Node) -> dict[g.Node, Fraction]:
    """By the definition, part by part, of numbers that are whole or halves."""
    match node:
        case g.Map(op="add" | "sub" as name, args=(a, b)):
            total = dict(_plainly(a))
            for part, c in _plainly(b).items():
                total[part] = total.get(part, Fraction(0)) + (c if name == "add" else -c)
            return total
        case g.Map(op="neg", args=(a,)):
            return {part: -c for part, c in _plainly(a).items()}
        case g.Map(op="mul", args=(g.Literal(value=v), a) | (a, g.Literal(value=v))):
            return {part: Fraction(v) * c for part, c in _plainly(a).items()}
        case g.Map(op="div", args=(a, g.Literal(value=v))):
            return {part: c / Fraction(v) for part, c in _plainly(a).items()}
        case _:
            return {node: Fraction(1)}


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_sum_of_its_parts(seed: int) -> None:
    draw = random.Random(seed)

    def text(x: Any, y: Any) -> Any:
        values = [x, y, fg.tanh(x), x * y]
        for _ in range(12):
            a, b = draw.choice(values), draw.choice(values)
            values.append(draw.choice((
                lambda a=a, b=b: a + b, lambda a=a, b=b: a - b, lambda a=a, b=b: -a,
                lambda a=a, b=b: a * 3.0, lambda a=a, b=b: 0.5 * b, lambda a=a, b=b: b / 4.0,
                lambda a=a, b=b: fg.exp(a) + b,
            ))())
        return values[-1] + values[-2] + values[-3]

    node = _result(text)
    found: Exponent = linear(node)
    assert dict(found) == {part: c for part, c in _plainly(node).items() if c}
    order = [part for part in g.topological((node,)) if part in found]
    assert list(found) == order


def test_what_is_shared_is_looked_at_once() -> None:
    def text(x: Any, y: Any) -> Any:
        for _ in range(400):
            x, y = x + y, y + x
        return x - y * 0.5

    found = linear(_result(text))
    assert list(found.values()) == [Fraction(2) ** 398] * 2
