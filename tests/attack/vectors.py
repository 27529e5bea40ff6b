"""Pipelines over vectors, and their gradients, held against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from support import vector_library as known

import fusegen as fg

_SIZES = (
    1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 70, 100, 127, 129, 130, 200, 257, 300,
)
_LENGTHS = (1, 2, 3, 4, 7, 8, 15, 16, 17, 24, 32, 33, 40, 64, 72, 80, 96, 100, 104, 128, 160)


@dataclass(frozen=True, eq=False)
class VectorText:
    name: str
    of: str  # the library's name
    make: Callable[[], Any]
    gradient: bool = False
    family: str = "vectors"


def _text(name: str) -> VectorText:
    return VectorText(name, name, lambda: fg.Pipeline(fg.library.OVER_VECTORS[name].fn))


def _gradient(name: str, wrt: tuple[str, ...]) -> VectorText:
    return VectorText(f"{name}'s gradient", name, lambda: fg.grad(_text(name).make(), wrt=wrt),
                      gradient=True)


TEXTS = (*map(_text, fg.library.OVER_VECTORS), _text("attention"),
         _gradient("attention", ("q", "k", "v")))


def drawn(
    rng: Any, text: VectorText, dtype: Any, most: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays by name, and constants."""
    rows, columns = (int(rng.choice(_SIZES)) for _ in range(2))
    d, e = (int(rng.choice(_LENGTHS)) for _ in range(2))
    e = d if rng.random() < 0.5 else e
    lead = ((), (), (2,), (1, 2))[int(rng.integers(4))]
    while rows * columns * (d + e) * max(1, int(np.prod(lead))) > 16 * most:
        rows, columns, d, e = (max(1, 2 * n // 3) for n in (rows, columns, d, e))
    arrays = known.arrays_of(text.of, lead, rows, columns, d, e, dtype.name)
    for array in arrays.values():
        if array.dtype.kind != "i":
            array[...] = _values(rng, array.shape, array).astype(array.dtype)
    constants = dict(dict(known.ENTRIES)[text.of])
    shape = (*lead, rows, columns)
    match text.of:
        case "attention":
            _options(rng, arrays, constants, shape)
        case "nearest" | "head_topk":
            constants["k"] = int(rng.integers(1, min(columns, 64) + 1))
    if text.of == "nearest":
        constants["metric"] = str(rng.choice(["sqdist", "dot", "manhattan"]))
    if text.gradient:
        constants.pop("with_lse", None)
        g = rng.standard_normal((*lead, rows, e)).astype(dtype)
        arrays = {"g": g, **arrays}
    return arrays, constants


def _values(rng: Any, shape: tuple[int, ...], like: Any) -> Any:
    """Of the order of what is there; or few different ones."""
    size = float(np.std(like.astype("f8"))) or 1.0
    found = size * rng.standard_normal(shape)
    match int(rng.integers(6)):
        case 0:
            return np.round(2 * found) / 2
        case 1:
            return np.broadcast_to(found[..., :1, :], shape)
        case _:
            return found


def _options(rng: Any, arrays: Any, constants: Any, shape: tuple[int, ...]) -> None:
    columns = shape[-1]
    constants["scale"] = 0.3
    if rng.random() < 0.35:
        constants["causal"] = True
    if rng.random() < 0.2:
        constants["window"] = int(rng.integers(1, columns + 2))
    if rng.random() < 0.2:
        constants["softcap"] = 2.0
    if rng.random() < 0.2:
        arrays["bias"] = rng.standard_normal(shape).astype(arrays["q"].dtype)
    if rng.random() < 0.2:
        arrays["lengths"] = rng.integers(0, columns + 1, shape[:-1])
    if rng.random() < 0.15:
        arrays["sinks"] = rng.standard_normal(shape[:-1]).astype(arrays["q"].dtype)
    if rng.random() < 0.2:
        constants["with_lse"] = True


def case_of(
    text: VectorText, arrays: Mapping[str, Any], constants: Mapping[str, Any]
) -> known.Case:
    dtype = next(iter(arrays.values())).dtype.name
    return known.Case(text.of, "", arrays, constants, dtype)


def attention_gradients(
    g: Any, q: Any, k: Any, v: Any, bias: Any = None, lengths: Any = None, sinks: Any = None, *,
    scale: float, causal: bool = False, window: int | None = None, softcap: float | None = None,
) -> tuple[tuple[Any, Any], ...]:
    """With respect to q, k and v, in float64, each with the sum of its terms' sizes."""
    plain = scale * known.dot(q, k)
    s = plain if softcap is None else softcap * np.tanh(plain / softcap)
    bend = 1.0 if softcap is None else 1 - (s / softcap) ** 2
    s = s if bias is None else s + bias
    column, at = np.arange(k.shape[-2]), np.arange(q.shape[-2])[:, None]
    counts = np.ones(s.shape, bool) if lengths is None else column < lengths[..., None]
    counts = counts & (column <= at if causal else True)
    counts = counts & (True if window is None else abs(column - at) < window)
    s = np.where(counts, s, -np.inf)
    if sinks is None:
        p = known.softmax(s)
    else:
        p = known.softmax(np.concatenate([s, sinks[..., None]], -1))[..., :-1]
    dp, most = known.dot(g, v), known.dot(abs(g), abs(v))
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * bend * scale
    off = p * (most + (p * most).sum(-1, keepdims=True)) * scale
    across, over, weights = (np.swapaxes(a, -1, -2) for a in (ds, off, p))
    return ((ds @ k, off @ abs(k)), (across @ q, over @ abs(q)),
            (weights @ g, weights @ abs(g)))
