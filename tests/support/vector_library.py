"""The library over vectors on nasty shapes, each with what NumPy makes of it in float64.

A case is data: a backend runs `case.pipeline` on `case.arrays` with `case.constants`, and
`case.check(found)` holds what it returns against the oracle. Oracles are written here, from the
definitions, and know nothing of fusegen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusegen as fg

TOLERANCE = {"float64": 1e-11, "float32": 4e-5, "float16": 8e-3, "bfloat16": 6e-2}


@dataclass(frozen=True, eq=False)
class Case:
    """`name`: of the library's pipeline; `tag`: what is hard about it."""

    name: str
    tag: str
    arrays: Mapping[str, Any]
    constants: Mapping[str, Any]
    dtype: str = "float32"
    exact: bool = False  # are equal dots and distances equal in floats, so that ties are known?

    def __repr__(self) -> str:
        return f"{self.name}-{self.tag}"

    @property
    def pipeline(self) -> fg.Pipeline:
        return fg.library.OVER_VECTORS[self.name]

    def wanted(self) -> Any:
        """Arrays in float64, and of columns in int64."""
        exact = {n: a if a.dtype.kind in "iu" else a.astype("f8") for n, a in self.arrays.items()}
        with np.errstate(all="ignore"):
            return ORACLES[self.name](**exact, **self.constants)

    def check(self, found: Any) -> None:
        """Raises AssertionError where `found`, as NumPy arrays, is not what is wanted."""
        tolerance = TOLERANCE[self.dtype]
        match self.name:
            case "nearest" | "head_topk":
                self._check_list(*found, tolerance)
            case "kmeans_assign":
                distance = sqdist(*(a.astype("f8") for a in self.arrays.values()))
                picked = np.take_along_axis(distance, found[..., None], -1)[..., 0]
                assert found.dtype == np.int64
                near(picked, distance.min(-1), tolerance)
                assert not self.exact or (found == distance.argmin(-1)).all()
            case _:
                results = found if isinstance(found, tuple) else (found,)
                wanted = self.wanted()
                for f, w in zip(results, wanted if isinstance(wanted, tuple) else (wanted,),
                                strict=True):
                    assert f.dtype == self.arrays[next(iter(self.arrays))].dtype
                    near(f, w, tolerance, 0.0 if self.name == "gaussian_sum" else 0.1)

    def _check_list(self, values: Any, columns: Any, tolerance: float) -> None:
        """The K best, best first, of different columns, each with its own value."""
        every = self.wanted()
        order = np.argsort(every if self._least else -every, -1, kind="stable")
        order = order[..., : columns.shape[-1]]
        assert not self.exact or (columns == order).all()
        best = np.take_along_axis(every, order, -1)
        near(values, best, tolerance)
        near(np.take_along_axis(every, columns, -1), best, tolerance)
        assert all(len({*row}) == len(row) for row in columns.reshape(-1, columns.shape[-1]))

    @property
    def _least(self) -> bool:
        return self.name == "nearest" and self.constants.get("metric") != "dot"


def near(found: Any, want: Any, tolerance: float, least: float = 0.0) -> None:
    """Up to the tolerance of the greatest of its row, or of `least`, which logarithms lose."""
    assert found.shape == want.shape
    size = np.max(np.abs(want), -1, keepdims=True, initial=1e-30, where=np.isfinite(want)) \
        if want.ndim else 1.0
    got = found.astype("f8")
    assert (np.isnan(got) == np.isnan(want)).all(), (got, want)
    with np.errstate(invalid="ignore"):
        same = (got == want) | (np.abs(got - want) <= tolerance * (size + least))
    assert same[~np.isnan(want)].all(), (got, want)


# ---- the definitions ----


def dot(q: Any, k: Any) -> Any:
    return np.sum(q[..., :, None, :] * k[..., None, :, :], -1)


def sqdist(x: Any, y: Any) -> Any:
    return np.sum((x[..., :, None, :] - y[..., None, :, :]) ** 2, -1)


