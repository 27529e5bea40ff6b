"""Infinities, NaN, zeros and empty pieces in the emitted fold, merge and finish of both backends.

Every row of one to three elements over a small alphabet, cut into three pieces in every way, merged
in every order: whatever the tree, the result is the text's, or what DEVIATIONS says.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.algebra_cases import ACCEPTED
from support.cuda_cases import Case
from support.emulated import EMULATED, emulated
from support.merge_trees import GPU, HOST, Driven, drive, trees

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.lang.value import Value
from fusegen.pipeline.pipeline import Pipeline

Array = np.ndarray[Any, Any]
INF, NAN = np.inf, np.nan
LONGER = ("topk_of_softmax", "topk_of_a_cube", "topk_of_silu_above_the_minimum",
          "topk_values_of_relu")
"""Lists of three: rows of these lengths are tried by fg.check, as every accepted text's are."""
BY_ARGUMENT = ("max_of_relu", "argmax_of_scaled")
"""Where x − mean or x / Σ|x| is inf − inf or inf / inf, the text meets NaN at some element; the
merged form orders by x and applies the map to the greatest alone (docs/special_values.md)."""
PIPELINES = {
    n: p for n, p in {**fg.library.PIPELINES, **ACCEPTED}.items()
    if n not in (*LONGER, *BY_ARGUMENT)
}
LISTS = ("topk", "softmax_topk", "moe_gate")
CONSTANTS: dict[str, dict[str, Any]] = {name: {"k": 2} for name in LISTS}
LETTERS = (-INF, -1, 0, 2, INF, NAN)
SCALED = ("norm2", "lp_norm", "scaled_magnitudes", "absmax_quantize")
SMALL = 1e-20  # its square is 0 in float32: only a scale pivot keeps it
FEW = ((-1, 0, 2), (INF, 2, -1), (-INF, 0, 2), (NAN, 1, 1), (0, 0, 0), (2, -INF, -INF))
"""Rows of three that one input takes beside every row of the other."""

NEEDS_COMPILER = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
# On a GPU a list belongs to a team, not to a state: lists have a test of their own. What both
# languages print is the same Kernel IR: CUDA's own spelling is seen in every second text.
ON_GPUS = [n for at, n in enumerate(PIPELINES) if n in fg.library.PIPELINES or at % 2]
BOTH = [pytest.param(name, "cpu", marks=NEEDS_COMPILER) for name in PIPELINES] + [
    pytest.param(name, "cuda", marks=EMULATED) for name in ON_GPUS if name not in LISTS
]


# ---- where the merged form is not the text ----


@fg.pipeline
def columns_of_x(x, *, k):
    return fg.topk(x, k)[1]


@fg.pipeline
def kl_in_the_limit(x, y):
    p, q = fg.library.log_softmax(x), fg.library.log_softmax(y)
    return fg.sum(fg.where(fg.exp(p) == 0, 0, fg.exp(p) * (p - q)))


@fg.pipeline
def focal_in_the_limit(x):
    p = fg.library.softmax(x)
    return fg.sum(fg.where(p == 0, 0, p * p * (x - fg.max(x))))


@dataclass(frozen=True)
class Deviation:
    """What result number `output` is instead of the text's."""

    reason: str
    output: int = 0
    instead: Pipeline | None = None  # this text's result, on every row
    or_nan: bool = False  # or NaN, on rows with an infinity
    nan_too: bool = False  # or NaN, on rows with a NaN
    by_zero: bool = False  # or an infinity for NaN, where an input's row is 0 throughout


