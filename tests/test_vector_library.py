"""The library over vectors: every entry, option and form against float64, on nasty shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import vector_library as cases
from support.cases import TARGETS
from support.emulated import emulated
from support.tiles import emulate

import fusegen as fg

L = fg.library
SMALL = ("one_of_all", "one_column")


def run(case: cases.Case, form: str, target: str) -> None:
    made = case.pipeline.compile(form=form, target=target, **case.arrays, **case.constants)
    case.check(made(**case.arrays))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", [*cases.every()], ids=repr)
def test_against_float64(case: cases.Case, target: str) -> None:
    run(case, "auto", target)


@pytest.mark.parametrize(("case", "form"), [
    (case, form) for at, case in enumerate([*cases.shaped(), *cases.optional(), *cases.hard()])
    for form in (("safe", "unfused")[at % 2],)], ids=repr)
def test_every_form(case: cases.Case, form: str) -> None:
    """One of the other forms for every case; both for every pipeline, on several shapes and hard
    values each."""
    run(case, form, TARGETS[-1])


@emulated
@pytest.mark.parametrize("case", [
    *cases.shaped(shapes=SMALL), *cases.shaped("float16", ("cores",)), *cases.optional(),
    *cases.hard()], ids=repr)
def test_on_emulated_gpus(case: cases.Case) -> None:
    case.check(emulate(case.pipeline, **case.arrays, **case.constants))


@emulated
@pytest.mark.parametrize("form", ["safe", "unfused"])
@pytest.mark.parametrize("case", [*cases.shaped(shapes=("one_column",))], ids=repr)
def test_every_form_on_emulated_gpus(case: cases.Case, form: str) -> None:
    case.check(emulate(case.pipeline, form=form, **case.arrays, **case.constants))


@pytest.mark.gpu
@pytest.mark.parametrize("form", ["auto", "safe", "unfused"])
@pytest.mark.parametrize("case", [c for c in cases.every() if c.dtype != "bfloat16"], ids=repr)
def test_on_a_gpu(case: cases.Case, form: str) -> None:
    """CuPy has no bfloat16; tests/test_gpu_vectors.py takes it by way of torch."""
    import cupy

    arrays = {n: cupy.asarray(a) for n, a in case.arrays.items()}
    found = case.pipeline(**arrays, form=form, **case.constants)
    case.check(tuple(map(cupy.asnumpy, found)) if isinstance(found, tuple) else
               cupy.asnumpy(found))


@pytest.mark.parametrize("case", [*cases.shaped(shapes=("heads",)), *cases.optional()], ids=repr)
def test_one_sweep_stores_no_element(case: cases.Case) -> None:
    """And the derivation is checked again, law by law, in many digits."""
    optional = tuple(n for n in case.arrays if n in case.pipeline.signature.optional)
    plan = case.pipeline.plan(inputs=optional, **case.constants)
    assert plan.sweeps == 1
    assert plan.writes_per_element == 0
    read = case.name == "attention" and not {"bias", "mask"}.isdisjoint(optional)
    assert plan.reads_per_element == read


@pytest.mark.long
@pytest.mark.parametrize(("name", "constants"), cases.ENTRIES, ids=str)
def test_laws_hold(name: str, constants: dict[str, Any]) -> None:
    assert "refuted" not in str(fg.check(L.OVER_VECTORS[name], **constants))


@pytest.mark.parametrize(("name", "constants"), cases.ENTRIES, ids=str)
def test_no_columns_and_no_arrays(name: str, constants: dict[str, Any]) -> None:
    p = L.OVER_VECTORS[name]
    arrays = cases.arrays_of(name, (), 3, 4, 5, 2, "float32")
    none = {n: a[:0] if n in ("k", "v", "y", "w", "b") else a for n, a in arrays.items()}
    with pytest.raises(fg.ShapeError, match="zero columns"):
        p(**none, **constants)
    short = {n: a[..., :-1] if n in ("k", "y", "w") else a for n, a in arrays.items()}
    with pytest.raises(fg.ShapeError, match="vectors of 5 numbers"):
        p(**short, **constants)
    with pytest.raises(fg.ArgumentError, match="misses"):
        p(**constants)


@pytest.mark.parametrize(("name", "constants", "said"), [
    ("attention", {"scale": 1.0, "window": 0}, "window is 0"),
    ("attention", {}, "needs the constant scale"),
    ("nearest", {"metric": "cosine"}, "metric is 'cosine'"),
    ("contrastive", {"temperature": 0.0}, "temperature is 0"),
    ("gaussian_sum", {"bandwidth": -1.0}, "bandwidth is -1"),
])
def test_constants_that_make_no_sense(name: str, constants: dict[str, Any], said: str) -> None:
    arrays = cases.arrays_of(name, (), 3, 4, 5, 2, "float32")
    with pytest.raises(fg.ArgumentError, match=said):
        L.OVER_VECTORS[name](**arrays, **constants)


# ---- torch's own ----


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("batch", "heads", "rows", "columns", "d", "e"), [
    (1, 1, 1, 1, 8, 8), (2, 3, 143, 88, 8, 8), (4, 2, 4, 2048, 16, 8), (2, 4, 100, 256, 7, 32),
    (1, 8, 256, 103, 80, 80), (2, 1, 8, 704, 96, 192), (1, 2, 5, 9, 203, 256),
])
def test_as_scaled_dot_product_attention(
    batch: int, heads: int, rows: int, columns: int, d: int, e: int, is_causal: bool
) -> None:
    """Shapes of torch's own tests of it."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    q, k, v = (torch.from_numpy(cases.drawn(batch, heads, *shape, seed=i))
               for i, shape in enumerate([(rows, d), (columns, d), (columns, e)]))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    found = L.attention(q, k, v, scale=d**-0.5, causal=is_causal)
    torch.testing.assert_close(found, sdpa(q, k, v, is_causal=is_causal), rtol=2e-5, atol=5e-6)
    mask = torch.from_numpy(cases.drawn(batch, 1, rows, columns, seed=9))
    found = L.attention(q, k, v, mask, scale=d**-0.5)
    torch.testing.assert_close(found, sdpa(q, k, v, attn_mask=mask), rtol=2e-5, atol=5e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_grouped_queries_as_torchs(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    q, k, v = (torch.from_numpy(cases.drawn(2, h, n, 16, seed=n)).to(getattr(torch, dtype))
               for h, n in ((8, 20), (2, 50), (2, 51)))
    v = v[:, :, :50]
    sdpa = torch.nn.functional.scaled_dot_product_attention
    want = sdpa(q.double(), k.double(), v.double(), enable_gqa=True)
    grouped = q.unflatten(1, (2, 4))
    found = L.attention(grouped, k[:, :, None], v[:, :, None], scale=0.25)
    assert found.dtype == q.dtype
    tolerance = cases.TOLERANCE[dtype]
    torch.testing.assert_close(found.flatten(1, 2).double(), want, rtol=tolerance, atol=tolerance)


def test_losses_as_torchs() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    functional = torch.nn.functional
    h, w = (torch.from_numpy(cases.drawn(n, 24, seed=n)) for n in (30, 500))
    bias, labels = torch.from_numpy(cases.drawn(500)), torch.from_numpy(cases.whole(30, most=499))
    logits = functional.linear(h, w, bias)
    torch.testing.assert_close(
        L.linear_cross_entropy(h, w, labels, bias),
        functional.cross_entropy(logits, labels, reduction="none"), rtol=2e-5, atol=1e-5)
    cosines = functional.normalize(h) @ functional.normalize(w[:30]).T / 0.2
    torch.testing.assert_close(
        L.contrastive(h, w[:30], temperature=0.2, normalize=True),
        functional.cross_entropy(cosines, torch.arange(30), reduction="none"), rtol=2e-5, atol=1e-5)
    values, columns = L.head_topk(h, w, bias, k=7, temperature=0.5)
    best = torch.softmax(logits / 0.5, -1).topk(7)
    torch.testing.assert_close(values, best.values, rtol=1e-4, atol=1e-6)
    assert np.array_equal(columns, best.indices)


@pytest.mark.parametrize("name", ["attention", "linear_cross_entropy", "head_topk"])
@pytest.mark.parametrize("softcap", [0.0, -3.0, np.nan, np.inf, 0, True, "30"])
def test_a_softcap_is_above_0(name: str, softcap: object) -> None:
    given = {"attention": {"v": np.ones((7, 3)), "scale": 1.0},
             "linear_cross_entropy": {"labels": np.zeros(4, int)}, "head_topk": {}}[name]
    with pytest.raises(fg.ArgumentError, match=r"softcap is .*no finite number(.|\n)*or None"):
        getattr(fg.library, name)(np.ones((4, 5)), np.ones((7, 5)), softcap=softcap, **given)


@pytest.mark.parametrize("flag", ["no", 2, 0, None])
def test_flags_are_true_or_false(flag: object) -> None:
    q, k = np.ones((4, 5)), np.ones((7, 5))
    for call in (lambda: fg.library.attention(q, k, k, scale=1.0, causal=flag),
                 lambda: fg.library.attention(q, k, k, scale=1.0, with_lse=flag),
                 lambda: fg.library.head_topk(q, k, log=flag),
                 lambda: fg.library.contrastive(q, k, normalize=flag),
                 lambda: fg.library.moe_gate(q, renormalize=flag)):
        with pytest.raises(fg.ArgumentError, match="must be True or False"):
            call()