def softmax(s: Any) -> Any:
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def lse(s: Any) -> Any:
    m = s.max(-1, keepdims=True)
    found = (m + np.log(np.exp(s - m).sum(-1, keepdims=True)))[..., 0]
    return np.where(np.isinf(m[..., 0]), m[..., 0], found)  # of nothing −inf, not NaN


def attention(
    q: Any, k: Any, v: Any, bias: Any = None, lengths: Any = None, positions: Any = None,
    sinks: Any = None, mask: Any = None, valid: Any = None, *,
    scale: float, causal: bool = False, window: int | None = None, softcap: float | None = None,
    with_lse: bool = False,
) -> Any:
    s = scale * dot(q, k)
    s = s if softcap is None else softcap * np.tanh(s / softcap)
    s = s if bias is None else s + bias
    column = np.arange(k.shape[-2])
    at = (np.arange(q.shape[-2]) if positions is None else positions)[..., None]
    for holds in (
        True if lengths is None else column < lengths[..., None],
        True if mask is None else mask, True if valid is None else valid[..., None, :],
        column <= at if causal else True, True if window is None else abs(column - at) < window,
    ):
        s = np.where(holds, s, -np.inf)
    if sinks is None:
        p = softmax(s)
    else:
        wide = np.broadcast_to(sinks, s.shape[:-1])[..., None]
        p = softmax(np.concatenate([s, wide], -1))[..., :-1]
    found = np.where(p[..., None] == 0, 0, p[..., None] * v[..., None, :, :]).sum(-2)
    return (found, lse(s)) if with_lse else found


def nearest(x: Any, y: Any, *, k: int = 10, metric: str = "sqdist") -> Any:
    match metric:
        case "dot":
            return dot(x, y)
        case "manhattan":
            return np.abs(x[..., :, None, :] - y[..., None, :, :]).sum(-1)
        case _:
            return sqdist(x, y)


def logits(h: Any, w: Any, bias: Any, softcap: float | None) -> Any:
    s = dot(h, w) + (0 if bias is None else bias)
    return s if softcap is None else softcap * np.tanh(s / softcap)


def at_label(s: Any, labels: Any) -> Any:
    there = (labels >= 0) & (labels < s.shape[-1])
    found = np.take_along_axis(s, np.where(there, labels, 0)[..., None], -1)[..., 0]
    return np.where(there, found, np.nan)


def linear_cross_entropy(
    h: Any, w: Any, labels: Any, bias: Any = None, *, softcap: float | None = None
) -> Any:
    s = logits(h, w, bias, softcap)
    return lse(s) - at_label(s, labels)


def head_topk(
    h: Any, w: Any, bias: Any = None, *, k: int = 5, temperature: float = 1.0,
    softcap: float | None = None, log: bool = False,
) -> Any:
    s = logits(h, w, bias, softcap) / temperature
    return s - lse(s)[..., None] if log else softmax(s)


def contrastive(
    x: Any, y: Any, positives: Any = None, *, temperature: float = 0.07, normalize: bool = False
) -> Any:
    if normalize:
        x, y = (a / np.sqrt(np.sum(a * a, -1, keepdims=True)) for a in (x, y))
    s = dot(x, y) / temperature
    at = np.broadcast_to(np.arange(x.shape[-2]), s.shape[:-1]) if positives is None else positives
    return lse(s) - at_label(s, at)


def gaussian_sum(x: Any, y: Any, b: Any = None, *, bandwidth: float = 1.0) -> Any:
    p = np.exp(-sqdist(x, y) / (2 * bandwidth**2))
    return p.sum(-1) if b is None else np.einsum("...rc,...ce->...re", p, b)


ORACLES: Mapping[str, Callable[..., Any]] = {
    "attention": attention, "nearest": nearest, "linear_cross_entropy": linear_cross_entropy,
    "head_topk": head_topk, "contrastive": contrastive, "gaussian_sum": gaussian_sum,
}
"""Of lists all that they choose from."""

