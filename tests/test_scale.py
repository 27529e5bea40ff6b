"""Texts of thousands of operations: time grows with their number, not with depth or sharing."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.pace import within

import fusegen as fg
from fusegen.backend.cpu.emit import scope
from fusegen.backend.cpu.emit.scope import sweep_exprs
from fusegen.ir.errors import TraceError
from fusegen.ir.kernel import Sweep
from fusegen.lang.value import Value
from fusegen.library.gradient.given_lists import Picked
from fusegen.library.gradient.grad import Gradient, gradient_of
from fusegen.pipeline.pipeline import Pipeline
from fusegen.rewrite.adjoint.transplant import Text

X = np.random.default_rng(0).normal(size=(4, 40))


def grown(count: int, seed: int = 0) -> Pipeline:
    """A random text of so many operations; values are used again, and lie up to `count` deep."""

    def text(x: Any) -> Any:
        draw = random.Random(seed)
        values = [x]
        for _ in range(count):
            a, b = draw.choice(values[-20:]), draw.choice(values)
            values.append(draw.choice((
                lambda a=a, b=b: (a + b) * 0.5, lambda a=a, b=b: fg.tanh(a) * b,
                lambda a=a, b=b: fg.maximum(a, b), lambda a=a, b=b: fg.where(a > b, a, 0.5 * b),
            ))())
        total = values[-1]
        for value in values[-20:]:
            total = total + value
        return fg.sum(total), total

    return fg.pipeline(text)


def seconds(work: Callable[[], object]) -> float:
    """Processor time: what else a machine does is no part of it."""
    start = time.process_time()
    work()
    return time.process_time() - start


STEPS: dict[str, Callable[[Pipeline], object]] = {
    "cpu": lambda p: p.source("cpu"),
    "cuda": lambda p: p.source("sm_90"),
    "unfused": lambda p: p.source("cpu", form="unfused"),
    "reference": lambda p: p.reference(X),
    "derivation": lambda p: (str(p.derivation()), p.derivation().to_json()),
    "explain": lambda p: (str(p.explain()), p.explain()._repr_html_()),
}


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS)
def test_time_is_linear_in_the_number_of_operations(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUSEGEN_CACHE_MB", "0")
    STEPS[step](grown(10))  # imports are no part of it
    small = seconds(lambda: STEPS[step](grown(100)))
    large = seconds(lambda: STEPS[step](grown(500)))
    assert large < 5 * 2.5 * small + 0.5, f"{small:.2f} s, and {large:.2f} s for five times as much"


def chain(x: Any, *, n: int = 1000) -> Any:  # twice as deep as Python recurses
    for _ in range(n):
        x = x * 0.5 + 1.0
    return x


def doubled(x: Any) -> Any:
    for _ in range(60):
        x = x + x
    return x


def extremes(x: Any) -> Any:
    for i in range(60):
        x = fg.maximum(x, x * 0.5 + i)
    return x


def choices(x: Any) -> Any:
    for i in range(60):
        x = fg.where(x > i, x - i, x * 0.5)
    return x


def rows(x: Any) -> Any:
    y = fg.sum(x)
    for _ in range(40):
        y = y * 0.5 + fg.sin(y)
    return x * y


def entries(x: Any) -> Any:
    values, columns = fg.topk(x, 3)
    for _ in range(40):
        values = values * 0.5 + fg.sin(values)
    return values, fg.sum(values), columns


def chosen_deep(x: Any) -> Any:
    for _ in range(40):
        x = fg.tanh(x) + x
    return fg.topk(x, 3)


def after_the_maximum(x: Any) -> Any:
    y = x - fg.max(x)
    for _ in range(40):
        y = fg.sin(y) * y + y
    return fg.sum(y)


def gathered(x: Any) -> Any:
    y = x
    for _ in range(40):
        y = fg.sin(y) + y
    return fg.take(y, fg.argmax(x))


def many_sums(x: Any) -> Any:
    return tuple(fg.sum(x * (i + 0.5)) for i in range(300))


def many_outputs(x: Any) -> Any:
    return {f"result {i}": x * (i + 0.5) for i in range(300)}


def many_constants(x: Any) -> Any:
    for i in range(300):
        x = x * 0.5 + float(i)
    return x


def long_name(x: Any) -> Any:
    return {"a" * 3000: fg.sum(x), "a" * 2999 + "b": fg.max(x)}


def softmaxes(x: Any) -> Any:
    for _ in range(20):
        x = fg.library.softmax(x)
    return x


TEXTS = (chain, doubled, extremes, choices, rows, entries, chosen_deep, after_the_maximum, gathered,
         many_sums, many_outputs, many_constants, long_name, softmaxes)


@pytest.mark.long
@pytest.mark.parametrize("text", TEXTS, ids=lambda t: t.__name__)
def test_everyday_texts_do_not_hang(text: Any) -> None:
    p = fg.pipeline(text)
    start = time.process_time()
    for target in ("cpu", "sm_90"):
        assert len(p.source(target)) < 1_500_000
    p.reference(X)
    str(p.explain())
    assert within(time.process_time() - start, 60)


REUSES = {
    "y + y": lambda y: y + y, "y * y": lambda y: y * y, "-y * y": lambda y: -y * y,
    "y * y + y": lambda y: y * y + y, "y / (y + 1)": lambda y: y / (y + 1),
    "y * (1 - y)": lambda y: y * (1 - y), "where": lambda y: fg.where(y > 0, y, y * 2),
    "maximum": lambda y: fg.maximum(y, y * 0.5), "exp": lambda y: fg.exp(y - 1) * y,
}
"""What uses its argument more than once: forty of them have more paths than nodes by far."""
BEGINNINGS = {
    "x - max": lambda x: x - fg.max(x), "exp": lambda x: fg.exp(x - fg.max(x)),
    "x / max": lambda x: x / fg.max(fg.abs(x)), "squares": lambda x: (x - fg.max(fg.abs(x))) ** 2,
    "y * (x - mean)": lambda x: fg.sin(x) * (x - fg.mean(x)),
}


@pytest.mark.parametrize("begin", BEGINNINGS.values(), ids=BEGINNINGS)
@pytest.mark.parametrize("step", REUSES.values(), ids=REUSES)
def test_values_used_many_times_are_looked_at_once(step: Any, begin: Any) -> None:
    def text(x: Any) -> Any:
        y = begin(x)
        for _ in range(40):
            y = step(y)
        return fg.sum(y)

    start = time.process_time()
    assert fg.pipeline(text).plan(form="online").sweeps <= 2
    assert within(time.process_time() - start, 20)


def test_three_hundred_inputs() -> None:
    names = [f"x{i}" for i in range(300)]

    def origin(x: Any) -> Any:
        return x

    from inspect import Parameter

    parameters = [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in names]
    text = Text("many_inputs", "", origin, parameters, lambda *xs: sum(xs[1:], xs[0]))
    found = fg.pipeline(text).reference(*([X] * 300))  # type: ignore[arg-type]
    np.testing.assert_allclose(found, 300 * X)


@pytest.mark.long
def test_gradients_of_deep_texts() -> None:
    gradient = fg.grad(fg.pipeline(lambda x: chain(x, n=500) + extremes(x)))
    found = gradient.reference(np.ones_like(X), X)
    y, slope = X.copy(), np.ones_like(X)
    for i in range(60):
        slope = np.where(y > y * 0.5 + i, slope, 0.5 * slope)
        y = np.maximum(y, y * 0.5 + i)
    np.testing.assert_allclose(found, slope + 0.5**500, atol=1e-12)


def weights(x: Any, *, k: int) -> Any:
    values, _ = fg.topk(x, k)
    powers = fg.exp(values - fg.max(values))
    return powers / fg.sum(powers)


def gate(x: Any, *, k: int) -> Any:
    values, _ = fg.topk(fg.library.softmax(x), k)
    return values / fg.sum(values)


def of_columns(text: Any, k: int) -> Gradient:
    """The gradient of a text of lists, their columns given."""
    p = fg.pipeline(text)
    found = gradient_of(Picked(p, p.traces.varied(frozenset({"x"}), {"k": k}).graph), "x", {})
    assert isinstance(found, Gradient)
    return found


@pytest.mark.parametrize("text", [weights, gate], ids=["weights", "gate"])
def test_gradients_of_lists_are_linear_in_their_entries(text: Any) -> None:
    def nodes(k: int) -> int:
        gradient = of_columns(text, k)
        present = frozenset(gradient.signature.arrays)
        return len(gradient.traces.varied(present, {}).graph.nodes)

    start = time.process_time()
    small, large = nodes(16), nodes(64)
    assert large < 4 * 1.5 * small, f"{small} nodes, and {large} for four times as many entries"
    assert within(time.process_time() - start, 20)


@pytest.mark.parametrize("k", [16, 33])
@pytest.mark.parametrize("text", [weights, gate], ids=["weights", "gate"])
def test_gradients_of_long_lists_are_right(text: Any, k: int) -> None:
    cotangent = np.random.default_rng(1).normal(size=(k, len(X)))
    columns = np.argsort(-X, axis=1)[:, :k].T
    found = of_columns(text, k).reference(*cotangent, X, *columns)
    powers = np.exp(np.take_along_axis(X, columns.T, 1))
    y = powers / powers.sum(axis=1, keepdims=True)
    right = np.zeros_like(X)
    share = y * (cotangent.T - (cotangent.T * y).sum(axis=1, keepdims=True))
    np.put_along_axis(right, columns.T, share, 1)
    np.testing.assert_allclose(found, right, atol=1e-12)


def test_a_kernel_of_many_row_values_asks_once_which_are_known(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sweep] = []
    monkeypatch.setattr(scope, "sweep_exprs",
                        lambda sweep: asked.append(sweep) or sweep_exprs(sweep))
    monkeypatch.setenv("FUSEGEN_CACHE_MB", "0")
    fg.pipeline(lambda x: rows(x)).source("cpu")
    assert 0 < len(asked) < 10


def test_kernels_of_shared_and_long_expressions_are_right() -> None:
    """Lines of their own, in every scope: elements, row values, entries of a list, gathers."""
    def text(x: Any) -> Any:
        v, total, _ = entries(x)
        return v, total, rows(x), choices(x), chain(x, n=100), gathered(x)

    p = fg.pipeline(text)
    x = X.astype(np.float32)
    for got, right in zip(p(x), p.reference(x), strict=True):
        np.testing.assert_allclose(got, right, rtol=2e-3, atol=2e-4)


def test_a_value_is_shown_shortly() -> None:
    shown: list[str] = []

    def text(x: Value) -> Value:
        y = x
        for _ in range(12):
            y = y * y
        shown.extend((repr(y), repr(y.node)))
        return y

    fg.pipeline(text).work()
    assert all(len(s) < 120 for s in shown)


@fg.pipeline
def endless(x: Value) -> Value:
    return other(x) + 1.0


@fg.pipeline
def other(x: Value) -> Value:
    return endless(x)


@fg.pipeline
def power(x: Value, *, n: int) -> Value:
    return x * power(x, n=n - 1) if n else x


def test_recursive_pipelines() -> None:
    with pytest.raises(TraceError, match="endless calls itself: endless → other → endless"):
        endless(X)
    with pytest.raises(TraceError, match="power calls too deeply"):
        power(X, n=5000)
    np.testing.assert_allclose(power.reference(X, n=3), X**4)
