"""The emitted CUDA itself, executed on the CPU with every access and barrier checked."""

from __future__ import annotations

import numpy as np
import pytest
from support.algebra_cases import ACCEPTED
from support.cuda_cases import (
    LIBRARY,
    Case,
    accepted_case,
    assert_close,
    assert_close_sums,
    library_case,
    strided,
)
from support.emulated import EMULATED
from support.pairs import pairwise

import fusegen as fg

pytestmark = EMULATED

FORMS = ("online", "safe", "unfused")


@pytest.mark.parametrize(("name", "form", "shape"), pairwise(
    LIBRARY, FORMS, [(5, 70, 1), (3, 2500, 0)]))
def test_library_in_every_form(name: str, form: str, shape: tuple[int, int, int]) -> None:
    """Warp rows off alignment, and block rows with a ragged last tile."""
    n_rows, n_cols, shift = shape
    case = library_case(name, n_rows, n_cols)
    assert_close(case.emulate(form=form, shift=shift), case.reference(), 3e-6)


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_the_algebra_accepts(name: str) -> None:
    case = accepted_case(name, 3, 1501)
    assert_close_sums(case.emulate(), case.reference(), 4e-5)


@pytest.mark.parametrize(("n_cols", "name", "shift"), pairwise(
    [1, 2, 3, 5, 31, 33, 127, 129, 1023, 1025, 4097],
    ["softmax_topk", "var_mean", "softmax", "argmax"], [0, 1, 3]))
def test_any_length_and_alignment(name: str, n_cols: int, shift: int) -> None:
    constants = {"k": min(3, n_cols)} if name == "softmax_topk" else {}
    case = library_case(name, 4, n_cols, **constants)
    assert_close(case.emulate(shift=shift), case.reference(), 3e-6)


def test_columns_off_alignment_under_aligned_rows() -> None:
    """What all rows share may start anywhere in the caller's memory."""
    case = library_case("layer_norm", 3, 256)
    for name in ("weight", "bias"):
        case.inputs[name] = strided(case.inputs[name], 1)
    assert_close(case.emulate(), case.reference(), 3e-6)


@pytest.mark.parametrize("name", LIBRARY)
def test_rows_split_over_blocks(name: str) -> None:
    case = library_case(name, 2, 70_001)
    got = case.emulate(n_rows=2)
    assert_close(got, case.reference(), 3e-6)
    assert case.work(n_rows=2).schedule.blocks > 1


@pytest.mark.parametrize("name", ["logsumexp", "var_mean", "softmax_topk", "norm2", "entropy"])
def test_one_element_at_a_time(name: str) -> None:
    """Algorithm 3: chunks of one element, merged one by one."""
    case = library_case(name, 3, 300)
    assert_close(case.emulate(chunk=1), case.reference(), 3e-6)
    assert "one element at a time" in case.work(chunk=1).schedule.algorithm


@pytest.mark.parametrize(("name", "dtype"), [
    (name, dtype) for at, name in enumerate(LIBRARY)
    for dtype in (("float16", "bfloat16")[at % 2], "float64")])
def test_element_types(name: str, dtype: str) -> None:
    """Of 16 bits and of 64; the two types of 16 bits, which load alike, in turn."""
    case = library_case(name, 3, 333, dtype)
    step = {"float16": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-12}[dtype]
    got, want = case.emulate(shift=1), case.reference()
    if name == "absmax_quantize" and dtype != "float64":
        got, want = got[1:], want[1:]  # a half-step at a rounding boundary is a whole integer
    assert_close(got, want, step)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers(dtype: str) -> None:
    @fg.pipeline
    def numbers(x, *, k=4):  # type: ignore[no-untyped-def]
        values, columns = fg.topk(x, k)
        return fg.max(x), fg.min(x), fg.sum(x), fg.argmax(x), fg.argmin(x), values, columns

    rng = np.random.default_rng(1)
    low, high = (0, 200) if dtype == "uint8" else (-100, 100)
    case = Case(numbers, {"x": rng.integers(low, high, (3, 777)).astype(dtype)}, 3, 777, {"k": 4})
    assert_close(case.emulate(), case.reference(), 0)