_TIES = "where probabilities tie and logits do not, columns are in the order of the logits"
_LIMIT = "an infinite element of weight 0 counts as 0, its limit"
_UNORDERED = "NaN is neither below the maximum nor equal to it: the merged form says NaN"
_COUPLED = "a sum that takes others along when its pivot moves may meet inf − inf"
_FAR = "a power of the distance to a row value of other elements is NaN, not inf, at an infinity"
DEVIATIONS = {
    "squares_about_a_sum": Deviation(_FAR, or_nan=True),
    "squares_about_another_mean": Deviation(_FAR, or_nan=True),
    "variance_with_weights_of_any_sign": Deviation(_FAR, or_nan=True),
    "squares_over_another_scale": Deviation("0 / 0 of an element is not seen", by_zero=True),
    "softmax_topk": Deviation(_TIES, 1, instead=columns_of_x),
    "moe_gate": Deviation(_TIES, 1, instead=columns_of_x),
    "kl_divergence": Deviation(_LIMIT, instead=kl_in_the_limit),
    "focal": Deviation(_LIMIT, instead=focal_in_the_limit),
    "count_below_the_maximum": Deviation(_UNORDERED, nan_too=True),
    "squares_below_maximum": Deviation(_COUPLED, or_nan=True),
    "layer_norm_backward": Deviation(_COUPLED, 1, or_nan=True),
}


# ---- rows ----


def rows_over(letters: tuple[float, ...], n: int) -> Array:
    return np.array(list(itertools.product(letters, repeat=n)), np.float32)


def inputs_of(name: str, n: int) -> dict[str, Array]:
    """Every row of n letters; for two inputs every pair, or for n = 3 every row beside FEW."""
    signature = PIPELINES[name].signature
    names = [a for a in signature.arrays if a not in signature.optional]
    x = rows_over((*LETTERS, SMALL) if name in SCALED else LETTERS, n)
    if len(names) == 1:
        return {names[0]: x}
    if name == "cross_entropy":
        labels = np.arange(-1, n + 1)  # the first and the last are outside the row
        return {"x": np.repeat(x, len(labels), axis=0), "labels": np.tile(labels, len(x))}
    beside = x if n < 3 else np.array(FEW, np.float32)
    a, b = np.repeat(x, len(beside), axis=0), np.tile(beside, (len(x), 1))
    return dict(zip(names, (np.concatenate([a, b]), np.concatenate([b, a])), strict=True))


