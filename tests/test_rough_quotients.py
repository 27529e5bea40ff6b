"""Quotients of elements: by an inverse wherever they are made, and with as many digits as results
of 16 bits need where nothing tells numbers apart by their last one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.algebra_cases import ACCEPTED
from support.cuda_cases import Case, accepted_case
from support.emulated import EMULATED

import fusegen as fg
from fusegen.backend.cuda.emit.source import cuda_source
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.ir.dtypes import dtype_of

pytestmark = EMULATED


@fg.pipeline
def softmax_at(x, t: fg.PerRow):  # type: ignore[no-untyped-def]
    y = x / t
    e = fg.exp(y - fg.max(y))
    return e / fg.sum(e)


@fg.pipeline
def norm_of(x, t: fg.PerRow):  # type: ignore[no-untyped-def]
    y = x / t
    return y * fg.rsqrt(fg.mean(y * y) + 1e-6)


@fg.pipeline
def equal_ones(x, t: fg.PerRow):  # type: ignore[no-untyped-def]
    y = x / t
    return fg.where(y == fg.max(y), 1.0, 0.0)


@fg.pipeline
def whole_ones(x, t: fg.PerRow):  # type: ignore[no-untyped-def]
    y = fg.floor(x / t)
    return y - fg.max(y)


@fg.pipeline
def leader(x, t: fg.PerRow):  # type: ignore[no-untyped-def]
    y = x / t
    e = fg.exp(y - fg.max(y))
    return e, fg.argmax(y)


@fg.pipeline
def best_ones(x, t: fg.PerRow):  # type: ignore[no-untyped-def]
    return fg.topk(x / t, 4)


@fg.pipeline
def in_full(x, t: fg.PerRow):  # type: ignore[no-untyped-def]
    """Of 16 bits, but for a result."""
    y = x / t
    return fg.logsumexp(y), fg.max(y)


def case_of(text: Any, n_cols: int, dtype: str) -> Case:
    rng = np.random.default_rng(n_cols)
    x = np.round(8 * rng.standard_normal((4, n_cols))).astype(dtype_of(dtype).numpy)
    return Case(text, {"x": x, "t": np.array([0.7, -1.3, 3.0, 1e-3], np.float32)}, 4, n_cols)


def kernels(case: Case) -> list[str]:
    """The text of some schedules, without comments."""
    work = case.work(n_rows=20_000)
    some = candidates(work.program, work.problem, work.target)
    return [re.sub(r"//.*", "", cuda_source(work.program, c.schedule).text()
                   .split("below: the kernel")[1]) for c in some[::5]]


@fg.pipeline
def with_its_sum(x, t: fg.PerRow):  # type: ignore[no-untyped-def]
    y = x / t
    e = fg.exp(y - fg.max(y))
    return e / fg.sum(e), fg.sum(e)


@fg.pipeline
def greatest_and_shares(x, t: fg.PerRow):  # type: ignore[no-untyped-def]
    y = x / t
    m = fg.max(y)
    e = fg.exp(y - m)
    return e / fg.sum(e), fg.where(m >= 1, 1.0, 0.0)


@fg.pipeline
def beside_distances(x, t: fg.PerRow):  # type: ignore[no-untyped-def]
    y = x / t
    d = y - fg.max(y)
    e = fg.exp(d)
    return e / fg.sum(e), fg.sum(e * d)


def rows_met(read: Any) -> fg.Pipeline:
    """What asks of the greatest quotient, or of one, for its last digit."""

    def text(x, t: fg.PerRow):  # type: ignore[no-untyped-def]
        y = x / t
        e = fg.exp(y - fg.max(y))
        return fg.sum(e), read(x, y, t)

    return fg.pipeline(text)


READ = {
    "floor of the greatest": lambda x, y, t: fg.floor(fg.max(y)),
    "at least 1": lambda x, y, t: fg.where(fg.max(y) >= 1, 1.0, 0.0),
    "equal": lambda x, y, t: fg.where(fg.max(y) == fg.max(x) / t, 1.0, 0.0),
    "whole": lambda x, y, t: fg.cast(fg.max(y), "int32"),
    "root of a difference": lambda x, y, t: fg.sqrt(fg.max(y) - 1),
    "floor of a sum": lambda x, y, t: fg.floor(fg.sum(y)),
    "pole": lambda x, y, t: fg.sum(1 / (y - 1)),
    "steep": lambda x, y, t: fg.max(fg.exp((y - 1) * 1e8)),
}


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", READ)
def test_last_digits_that_show_are_there(name: str, dtype: str) -> None:
    """Rows whose greatest element is their divisor, which an inverse alone does not divide to 1."""
    kind = dtype_of(dtype).numpy
    t = np.arange(41, 105, dtype=np.float32)
    x = np.zeros((len(t), 40), np.float32)
    x[:, 0], x[:, 7] = t, t / 4
    case = Case(rows_met(READ[name]), {"x": x.astype(kind), "t": t}, len(t), 40)
    rounded = case.inputs["x"].astype(np.float32)
    t_exact, keep = t.astype(np.float64), rounded[:, 0] == t
    y = (rounded.astype(np.float64)) / t_exact[:, None]
    with np.errstate(divide="ignore"):
        expected = {
            "floor of the greatest": np.ones(len(t)), "at least 1": np.ones(len(t)),
            "equal": np.ones(len(t)), "whole": np.ones(len(t)),
            "root of a difference": np.zeros(len(t)), "floor of a sum": np.floor(y.sum(1)),
            "pole": (1 / (y - 1)).sum(1), "steep": np.ones(len(t)),
        }[name]
    found = case.emulate()[1].astype(np.float64)
    np.testing.assert_allclose(found[keep], expected[keep], rtol=1e-2)


@pytest.mark.parametrize("text", [softmax_at, with_its_sum], ids=lambda p: str(p.name))
def test_logits_are_rough(text: Any) -> None:
    for kernel in kernels(case_of(text, 1000, "bfloat16")):
        assert "t_divisor.nearly(x)" in kernel
        assert "t_divisor.under(x)" not in kernel
    for kernel in kernels(case_of(text, 1000, "float32")):
        assert "t_divisor.nearly(x)" not in kernel


@pytest.mark.parametrize("text", [equal_ones, whole_ones, leader, best_ones, norm_of,
                                  greatest_and_shares, beside_distances],
                         ids=lambda p: str(p.name))
def test_what_tells_numbers_apart_has_all_digits(text: Any) -> None:
    for kernel in kernels(case_of(text, 1000, "bfloat16")):
        assert "t_divisor.nearly(x)" not in kernel


@pytest.mark.parametrize("n_cols", [37, 1000, 5000])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "text", [softmax_at, norm_of, equal_ones, whole_ones, leader, best_ones, in_full],
    ids=lambda p: str(p.name))
def test_results_are_those_of_doubles(text: Any, dtype: str, n_cols: int) -> None:
    """Of a negative temperature, too."""
    case = case_of(text, n_cols, dtype)
    x, t = (case.inputs[n].astype(np.float64) for n in "xt")
    y = x / t[:, None]
    m = y.max(1, keepdims=True)
    e = np.exp(y - m)
    if text is best_ones:
        at = np.argsort(-y, 1, kind="stable")[:, :4]
        wanted: tuple[np.ndarray, ...] = (np.take_along_axis(y, at, 1), at)
    elif text is whole_ones:  # quotients that may be whole are those of floats
        whole = np.floor(case.inputs["x"].astype(np.float32) / case.inputs["t"][:, None])
        wanted = (whole.astype(np.float64) - whole.max(1, keepdims=True),)
    else:
        wanted = {
            "softmax_at": (e / e.sum(1, keepdims=True),),
            "norm_of": (y / np.sqrt((y * y).mean(1, keepdims=True) + 1e-6),),
            "equal_ones": ((y == m).astype(np.float64),), "leader": (e, y.argmax(1)),
            "in_full": ((m + np.log(e.sum(1, keepdims=True)))[:, 0], m[:, 0]),
        }[text.name]
    near = 2e-5 if dtype == "float32" else 1e-2
    for one, other in zip(case.emulate(), wanted, strict=True):
        np.testing.assert_allclose(one.astype(np.float64), other, rtol=near, atol=near)


@pytest.mark.parametrize("name", ACCEPTED)
def test_no_fold_divides_elements(name: str) -> None:
    """By row values: a division takes longer than all else that is done with an element."""
    work = accepted_case(name, 1, 1000).work(n_rows=20_000)
    source = re.sub(r"//.*", "", cuda_source(work.program, work.schedule).text())
    for fold in re.findall(r"sweep\d+_fold\(.*?\n}\n", source, re.S):
        items = "".join(re.findall(r"for_items<.*?\n    }\);\n", fold, re.S))
        assert not re.search(r" / [a-z_]\w*\b(?!\()", items), fold