@pytest.mark.parametrize("k", [1, 2, 31, 33, 64, 100, 129, 300, 700, 1500])
def test_any_k(k: int) -> None:
    case = library_case("topk", 3, 1500, k=k)
    assert_close(case.emulate(), case.reference(), 0)


def test_lists_that_exceed_shared_memory() -> None:
    case = library_case("topk", 4, 6000, k=2500)
    assert any(n.scratch for n in _launches(case))
    assert_close(case.emulate(), case.reference(), 0)


def _launches(case: Case) -> tuple:  # type: ignore[type-arg]
    from fusegen.backend.cuda.schedule.launch import launches

    work = case.work(n_rows=1000)
    return launches(work.program, work.schedule)


HARD_ROWS = {
    "ascending": lambda n: np.arange(n),
    "descending": lambda n: -np.arange(n),
    "equal": lambda n: np.full(n, 1.5),
    "few values": lambda n: np.arange(n) % 7,
    "outlier": lambda n: np.where(np.arange(n) == n // 2, 1e30, 1.5),
    "half -inf": lambda n: np.where(np.arange(n) < n // 2, -np.inf, np.cos(np.arange(n))),
    "long -inf prefix": lambda n: np.where(np.arange(n) < n - 3, -np.inf, 1.0),
}


@pytest.mark.parametrize("row", HARD_ROWS)
@pytest.mark.parametrize("name", ["softmax_topk", "entropy", "logsumexp", "log_softmax"])
def test_hard_rows(name: str, row: str) -> None:
    """Rows on which a running threshold works worst: lists overflow and recover; masked rows."""
    n = 5000
    x = np.stack([HARD_ROWS[row](n), HARD_ROWS[row](n)[::-1]]).astype(np.float32)
    constants = {"k": 5} if name == "softmax_topk" else {}
    case = Case(getattr(fg.library, name), {"x": x}, 2, n, constants)
    with np.errstate(all="ignore"):
        want = case.reference()
    for seed in (0, 3):
        got = case.emulate(seed=seed)
        if name == "softmax_topk":
            # Probabilities that underflow tie in the text, not in x: compare the values alone.
            got, want = got[:1], want[:1]
        assert_close(got, want, 3e-6)


SPECIAL = {
    "all -inf": [-np.inf] * 40,
    "one +inf": [0.5, np.inf, 1.0] * 13,
    "one NaN": [0.5] * 20 + [np.nan] + [2.0] * 20,
    "zeros": [0.0] * 40,
    "all +inf": [np.inf] * 40,
}


@pytest.mark.parametrize("row", SPECIAL)
@pytest.mark.parametrize(
    "name",
    ["softmax", "logsumexp", "softmax_topk", "var_mean", "norm2", "argmax", "topk", "entropy"],
)
def test_special_values_follow_the_text(name: str, row: str) -> None:
    x = np.array([SPECIAL[row]], np.float32)
    constants = {"k": 3} if "topk" in name else {}
    case = Case(getattr(fg.library, name), {"x": x}, 1, x.shape[1], constants)
    with np.errstate(all="ignore"):
        want = case.reference()
    got = case.emulate()
    if name == "softmax_topk":
        got, want = got[:1], want[:1]
    assert_close(got, want, 3e-6)


def test_results_do_not_depend_on_scheduling() -> None:
    """Bitwise the same whatever order threads and blocks run in."""
    case = library_case("softmax_topk", 3, 5000)
    first = case.emulate(seed=0)
    for seed in range(1, 5):
        for a, b in zip(first, case.emulate(seed=seed), strict=True):
            np.testing.assert_array_equal(a, b)



def test_lanes_without_a_row_compute_nothing_of_it() -> None:
    """Five rows of a warp's eight: the widest range of no integers does not fit their type."""

    @fg.pipeline
    def spans(x):  # type: ignore[no-untyped-def]
        return fg.max(x) - fg.min(x), fg.argmax(x) - fg.min(x)

    x = np.random.default_rng(3).integers(-100, 100, (5, 16))
    case = Case(spans, {"x": x}, 5, 16)
    work = case.work(n_rows=100_000)
    assert work.schedule.partial_warps
    assert_close(case.emulate(), case.reference(), 0)
