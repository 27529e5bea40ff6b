"""Pipelines and rows that several test files use."""

from __future__ import annotations

from typing import Any

import numpy as np

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler

TARGETS = ["numpy", *(["cpu"] if find_compiler() else [])]
FORMS = ("auto", "online", "safe", "unfused")


def rows(shape: tuple[int, ...] = (5, 37), seed: int = 0, dtype: Any = "float32") -> Any:
    return np.random.default_rng(seed).normal(0, 2, shape).astype(dtype)


@fg.pipeline
def best(x, *, k):  # type: ignore[no-untyped-def]
    """A list beside a reduction that it shares the sweep with."""
    values, columns = fg.topk(x, k)
    return fg.max(x), values, columns


def arguments(name: str, x: Any) -> tuple[Any, ...]:
    """Arrays for a library pipeline, x among them."""
    n_cols = x.shape[-1]
    match name:
        case "cross_entropy":
            return (x, np.arange(np.prod(x.shape[:-1], dtype=int)).reshape(x.shape[:-1]) % n_cols)
        case "weighted_mean":
            return (x, np.cos(x))
        case "layer_norm":
            return (x, np.linspace(0.5, 2, n_cols, dtype=x.dtype), np.ones(n_cols, x.dtype))
        case _:
            return (x,)


def leaves(result: Any) -> list[Any]:
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in leaves(part)]
    if isinstance(result, dict):
        return [leaf for part in result.values() for leaf in leaves(part)]
    return [result]


@fg.pipeline
def kl_divergence(x, y):
    p = fg.library.softmax(x)
    q = fg.library.softmax(y)
    return fg.sum(p * (fg.log(p) - fg.log(q)))


@fg.pipeline
def skewness_sum(x):
    return fg.sum((x - fg.mean(x)) ** 3)


@fg.pipeline
def covariance(x, y):
    return fg.mean((x - fg.mean(x)) * (y - fg.mean(y)))


@fg.pipeline
def weighted_variance(x, w):
    w = fg.abs(w)
    mu = fg.sum(w * x) / fg.sum(w)
    return fg.sum(w * (x - mu) ** 2) / fg.sum(w)