# ---- arrays ----


def drawn(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    found = np.random.default_rng((seed, *shape)).standard_normal(shape)
    return found.astype(fg.ir.dtypes.dtype_of(dtype).numpy)


def whole(*shape: int, most: int, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).integers(0, most + 1, shape)


ENTRIES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("attention", {"scale": 0.3}), ("nearest", {"k": 1}), ("kmeans_assign", {}),
    ("linear_cross_entropy", {}), ("head_topk", {"k": 1}), ("contrastive", {"temperature": 0.5}),
    ("gaussian_sum", {"bandwidth": 2.0}),
)
"""Each of the library, with constants that any shape takes."""


def arrays_of(
    name: str, lead: tuple[int, ...], rows: int, columns: int, d: int, e: int, dtype: str
) -> dict[str, Any]:
    """Arrays that the pipeline needs; of dots that are of the order of 1."""
    row, column = drawn(*lead, rows, d, dtype=dtype), drawn(*lead, columns, d, dtype=dtype, seed=1)
    row = (row / max(1.0, d**0.5 / 2)).astype(row.dtype)
    side = drawn(*lead, columns, e, dtype=dtype, seed=2)
    match name:
        case "attention":
            return {"q": row, "k": column, "v": side}
        case "gaussian_sum":
            return {"x": row, "y": (column / max(1.0, d**0.5)).astype(row.dtype), "b": side}
        case "contrastive":
            return {"x": row, "y": column, "positives": whole(*lead, rows, most=columns - 1)}
        case "linear_cross_entropy":
            return {"h": row, "w": column, "labels": whole(*lead, rows, most=columns - 1)}
        case "head_topk":
            return {"h": row, "w": column}
        case _:
            return {"x": row, "y": column}


SHAPES = {  # leading axes, rows, columns, length of dots, of what is summed
    "one_of_all": ((), 1, 1, 1, 1), "one_row": ((), 1, 700, 17, 3), "one_column": ((), 5, 1, 1, 2),
    "long": ((), 30, 257, 100, 33), "longest": ((), 26, 90, 512, 512), "no_row": ((), 0, 9, 17, 3),
    "heads": ((2, 3), 7, 40, 17, 3),
}
ON_CORES = {"cores": ((), 70, 300, 64, 64)}
"""What tensor cores take, of 16 bits."""


def shaped(dtype: str = "float32", shapes: tuple[str, ...] = tuple(SHAPES)) -> Iterator[Case]:
    """Every entry on every shape."""
    for name, constants in ENTRIES:
        for tag in shapes:
            arrays = arrays_of(name, *{**SHAPES, **ON_CORES}[tag], dtype)
            yield Case(name, f"{tag}-{dtype}", arrays, constants, dtype)


