"""Pipelines over stored rows, what each takes, and what it is in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fusegen as fg
from fusegen.pipeline.pipeline import Pipeline

from . import oracles as o
from .oracles import Want

lib = fg.library


@dataclass(frozen=True, eq=False)
class Text:
    """`takes`: the kind of each input: element, plain (an element input that is never hard),
    column, row, label, length."""

    name: str
    family: str
    make: Callable[[], Any]  # a pipeline that remembers nothing
    takes: Mapping[str, str]
    oracle: Callable[..., Any]  # float64 arrays by name, constants → Want, or a tuple of them
    degree: int = 1  # of what is summed
    special: bool = True  # does it say what infinities make of it?
    tiny: bool = True  # and do subnormal numbers have as many digits as it needs?
    constants: Mapping[str, Any] = field(default_factory=dict)
    lists: bool = False  # has it a constant k?

    def wanted(self, arrays: Mapping[str, Any], constants: Mapping[str, Any]) -> tuple[Want, ...]:
        wide = {n: a if a.dtype.kind in "iu" else a.astype(np.float64) for n, a in arrays.items()}
        with np.errstate(all="ignore"):
            found = self.oracle(**wide, **constants)
        return (found,) if isinstance(found, Want) else tuple(found)


def _again(p: Pipeline) -> Callable[[], Pipeline]:
    return lambda: fg.Pipeline(p.fn)


X = {"x": "element"}
XW = {"x": "element", "w": "column"}


@fg.pipeline
def normed(x, weight: fg.PerColumn, *, eps=1e-6):  # type: ignore[no-untyped-def]
    return lib.rms_norm(x, weight, eps=eps)


@fg.pipeline
def add_normed(x, r, w: fg.PerColumn):  # type: ignore[no-untyped-def]
    s = x + r
    return s, lib.rms_norm(s, w, eps=1e-6)


@fg.pipeline
def statistics(x):  # type: ignore[no-untyped-def]
    return fg.logsumexp(x), lib.entropy(x), fg.var(x), fg.argmax(x)


@fg.pipeline
def extremes(x):  # type: ignore[no-untyped-def]
    return fg.argmax(x), fg.argmin(x), fg.max(x), fg.min(x)


@fg.pipeline
def best_of_two(x, y):  # type: ignore[no-untyped-def]
    return fg.argmax(x * 2), fg.sum(x * y), fg.argmin(y)


@fg.pipeline
def best_share(x):  # type: ignore[no-untyped-def]
    p = lib.softmax(x)
    return p, fg.argmax(x), fg.max(p)


@fg.pipeline
def about_lse(x, y):  # type: ignore[no-untyped-def]
    return fg.sum(fg.exp(x - fg.logsumexp(x)) * y), fg.logsumexp(x)


@fg.pipeline
def scaled_ends(x):  # type: ignore[no-untyped-def]
    low = fg.min(x)
    return (x - low) / (fg.max(x) - low + 1)


@fg.pipeline
def warm(x, t: fg.PerRow):  # type: ignore[no-untyped-def]
    s = x * t
    return fg.exp(s - fg.max(s)) / fg.sum(fg.exp(s - fg.max(s)))


@fg.pipeline
def ragged_softmax(x, lengths: fg.PerRow):  # type: ignore[no-untyped-def]
    s = fg.ragged(x, lengths)
    return lib.softmax(s), fg.argmax(s), fg.logsumexp(s)


@fg.pipeline
def ragged_list(x, lengths: fg.PerRow, *, k):  # type: ignore[no-untyped-def]
    return fg.topk(fg.ragged(x, lengths), k)


@fg.pipeline
def least(x, *, k):  # type: ignore[no-untyped-def]
    return fg.topk(x, k, largest=False)


@fg.pipeline
def both_lists(x, *, k):  # type: ignore[no-untyped-def]
    return *fg.topk(x, k), *fg.topk(x, k, largest=False)


@fg.pipeline
def listed_beside(x, *, k):  # type: ignore[no-untyped-def]
    values, columns = fg.topk(x, k)
    return values, columns, fg.logsumexp(x), fg.max(x)


@fg.pipeline
def router(x, *, k):  # type: ignore[no-untyped-def]
    values, columns = fg.topk(lib.softmax(x), k)
    return values / fg.sum(values), columns


@fg.pipeline
def normed_list(x, *, k):  # type: ignore[no-untyped-def]
    return fg.topk(lib.rms_norm(x), k)


def _cut(x: Any, lengths: Any) -> Any:
    return np.where(np.arange(x.shape[-1]) < lengths[..., None], x, -np.inf)


def _ragged_softmax(x: Any, lengths: Any) -> Any:
    s = _cut(x, lengths)
    return o.softmax(s), o.first(s, largest=True), o.logsumexp(s)


def _router(x: Any, k: int) -> Any:
    values, columns = o.picked(o.softmax(x), x, k)
    total = values.value.sum(-1, keepdims=True)
    off = values.size / total + values.value * values.size.sum(-1, keepdims=True) / total**2
    return Want(values.value / total, np.nan_to_num(off)), columns


def _scaled_ends(x: Any) -> Want:
    low, high = x.min(-1, keepdims=True), x.max(-1, keepdims=True)
    value = (x - low) / (high - low + 1)
    return Want(value, np.nan_to_num(np.abs(value)))


def _warm(x: Any, t: Any) -> Want:
    s = x * t[..., None]
    p = o.softmax(s)
    return Want(p.value, p.size + np.nan_to_num(p.value) * o.at_most(s))


def _add_normed(x: Any, r: Any, w: Any) -> Any:
    s = x + r
    most = np.abs(x) + np.abs(r)
    y = o.rms_norm(s, w, 1e-6)
    scale = np.abs(w) / np.sqrt((s**2).mean(-1, keepdims=True) + 1e-6)
    return Want(s, most), Want(y.value, y.size + scale * most)


def _rows(name: str, p: Pipeline, takes: Mapping[str, str], oracle: Any, **more: Any) -> Text:
    return Text(name, more.pop("family", "rows"), _again(p), takes, oracle, **more)


def _list(name: str, p: Pipeline, oracle: Any, **more: Any) -> Text:
    return _rows(name, p, more.pop("takes", X), oracle, family="lists", lists=True, **more)


def _grad(name: str, p: Pipeline, takes: Mapping[str, str], oracle: Any, **more: Any) -> Text:
    return Text(f"{name}'s gradient", "gradients", lambda: fg.grad(_again(p)(), wrt="x"), takes,
                oracle, special=False, **more)


G = {"g": "plain", "x": "element"}
TEXTS: tuple[Text, ...] = (
    _rows("softmax", lib.softmax, X, o.softmax),
    _rows("log_softmax", lib.log_softmax, X, o.log_softmax),
    _rows("logsumexp", lib.logsumexp, X, o.logsumexp),
    _rows("entropy", lib.entropy, X, o.entropy),
    _rows("cross_entropy", lib.cross_entropy, {"x": "element", "labels": "label"},
          o.cross_entropy),
    _rows("var_mean", lib.var_mean, X, lambda x: (o.var(x), o.mean(x)), degree=2),
    _rows("layer_norm", lib.layer_norm, {"x": "element", "weight": "column", "bias": "column"},
          lambda x, weight, bias: o.layer_norm(x, weight, bias, 1e-5), degree=2, special=False),
    _rows("rms_norm", normed, {"x": "element", "weight": "column"},
          lambda x, weight, eps: o.rms_norm(x, weight, eps), degree=2, special=False,
          constants={"eps": 1e-5}),
    _rows("add_rms_norm", add_normed, {"x": "element", "r": "plain", "w": "column"}, _add_normed,
          degree=2, special=False),
    _rows("norm2", lib.norm2, X, o.norm2),
    _rows("absmax_quantize", lib.absmax_quantize, X, o.absmax_quantize, special=False,
          tiny=False),
    _rows("weighted_mean", lib.weighted_mean, {"scores": "element", "values": "plain"},
          lambda scores, values: o.weighted(scores, values)),
    _rows("statistics", statistics, X, lambda x: (
        o.logsumexp(x), o.entropy(x), o.var(x), o.first(x, largest=True)), degree=2),
    _rows("extremes", extremes, X, lambda x: (
        o.first(x, largest=True), o.first(x, largest=False), *o.ends(x))),
    _rows("best_of_two", best_of_two, {"x": "element", "y": "plain"}, lambda x, y: (
        o.first(x, largest=True), Want((x * y).sum(-1), np.abs(x * y).sum(-1)),
        o.first(y, largest=False)), special=False),
    _rows("best_share", best_share, X, lambda x: (
        o.softmax(x), o.first(x, largest=True), Want(*(a.max(-1) for a in o.softmax(x)[:2])))),
    _rows("about_lse", about_lse, {"x": "element", "y": "plain"},
          lambda x, y: (_about(x, y), o.logsumexp(x)), special=False),
    _rows("scaled_ends", scaled_ends, X, _scaled_ends, special=False),
    _rows("warm", warm, {"x": "element", "t": "row"}, _warm, special=False),
    _rows("ragged", ragged_softmax, {"x": "element", "lengths": "length"}, _ragged_softmax),
    _list("topk", lib.topk, o.topk),
    _list("least", least, lambda x, k: o.topk(x, k, largest=False)),
    _list("both_lists", both_lists, lambda x, k: (
        *o.topk(x, k), *o.topk(x, k, largest=False))),
    _list("softmax_topk", lib.softmax_topk, lambda x, k: o.picked(o.softmax(x), x, k)),
    _list("listed_beside", listed_beside, lambda x, k: (
        *o.topk(x, k), o.logsumexp(x), o.ends(x)[0])),
    _list("router", router, _router),
    _list("normed_list", normed_list, lambda x, k: o.picked(o.rms_norm(x, 1.0, 1e-6), x, k),
          degree=2, special=False),
    _list("ragged_list", ragged_list, lambda x, lengths, k: o.topk(_cut(x, lengths), k),
          takes={"x": "element", "lengths": "length"}),
    _grad("softmax", lib.softmax, G, lambda g, x: o.through(g, o.softmax(x))),
    _grad("log_softmax", lib.log_softmax, G, lambda g, x: o.log_through(g, o.softmax(x))),
    _grad("logsumexp", lib.logsumexp, {"g": "row", "x": "element"},
          lambda g, x: Want(*(a * abs(g[..., None]) if i else a * g[..., None]
                              for i, a in enumerate(o.softmax(x)[:2])))),
    _grad("rms_norm", normed, {**G, "weight": "column"},
          lambda g, x, weight, eps: o.norm_through(g, x, weight, eps), degree=4,
          constants={"eps": 1e-5}),
    _grad("layer_norm", lib.layer_norm, {**G, "weight": "column", "bias": "column"},
          lambda g, x, weight, bias: o.centred_through(g, x, weight, 1e-5), degree=4),
)


def _about(x: Any, y: Any) -> Want:
    """Shares rounded beside a log-sum-exp of any size."""
    found = o.weighted(x, y)
    return Want(found.value, found.size * (1 + o.logsumexp(x).size))
