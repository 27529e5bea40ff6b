"""An attack: all that a seed and a number decide."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import vectors
from .layouts import Laid, drawn_plan, lay
from .texts import TEXTS, Text
from .values import DTYPES, FINITE, SPECIAL, rows_of

FAMILIES = ("rows", "lists", "gradients", "vectors")
_EDGES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129, 160,
          200, 255, 256, 257, 400, 511, 512, 513, 640, 1000, 1009, 1024, 1025)
_LONG = (1500, 2047, 2048, 2049, 3001, 4096, 4099, 6000, 8191, 12_000, 16_400)
_FEW = (1, 2, 3, 5, 8, 13, 33, 70)


@dataclass(frozen=True)
class Forced:
    """What is chosen for a kernel: of how many rows the chooser thinks (None: as many as there
    are), for which GPU, of how many multiprocessors, and which of the candidates, by kind and among
    its kind (None: its own)."""

    rows: int | None = None
    arch: str = "sm_90"
    multiprocessors: int = 132
    kind: float | None = None
    one: float = 0.0


@dataclass(frozen=True, eq=False)
class Attack:
    seed: int
    number: int
    text: Text | vectors.VectorText
    arrays: Mapping[str, Laid]
    constants: Mapping[str, Any]
    axis: int
    out: Any  # a generator of layouts of the results; None: results are the call's own
    forced: Forced
    words: str
    kinds: tuple[str, ...] = ()

    @property
    def given(self) -> dict[str, np.ndarray]:
        return {n: a.view() for n, a in self.arrays.items()}


def attack(seed: int, number: int, family: str, most: int) -> Attack:
    """The attack of that number; `most` elements at most, about."""
    rng = np.random.default_rng((seed, number, zlib.crc32(family.encode())))
    if family == "vectors":
        return _over_vectors(rng, seed, number, most)
    text = _one_of(rng, [t for t in TEXTS if t.family == family])
    return _over_rows(rng, seed, number, text, most)


def _one_of(rng: Any, of: Any) -> Any:
    return of[int(rng.integers(len(of)))]


def _dtype(rng: Any) -> str:
    return str(rng.choice([*DTYPES], p=[0.2, 0.25, 0.45, 0.1]))


def _shape(rng: Any, most: int) -> tuple[int, int]:
    n_cols = int(_one_of(rng, _LONG) if rng.random() < 0.2 else
                 _one_of(rng, _EDGES) if rng.random() < 0.7 else rng.integers(1, 513))
    n_cols = min(n_cols, most)
    n_rows = 0 if rng.random() < 0.02 else int(_one_of(rng, _FEW))
    return max(0 if n_rows == 0 else 1, min(n_rows, most // n_cols)), n_cols


def _over_rows(rng: Any, seed: int, number: int, text: Text, most: int) -> Attack:
    n_rows, n_cols = _shape(rng, most)
    dtype = DTYPES[_dtype(rng)]
    mixed = rng.random() < 0.1
    kinds = _kinds(rng, text, n_rows)
    arrays, plain = {}, 0.3 if rng.random() < 0.6 else 1.0
    axis = 0 if rng.random() < 0.1 else -1
    for name, takes in text.takes.items():
        kind = DTYPES[_dtype(rng)] if mixed else dtype
        values = _values(rng, takes, kinds, (n_rows, n_cols), kind, text.degree)
        if values.ndim == 2 and axis == 0:
            values = values.T
        plan = drawn_plan(rng, values.shape, written=False, plain=plain)
        arrays[name] = laid = lay(plan, values.shape, values.dtype)
        if values.size:
            for at in np.ndindex(values.shape[0]) if 0 in laid.strides else ():
                values[at] = values[0]  # as the memory they share says
            laid.view()[...] = values
    constants = dict(text.constants)
    if text.lists:
        constants["k"] = _k(rng, n_cols)
    forced = _forced(rng)
    out = rng if rng.random() < 0.4 else None
    types = ", ".join(a.dtype.name for a in arrays.values())
    words = (f"{text.name} of {n_rows} × {n_cols}, {types}, axis {axis}"
             f"{''.join(f', {n} {v}' for n, v in constants.items())}"
             f", strides {[a.strides for a in arrays.values()]} from "
             f"{[a.first for a in arrays.values()]}{', out=' if out else ''}; {forced}")
    return Attack(seed, number, text, arrays, constants, axis, out, forced, words, kinds)


def _kinds(rng: Any, text: Text, n_rows: int) -> tuple[str, ...]:
    known = [*FINITE, "huge", *(["tiny"] if text.tiny else ()), *(SPECIAL if text.special else ())]
    if rng.random() < 0.3:
        known = [*FINITE]
    return tuple(str(k) for k in rng.choice(known, n_rows))


def _k(rng: Any, n_cols: int) -> int:
    chosen = (1, 2, 3, 5, 8, 16, 31, 32, 33, 64, 100, 128, 256, 300, n_cols - 1, n_cols,
              n_cols // 2)
    beyond = rng.random() < 0.01  # which is refused
    return max(1, min(int(_one_of(rng, chosen)), 1024, n_cols)) + beyond * n_cols


def _values(
    rng: Any, takes: str, kinds: tuple[str, ...], shape: tuple[int, int], dtype: Any, degree: int
) -> np.ndarray:
    n_rows, n_cols = shape
    match takes:
        case "element":
            return rows_of(rng, kinds, n_cols, dtype, degree)
        case "plain":
            return rows_of(rng, ["tame"] * n_rows, n_cols, dtype, 1)
        case "column":
            return rows_of(rng, ["tame"], n_cols, dtype, 1)[0]
        case "row":
            return rng.uniform(0.2, 2, n_rows).astype(dtype)
        case "label":
            return np.asarray(rng.integers(0, n_cols + (rng.random() < 0.2), n_rows))
        case "length":
            return np.asarray(rng.integers(0, n_cols + 1, n_rows))
        case _:
            raise AssertionError(takes)


def _forced(rng: Any) -> Forced:
    rows = _one_of(rng, (None, None, 1, 3, 64, 100_000, 100_000, 100_000))
    arch = "sm_80" if rng.random() < 0.12 else "sm_90"
    size = int(_one_of(rng, (132, 132, 4, 8)))
    if rng.random() < 0.4:
        return Forced(rows, arch, size)
    return Forced(rows, arch, size, float(rng.random()), float(rng.random()))


def _over_vectors(rng: Any, seed: int, number: int, most: int) -> Attack:
    text = _one_of(rng, vectors.TEXTS)
    dtype = DTYPES[str(rng.choice([*DTYPES], p=[0.25, 0.4, 0.3, 0.05]))]
    values, constants = vectors.drawn(rng, text, dtype, most)
    arrays = {}
    for name, array in values.items():
        plan = drawn_plan(rng, array.shape, written=False, plain=0.7)
        arrays[name] = laid = lay(plan, array.shape, array.dtype)
        if 0 in laid.strides and array.size:
            array[...] = array[tuple(slice(0, 1) if s == 0 else slice(None)
                                     for s in laid.strides)]
        laid.view()[...] = array
    forced = _forced(rng)
    shapes = ", ".join(f"{n} {a.shape}" for n, a in arrays.items())
    words = (f"{text.name}: {shapes}, {dtype.name}, {constants}, strides "
             f"{[a.strides for a in arrays.values()]} from {[a.first for a in arrays.values()]}; "
             f"{forced}")
    return Attack(seed, number, text, arrays, constants, -1, None, forced, words)