def optional() -> Iterator[Case]:
    """Every option of every entry, rows of which nothing is left among them."""
    q, k, v = drawn(2, 70, 9), drawn(2, 300, 9, seed=1), drawn(2, 300, 4, seed=2)
    qkv = {"q": q, "k": k, "v": v}
    lengths = whole(2, 70, most=300)
    lengths[0, :3] = 0, 1, 300
    bias = np.where(drawn(70, 300) < 1, drawn(70, 300), -np.inf).astype("f4")
    bias[5] = -np.inf
    said: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "causal": ({}, {"causal": True}), "window": ({}, {"window": 20}),
        "last": ({}, {"causal": True, "window": 20}), "softcap": ({}, {"softcap": 2.0}),
        "bias": ({"bias": bias}, {"with_lse": True}),
        "lengths": ({"lengths": lengths}, {"with_lse": True}),
        "positions": ({"positions": lengths - 60}, {"causal": True, "window": 90}),
        "sinks": ({"lengths": lengths, "sinks": 5 * drawn(2, 1)}, {"with_lse": True}),
        "mask": ({"mask": bias[:, ::-1] < 0, "valid": drawn(2, 300) < 1.5, "sinks": drawn(70)}, {}),
        "lse": ({"lengths": lengths, "bias": bias}, {"causal": True, "with_lse": True}),
    }
    for tag, (more, constants) in said.items():
        yield Case("attention", tag, {**qkv, **more}, {"scale": 0.4, **constants})
    x, y = drawn(31, 6), drawn(300, 6, seed=1)
    for metric in ("sqdist", "manhattan", "dot"):
        for n in (1, 12, 70):
            yield Case("nearest", f"{metric}{n}", {"x": x, "y": y}, {"metric": metric, "k": n})
    labels, of_columns = whole(31, most=299), drawn(300)
    yield Case("linear_cross_entropy", "capped",
               {"h": x, "w": y, "labels": np.append(labels[2:], [-1, 300]), "bias": of_columns},
               {"softcap": 3.0})
    yield Case("head_topk", "capped", {"h": x, "w": y, "bias": of_columns},
               {"k": 64, "temperature": 0.7, "softcap": 3.0})
    yield Case("head_topk", "log", {"h": x, "w": y}, {"k": 9, "log": True})
    yield Case("contrastive", "own", {"x": x, "y": y}, {"temperature": 0.1, "normalize": True})
    yield Case("gaussian_sum", "density", {"x": x, "y": y}, {"bandwidth": 1.5})


def laid_out() -> Iterator[Case]:
    """Strides of all kinds, and leading axes that broadcast: grouped queries."""
    for name, constants in ENTRIES:
        arrays = arrays_of(name, (2, 3), 7, 40, 17, 3, "float32")
        apart = {n: np.repeat(np.asfortranarray(a), 2, -1)[..., ::2] for n, a in arrays.items()}
        back = {n: a if a.dtype.kind == "i" else a[..., ::-1, :][..., ::-1, :]
                for n, a in apart.items()}
        yield Case(name, "strided", back, constants)
        columns = {"k", "v", "y", "w", "b"} & {*arrays}
        shared = {n: a[:, :1] if n in columns else a for n, a in arrays.items()}
        yield Case(name, "grouped", shared, constants)
        yield Case(name, "broadcast", {n: np.broadcast_to(a[:1, :1], a.shape) if n in columns else a
                                       for n, a in arrays.items()}, constants)


def hard() -> Iterator[Case]:
    """Values at the ends of what floats hold, and equal ones."""
    for name, constants in ENTRIES:
        sizes = {"huge": 1e17, "tiny": 1e-17, "zero": 0.0}
        for tag, size in sizes.items():
            arrays = arrays_of(name, (), 20, 280, 17, 3, "float32")
            made = {n: a if a.dtype.kind == "i" or n in ("v", "b") else a * np.float32(size)
                    for n, a in arrays.items()}
            yield Case(name, tag, made, constants, exact=not size)
        arrays = {n: np.round(2 * a) for n, a in arrays_of(
            name, (), 20, 280, 3, 3, "float32").items()}
        arrays = {n: a.astype("i8") if n in ("labels", "positives") else a
                  for n, a in arrays.items()}
        yield Case(name, "duplicates", arrays, constants, exact=True)
        if name in ("nearest", "kmeans_assign", "head_topk"):
            continue
        for tag, bad in (("nan", np.nan), ("infinite", np.inf)):
            arrays = arrays_of(name, (), 20, 280, 17, 3, "float32")
            for n, a in arrays.items():
                if n in ("q", "x", "h"):
                    a[3, 5] = bad
                if n in ("v", "b"):
                    a[270, 1] = bad
            yield Case(name, tag, arrays, constants)


def every() -> Iterator[Case]:
    """All cases in float32; 16 bits and 64 on one shape."""
    yield from shaped()
    for dtype in ("float64", "float16", "bfloat16"):
        yield from shaped(dtype, ("one_row", *(ON_CORES if dtype != "float64" else ())))
    yield from optional()
    yield from laid_out()
    yield from hard()
