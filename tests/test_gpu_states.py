"""States on a real GPU: folded, merged and finished there, and beside those of hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support import state_cases as cases

import fusegen as fg

pytestmark = pytest.mark.gpu

TEXTS = {**cases.TEXTS, "ends": cases.ends}
SHAPES = [(1, 1), (37, 63), (300, 4099), (2, 300_000)]


def on_gpu(array: np.ndarray) -> Any:
    import cupy

    return cupy.asarray(np.ascontiguousarray(array))


def moved(states: fg.States, place: Any) -> fg.States:
    """The same bytes elsewhere."""
    return replace(states, array=place(cases.host(states.array)))


def rows(shape: tuple[int, int], seed: int = 0, dtype: Any = "f4") -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(1, 3, shape).astype(dtype)


@pytest.mark.parametrize("name", TEXTS)
def test_any_split_in_any_order(name: str) -> None:
    p, rng = fg.pipeline(TEXTS[name]), np.random.default_rng(7)
    for shape in SHAPES:
        constants = {"k": 1} if shape[1] == 1 and "k" in p.signature.constants else {}
        given = cases.arguments(name, rows(shape))
        if name == "tempered" and shape[1] < 2:
            continue  # its list has two entries
        want = p.reference(*given, **constants)
        for _ in range(2):
            parts = cases.pieces(p, given, cases.cuts_of(shape[1], rng), on_gpu, **constants)
            cases.near(p.finish(fg.merge(p, *parts)), want, 1e-5)
            if name in cases.TEXTS:
                cases.near(p.finish(cases.merged_anyhow(p, parts, rng)), want, 1e-5)


@pytest.mark.parametrize("name", TEXTS)
def test_hosts_and_gpus_make_the_same_states(name: str) -> None:
    import cupy

    p = fg.pipeline(TEXTS[name])
    for shape in ((37, 300), (3, 25_001)):
        given = cases.arguments(name, rows(shape, 1))
        cuts = [0, 2, 130, 130, 259, shape[1]]
        ours, theirs = cases.pieces(p, given, cuts, on_gpu), cases.pieces(p, given, cuts)
        for a, b in zip(ours, theirs, strict=True):
            assert isinstance(a.array, cupy.ndarray)
            cases.same_states(a, b, 1e-4)
        whole = fg.merge(p, *ours)
        cases.same_states(whole, fg.merge(p, *theirs), 1e-4)
        mixed = fg.merge(p, moved(ours[0], np.asarray), *theirs[1:])
        cases.near(p.finish(moved(mixed, on_gpu)), p.reference(*given), 1e-5)
        cases.near(p.finish(moved(whole, np.asarray)), p.reference(*given), 1e-5)


@pytest.mark.parametrize("name", cases.HARD_TEXTS)
def test_hard_rows(name: str) -> None:
    p, x, rng = fg.pipeline(TEXTS[name]), cases.hard_rows(), np.random.default_rng(2)
    with np.errstate(all="ignore"):
        want = p(x)
        for _ in range(20):
            parts = cases.pieces(p, [x], cases.cuts_of(8, rng), on_gpu)
            cases.near(p.finish(cases.merged_anyhow(p, parts, rng)), want)
            hosts = [moved(s, np.asarray) for s in parts]
            cases.near(p.finish(cases.merged_anyhow(p, hosts, rng)), want)


@pytest.mark.parametrize("k", [1, 31, 64, 300, 2500])
def test_lists_of_any_length(k: int) -> None:
    """Pieces also with fewer columns than entries; long lists, and ties. Where probabilities
    underflow, merged lists keep the order of x (docs/special_values.md)."""
    p = fg.pipeline(TEXTS["softmax_topk"])
    for n_cols in (3000, 40_000):
        x = np.round(100 * rows((7, n_cols), k))
        cuts = [0, 5, 200, 201, n_cols // 2, n_cols]
        parts = cases.pieces(p, [x], cuts, on_gpu, k=k)
        found = p.finish(cases.merged_anyhow(p, parts, np.random.default_rng(k)))
        values, at = cases.flat(found)
        want = p.reference(x, k=k)
        np.testing.assert_allclose(values, want[0], rtol=1e-5, atol=1e-30)
        np.testing.assert_array_equal(at, np.argsort(-x, axis=1, kind="stable")[:, :k])


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64"])
def test_types(dtype: str) -> None:
    x = np.random.default_rng(0).normal(0, 20, (5, 3001)).astype(dtype)
    for name in ("topk", "argmax", "logsumexp"):
        if name == "logsumexp" and dtype.startswith("int"):
            continue
        p = fg.pipeline(TEXTS[name])
        parts = cases.pieces(p, [x], [0, 13, 1500, 3001], on_gpu)
        cases.near(p.finish(fg.merge(p, *reversed(parts))), p(x), 3e-3)


@pytest.mark.parametrize("count", [2, 9, 40, 700])
def test_any_number_of_states(count: int) -> None:
    x = rows((50, 3 * count), count)
    cuts = [*range(0, 3 * count + 1, 3)]
    for name in ("softmax_topk", "var_mean", "many", "places", "ends"):
        p = fg.pipeline(TEXTS[name])
        given = cases.arguments(name, x)
        parts = cases.pieces(p, given, cuts)
        whole = fg.merge(p, *(moved(s, on_gpu) for s in parts))
        cases.near(p.finish(whole), p.reference(*given), 1e-5)
        again = fg.merge(p, *(moved(s, on_gpu) for s in parts))
        assert (cases.host(whole.array) == cases.host(again.array)).all(), "the same bits"


def test_rows_that_blocks_share() -> None:
    """Few long rows: split over the grid, or over a cluster."""
    for name in ("softmax_topk", "var_mean", "places"):
        p = fg.pipeline(TEXTS[name])
        x = rows((1, 2_000_003), 5)
        parts = cases.pieces(p, [x], [0, 1_000_001, 2_000_003], on_gpu)
        cases.near(p.finish(fg.merge(p, *reversed(parts))), p.reference(x), 2e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torch_tensors(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    side = torch.cuda.Stream()
    p = fg.library.softmax_topk
    with torch.cuda.stream(side):
        x = (torch.randn(4, 8, 3000, device="cuda") * 3).to(getattr(torch, dtype))
        parts = [p.states(x[..., :1111]), p.states(x[..., 1111:], at=1111)]
        assert all(isinstance(s.array, torch.Tensor) and s.array.is_cuda for s in parts)
        assert tuple(parts[0].array.shape) == (4, 8, parts[0].layout.n_bytes)
        values, at = p.finish(fg.merge(p, *reversed(parts)))
        want = p(x)
    side.synchronize()
    assert values.dtype == x.dtype
    torch.testing.assert_close(values, want[0])
    assert torch.equal(at, want[1])


def test_states_in_a_graph() -> None:
    """What was run once is captured, and replayed on other values."""
    import cupy

    p, x = fg.pipeline(TEXTS["softmax_topk"]), on_gpu(rows((64, 2048)))

    def work() -> Any:
        parts = [p.states(x[:, :1024]), p.states(x[:, 1024:], at=1024)]
        whole = fg.merge(p, *parts)
        return p.finish(whole), [*parts, whole]  # which the graph uses

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        work()
        stream.begin_capture()
        found, kept = work()
        graph = stream.end_capture()
        x[...] = on_gpu(rows((64, 2048), 9))
        graph.launch()
        stream.synchronize()
    cases.near(found, p.reference(rows((64, 2048), 9)), 1e-5)
    assert len(kept) == 3


def test_columns_off_alignment_and_rows_apart() -> None:
    p, whole = fg.pipeline(TEXTS["many"]), rows((20, 4100), 2)
    x, w = whole[::2, 3:4003], np.linspace(-1, 1, 4000).astype("f4")
    gpu, v = on_gpu(whole), on_gpu(np.concatenate([w[:1], w]))[1:]
    parts = [p.states(gpu[::2, 3:1004], v[:1001]),
             p.states(gpu[::2, 1004:4003], v[1001:], at=1001)]
    cases.near(p.finish(fg.merge(p, *reversed(parts))), p.reference(x, w), 1e-5)


def test_no_rows() -> None:
    p = fg.pipeline(TEXTS["argmax"])
    none, more = (p.states(on_gpu(np.ones((0, 4), np.float32)), at=i) for i in (0, 4))
    assert p.finish(fg.merge(p, none, more)).shape == (0,)