def in_vectors(row: Array, lanes: int) -> Array:
    """A vector of columns for each letter, the next letter in its middle lane."""
    if row.ndim == 1:
        return row
    wide = np.repeat(row[:, :, None], lanes, axis=2)
    wide[:, :, lanes // 2] = np.roll(row, -1, axis=1)
    return wide.reshape(len(row), -1)


# ---- what is due ----


def text_of(pipeline: Pipeline, inputs: Mapping[str, Array], name: str) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        found = pipeline.reference(*inputs.values(), **CONSTANTS.get(name, {}))
    return found if isinstance(found, tuple) else (found,)


def due(name: str, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
    """The text's results, or the deviation's."""
    results = list(text_of(PIPELINES[name], inputs, name))
    deviation = DEVIATIONS.get(name)
    if deviation is not None and deviation.instead is not None:
        (results[deviation.output],) = text_of(deviation.instead, inputs, name)
    return tuple(results)


def assert_due(name: str, inputs: Mapping[str, Array], found: tuple[Array, ...]) -> None:
    """`found`: (n_rows, n_trees, …) each. Infinities and NaN exactly, numbers to 1e-6."""
    infinite = np.any([np.isinf(a).any(axis=1) for a in inputs.values() if a.ndim == 2], axis=0)
    for number, (got, want) in enumerate(zip(found, due(name, inputs), strict=True)):
        want = want[:, None]
        if got.dtype.kind != "f":
            same = got == want
        else:
            largest = np.abs(want[np.isfinite(want)]).max(initial=0)
            floor = 0 if name in SCALED else 1e-6 * largest
            same = np.isclose(got, want, rtol=1e-6, atol=floor, equal_nan=True)
        deviation = DEVIATIONS.get(name)
        if deviation is not None and deviation.or_nan and deviation.output == number:
            same |= np.isnan(got) & infinite.reshape(-1, *[1] * (got.ndim - 1))
        if deviation is not None and deviation.nan_too and deviation.output == number:
            missing = np.any([np.isnan(a).any(axis=1) for a in inputs.values()], axis=0)
            same |= np.isnan(got) & missing.reshape(-1, *[1] * (got.ndim - 1))
        if deviation is not None and deviation.by_zero and deviation.output == number:
            nothing = np.any([(a == 0).all(axis=1) for a in inputs.values()], axis=0)
            same |= np.isinf(got) & np.isnan(want) & nothing[:, None]
        wrong = np.argwhere(~same)
        if len(wrong):
            at = tuple(wrong[0])
            shown = {n: a[at[0]].tolist() for n, a in inputs.items()}
            pytest.fail(f"{name}, result {number}, {shown}, tree {at[1]}: got {got[at[:2]]}, "
                        f"due {want[at[0], 0]}; {len(wrong)} wrong")


# ---- the checks ----


@pytest.fixture(scope="module")
def pipelines_driven() -> dict[tuple[str, str], Driven]:
    return {}


def _driven(known: dict[tuple[str, str], Driven], name: str, backend: str) -> Driven:
    if (name, backend) not in known:
        target = HOST if backend == "cpu" else GPU
        known[name, backend] = drive(
            PIPELINES[name], inputs_of(name, 2), CONSTANTS.get(name, {}), target
        )
    return known[name, backend]


def _lengths(name: str) -> range:
    return range(CONSTANTS.get(name, {}).get("k", 1), 4)


@pytest.mark.long
@pytest.mark.parametrize(("name", "backend"), BOTH)
def test_any_tree_of_any_small_row_gives_the_text(name, backend, pipelines_driven):
    run = _driven(pipelines_driven, name, backend).run
    for n in _lengths(name):
        inputs = inputs_of(name, n)
        assert_due(name, inputs, run(inputs, trees(n)))


@NEEDS_COMPILER
@pytest.mark.parametrize("name", PIPELINES)
def test_vectors_give_the_text_too(name, pipelines_driven):
    """Chunks of one vector with mixed lanes: pivots move inside a piece and between pieces."""
    lanes = HOST.vector_bytes // 4
    run = _driven(pipelines_driven, name, "cpu").run
    for n in (2, 3):
        inputs = {a: in_vectors(v, lanes) for a, v in inputs_of(name, n).items()}
        assert_due(name, inputs, run(inputs, trees(n * lanes, lanes)))


@emulated
@pytest.mark.parametrize("name", LISTS)
def test_lists_of_a_team_give_the_text(name):
    for n in _lengths(name):
        inputs = inputs_of(name, n)
        case = Case(PIPELINES[name], inputs, len(inputs["x"]), n, CONSTANTS[name])
        assert_due(name, inputs, tuple(r[:, None] for r in case.emulate()))


@pytest.mark.parametrize("name", [n for n, d in DEVIATIONS.items() if d.instead is not None])
def test_deviations_are_needed_and_confined(name):
    """The text differs from what stands for it on some rows, and on none that is all finite."""
    inputs = inputs_of(name, 3)
    at = DEVIATIONS[name].output
    text, instead = text_of(PIPELINES[name], inputs, name)[at], due(name, inputs)[at]
    differs = ~np.isclose(text, instead, equal_nan=True).reshape(len(text), -1).all(axis=1)
    special = np.any([~np.isfinite(a).all(axis=1) for a in inputs.values()], axis=0)
    assert differs.any()
    assert special[differs].all()


@pytest.mark.long
def test_nan_fails_a_condition_and_its_contrary_is_no_condition() -> None:
    """where(x > 0, a, b) is b for NaN: [not x > 0] is not [x ≤ 0], which NaN fails as well."""

    def chosen(x: Value, y: Value, c: fg.PerRow) -> tuple[Value, ...]:
        m = fg.max(y)
        return (fg.sum(fg.where(x > 0, x, -1.0) * m), fg.sum(fg.where(x > c, x, -1.0) * m),
                fg.sum(fg.where(x > 0, fg.exp(y - m), 2.0)),
                fg.sum(fg.where(~(x > 0), fg.exp(y - m), 2.0)))

    pipeline = fg.pipeline(chosen)
    assert pipeline.plan(form="online").sweeps == 1
    nan = float("nan")
    x = np.array([[1, nan, 2], [1, 2, 3]], np.float32)
    y, c = np.array([[1, 2, 3]] * 2, np.float32), np.array([0, nan], np.float32)
    for form in ("online", "safe", "unfused"):
        got = pipeline(x, y, c, form=form)
        e = np.exp(-1.0)
        wanted = ([6, 18], [6, -9], [e**2 + 2 + 1, e**2 + e + 1], [2 + e + 2, 6])
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
