"""What differs from the definition, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from support import vector_library as known

from .draws import Attack
from .oracles import Want
from .vectors import VectorText, attention_gradients, case_of


def differences(attack: Attack, found: Sequence[np.ndarray]) -> Iterator[str]:
    if isinstance(attack.text, VectorText):
        yield from _of_vectors(attack, found)
        return
    arrays = attack.given
    if attack.axis == 0:
        arrays = {n: a.T if a.ndim == 2 else a for n, a in arrays.items()}
        found = [f.T if f.ndim == 2 else f for f in found]
    wanted = attack.text.wanted(arrays, attack.constants)
    wide = any(a.dtype == np.float64 for a in arrays.values())
    unit = np.finfo(np.float64 if wide else np.float32)
    n_cols = next(a.shape[-1] for a in arrays.values() if a.ndim == 2)
    if len(found) != len(wanted):
        yield f"{len(found)} results, {len(wanted)} are due"
        return
    for number, (f, w) in enumerate(zip(found, wanted, strict=True)):
        wrong = _wrong(f, w, unit, n_cols)
        if wrong is not None and wrong.any():
            yield f"result {number}: {_where(f, w, wrong, attack.kinds)}"
        elif wrong is None:
            yield f"result {number}: shape {f.shape}, not {np.shape(w.value)}"


def _wrong(found: np.ndarray, want: Want, unit: Any, n_cols: int) -> Any:
    """Where what is found is none of what rounding makes of what is due."""
    value = np.asarray(want.value)
    if found.shape != value.shape:
        return None
    if want.steps:
        return np.abs(found.astype("f8") - value) > 1
    if found.dtype.kind in "iu":
        return found != value
    own, got = ml_dtypes.finfo(found.dtype), found.astype(np.float64)
    with np.errstate(all="ignore"):
        if want.exact:
            return ~((got == value.astype(found.dtype).astype("f8"))
                     | (np.isnan(got) & np.isnan(value)))
        bound = float(unit.eps) * (16 + n_cols / 8) * np.asarray(want.size)
        bound = bound + 0.51 * float(own.eps) * np.abs(value)
        bound += 2 * float(unit.tiny) + float(own.smallest_subnormal)
        near = np.abs(got - value) <= bound
        over = (np.abs(value) + bound >= float(own.max)) & (np.abs(got) >= float(own.max) / 2)
        over &= np.sign(got) == np.sign(value)
        return ~(near | over | (got == value) | (np.isnan(got) & np.isnan(value)))


def _where(found: np.ndarray, want: Want, wrong: Any, kinds: tuple[str, ...]) -> str:
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    rows = sorted({int(i) for i in np.argwhere(wrong)[:, 0]}) if wrong.ndim else []
    named = ", ".join(sorted({kinds[r] for r in rows if r < len(kinds)}))
    return (f"{int(wrong.sum())} of {wrong.size} differ, in rows {rows[:12]} ({named}); first at "
            f"{at}: found {found[at]!r}, due {np.asarray(want.value)[at]!r}"
            + ("" if want.size is None else f" (size {np.asarray(want.size)[at]:.3g})"))


def _of_vectors(attack: Attack, found: Sequence[np.ndarray]) -> Iterator[str]:
    text = attack.text
    assert isinstance(text, VectorText)
    if text.gradient:
        wide = {n: a if a.dtype.kind == "i" else a.astype("f8") for n, a in attack.given.items()}
        with np.errstate(all="ignore"):
            wanted = attention_gradients(**wide, **attack.constants)
        for name, f, (w, size) in zip("qkv", found, wanted, strict=True):
            yield from _gradient(name, f, w, size)
        return
    try:
        case_of(text, attack.given, attack.constants).check(
            found[0] if len(found) == 1 else tuple(found))
    except AssertionError as error:
        yield f"{str(error)[:900]}"


def _gradient(name: str, found: np.ndarray, want: Any, size: Any) -> Iterator[str]:
    """Beside the greatest sum of terms; rows that attend to nothing are no numbers."""
    if found.shape != want.shape:
        yield f"d{name}: shape {found.shape}, not {want.shape}"
        return
    finite = np.isfinite(want) & np.isfinite(size)
    most = np.max(size, initial=1e-6, where=finite)
    got = found.astype("f8")
    wrong = finite & ~(np.abs(got - want) <= known.TOLERANCE[found.dtype.name] * most)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        yield (f"d{name}: {int(wrong.sum())} of {wrong.size} differ, first at {at}: found "
               f"{got[at]}, due {want[at]} of {most:.3g} at most")
