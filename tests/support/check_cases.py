"""Texts and monoids that are right, of every kind: `fg.check` must pass all of them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import fusegen as fg

NAN, INF = math.nan, math.inf
TYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64",
         "uint8", "uint16", "uint32", "bool")


def _casts(value: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {t: _cast(value, t) for t in TYPES}


def _cast(value: Callable[..., Any], dtype: str) -> Callable[..., Any]:
    if "n" in inspect.signature(value).parameters:
        return lambda n: fg.cast(value(n), dtype)
    return lambda x: fg.cast(value(x), dtype)


def _weighted(x, w: fg.PerColumn | None = None, scale: fg.PerRow | None = None):
    total = fg.sum(x) if w is None else fg.sum(x * w)
    return total if scale is None else total * scale


def _ragged_softmax(x, lengths: fg.PerRow):
    row = fg.ragged(x, lengths)
    return fg.exp(row - fg.max(row)) / fg.sum(fg.exp(row - fg.max(row)))


def _per_row(x, t: fg.PerRow):
    return fg.sum(fg.exp((x - fg.max(x)) * t)), fg.count(x > t)


def _label(x, label: fg.PerRow):
    return fg.logsumexp(x) - fg.take(x, label)


def _columns(x, w: fg.PerColumn):
    mean = fg.sum(w * x) / fg.sum(w * w)
    return mean, fg.argmax(x * w), fg.max(w - x)


def _grouped(x):
    parts = fg.sections(fg.ragged(x, fg.length(x), 0), 1)
    return tuple(fg.sum(fg.where(p, x, 0)) for p in parts)


RIGHT: dict[str, dict[str, Callable[..., Any]]] = {
    "row values as": _casts(lambda x: fg.max(x)),
    "elements as": _casts(lambda x: 100 * x - fg.max(x)),
    "lists as": _casts(lambda x: fg.topk(x, 2)[0] * 30),
    "whole numbers as": _casts(lambda n: fg.sum(n * n) - 40),
    "whole numbers of elements as": _casts(lambda n: n * 100),
    "conditions": {
        "argmax": lambda x: fg.argmax(x > 0),
        "argmin": lambda x: fg.argmin(x > fg.mean(x)),
        "argmax of NaN or not": lambda x: fg.argmax(fg.isnan(x)),
        "argmin of two": lambda x: fg.argmin((x > 0) & (x < 2)),
        "argmax of those given": lambda keep: fg.argmax(keep),
        "argmin of those given": lambda keep: fg.argmin(~keep),
        "greatest of what is kept": lambda x, keep: fg.topk(fg.where(keep, x, -INF), 2),
        "least of what is kept":
            lambda x, keep: fg.topk(fg.where(keep, x, INF), 2, largest=False),
        "top-K as numbers": lambda keep: fg.topk(fg.where(keep, 1, 0), 2),
        "top-K cast": lambda keep: fg.topk(fg.cast(keep, "float32"), 3),
        "count": lambda keep, other: fg.count(keep & ~other) + fg.count(keep | other),
        "all and any": lambda x, keep: (fg.all(keep), fg.any(keep & (x > 0))),
        "mask": lambda x, keep: fg.logsumexp(fg.where(keep, x, -INF)),
        "result": lambda x: x > fg.mean(x),
        "result of two": lambda x, keep: keep | (x == fg.max(x)),
        "ties of a maximum": lambda x: fg.count(x == fg.max(x)),
        "infinities": lambda x: (fg.count(fg.isinf(x)), fg.count(fg.isnan(x))),
        "threshold": lambda x: fg.where(fg.mean(x) > 0, fg.sum(x), fg.max(x)),
    },
    "least": {
        "absolute differences": lambda l, h: fg.topk(fg.abs(-l - h), 2, largest=False),  # noqa: E741
        "falling": lambda h: fg.topk(-h, 2, largest=False),
        "exponential": lambda h: fg.topk(fg.exp(-h), 3, largest=False),
        "square roots": lambda h: fg.topk(fg.sqrt(h), 2, largest=False),
        "products": lambda l, h: fg.topk(l * h, 3, largest=False),  # noqa: E741
        "columns": lambda h: fg.topk(fg.abs(h), 2, largest=False, index_dtype="uint8")[1],
        "taken there": lambda l, h: fg.take(l, fg.topk(h, 2, largest=False)[1]),  # noqa: E741
    },
    "least of a softmax": {
        "probabilities": lambda x: fg.topk(
            fg.exp(x - fg.max(x)) / fg.sum(fg.exp(x - fg.max(x))), 2, largest=False),
    },
    "greatest": {
        "logarithms": lambda x: fg.topk(fg.log(x), 2),
        "both ends": lambda x: (fg.topk(x, 2), fg.topk(x, 2, largest=False)),
        "columns": lambda x: fg.topk(x, 3, index_dtype="int8")[1],
        "taken at the extremes":
            lambda x, y: fg.take(y, fg.argmin(x)) - fg.take(y, fg.argmax(x)),
        "folds of a list":
            lambda x: [f(fg.topk(x, 3)[0]) for f in (fg.sum, fg.mean, fg.max, fg.prod)],
        "folds of logarithms": lambda x: (fg.max(fg.log(x)), fg.min(fg.sqrt(x))),
    },
    "positions": {
        "before the greatest": lambda x: fg.sum(fg.where(fg.index(x) < fg.argmax(x), x, 0)),
        "last": lambda x: fg.take(x, fg.length(x) - 1),
        "not there": lambda x: fg.take(x, fg.length(x)),
        "whole numbers": lambda x: fg.argmax(fg.index(x) * 3 - fg.index(x)),
        "sections": _grouped,
        "ragged softmax": _ragged_softmax,
        "ragged top-K": lambda x, lengths: fg.topk(fg.ragged(x, lengths), 2),
        "ragged least": lambda x: fg.topk(fg.ragged(x, fg.length(x) - 1, INF), 1, largest=False),
        "length 0": lambda x: (fg.max(fg.ragged(x, fg.length(x) * 0)),
                               fg.logsumexp(fg.ragged(x, fg.length(x) * 0))),
        "label": _label,
    },
    "inputs": {"optional": _weighted, "per row": _per_row, "per column": _columns},
    "whole numbers": {
        "sums": lambda n: (fg.sum(n), fg.max(n), fg.min(n), fg.argmin(n)),
        "products": lambda n: fg.prod(n),
        "top-K": lambda n: (fg.topk(n, 2), fg.topk(n, 2, largest=False)),
        "as floats": lambda n: fg.logsumexp(fg.cast(n, "float32")),
        "squares": lambda n: fg.sum(n * n) - fg.max(n) * fg.min(n),
        "differences": lambda n: fg.sum(n - fg.max(n)),
    },
    "sums": {
        "softmax": lambda x: fg.exp(x - fg.max(x)) / fg.sum(fg.exp(x - fg.max(x))),
        "variance": lambda x: fg.var(x),
        "xlogy": lambda x: fg.sum(fg.xlogy(x, x)),
        "rounded": lambda x: fg.sum(fg.round(x) + fg.floor(x) - fg.ceil(x)),
        "signs": lambda x: fg.sum(fg.sign(x) * fg.abs(x)),
    },
}


def together(name: str) -> Any:
    """The texts of a group as one pipeline: a result by the name of each."""
    texts = RIGHT[name]
    parameters: dict[str, inspect.Parameter] = {}
    for fn in texts.values():
        for p in inspect.signature(fn).parameters.values():
            if parameters.setdefault(p.name, p).annotation is p.empty:
                parameters[p.name] = p

    def group(*arrays):
        given = dict(zip(order, arrays, strict=True))
        return {called: fn(*(given[p] for p in inspect.signature(fn).parameters))
                for called, fn in texts.items()}

    # Those that may be missing stand last.
    order = sorted(parameters, key=lambda n: parameters[n].default is not inspect.Parameter.empty)
    group.__signature__ = inspect.Signature([parameters[n] for n in order])
    return fg.pipeline(group)

DTYPES: dict[str, str] = {"keep": "bool", "other": "bool", "n": "int32", "lengths": "int64",
                          "label": "int64"}


# ---- monoids of one's own ----


def textbook_softmax(a, b):
    m = fg.maximum(a["m"], b["m"])
    return {"m": m, "d": fg.where(a["d"] == 0, 0, a["d"] * fg.exp(a["m"] - m))
            + fg.where(b["d"] == 0, 0, b["d"] * fg.exp(b["m"] - m))}


def pairs(keep_first: bool, number: float | int) -> Any:
    """argmax with its column, which keeps the earlier or the later of ties."""

    def merge(a, b):
        behind = b["v"] > a["v"] if keep_first else b["v"] >= a["v"]
        return {"v": fg.where(behind, b["v"], a["v"]), "j": fg.where(behind, b["j"], a["j"])}

    return fg.monoid(identity={"v": -INF, "j": number}, lift=lambda x, j: {"v": x, "j": j},
                     merge=merge, name="argmax_of_mine")


MONOIDS: dict[str, Any] = {
    "textbook softmax": fg.monoid({"m": -INF, "d": 0.0}, lambda x: {"m": x, "d": 1.0},
                                  textbook_softmax),
    "argmax, the later of ties": pairs(False, -1.0),
    "argmax, the earlier of ties": pairs(True, -1.0),
    "argmax, the earlier of ties, whole columns": pairs(True, -1),
    "an element called i": fg.monoid(0.0, lambda i: i, lambda a, b: a + b),
    "elements called double and int": fg.monoid(
        0.0, lambda double, int: double + 2 * int, lambda a, b: a + b),
    "elements called axis and dtype": fg.monoid(
        0.0, lambda axis, dtype, out: axis + dtype - out, lambda a, b: a + b),
    "elements called i and i_": fg.monoid((0.0, -INF), lambda i, i_: (i, i_),
                                          lambda a, b: (a[0] + b[0], fg.maximum(a[1], b[1]))),
    "fields called a and e": fg.monoid(
        {"a": 0.0, "e": INF}, lambda x: {"a": x, "e": x},
        lambda a, b: {"a": a["a"] + b["a"], "e": fg.minimum(a["e"], b["e"])}),
    "conditions": fg.monoid((False, True), lambda keep: (keep, ~keep),
                            lambda a, b: (a[0] | b[0], a[1] & b[1])),
    "last wins": fg.monoid({"any": False, "v": 0.0}, lambda x: {"any": True, "v": x},
                           lambda a, b: {"any": a["any"] | b["any"],
                                         "v": fg.where(b["any"], b["v"], a["v"])}),
    "composition of max-plus lines": fg.monoid(
        (0.0, -INF), lambda a, b: (a, b),
        lambda p, q: (p[0] + q[0], fg.maximum(p[1] + q[0], q[1]))),
}
MONOIDS["a product"] = fg.product(MONOIDS["last wins"], fg.monoid(
    0.0, lambda x: x, lambda a, b: a + b, name="total"), name="both")
