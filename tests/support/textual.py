"""NumPy's functions of a row under the names that fusegen has for them: a text, plainly run."""

from __future__ import annotations

from typing import Any

import numpy as np

exp, log, where, maximum = np.exp, np.log, np.where, np.maximum


def max(x: Any) -> Any:
    return np.max(x, axis=1, keepdims=True)


def min(x: Any) -> Any:
    return np.min(x, axis=1, keepdims=True)


def sum(x: Any) -> Any:
    return np.sum(x, axis=1, keepdims=True)


def mean(x: Any) -> Any:
    return np.mean(x, axis=1, keepdims=True)


def count(m: Any) -> Any:
    return np.sum(m, axis=1, keepdims=True)


def rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)
