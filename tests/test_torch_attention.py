"""Attention with torch's own signature and as torch's layer, against torch's in float64."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

import fusegen as fg

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional
BATCH, HEADS, ROWS, COLUMNS, LENGTH = 2, 4, 5, 7, 4


def drawn(*shape: int, seed: int = 0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def some(*shape: int) -> Any:
    """Conditions; those of row 1 hold nowhere."""
    found = drawn(*shape, seed=7) > -0.5
    if shape[-2] > 1:
        found[..., 1, :] = False
    return found


def minus(conditions: Any) -> Any:
    return torch.zeros(conditions.shape).masked_fill(~conditions, -math.inf)


MASKS = {
    "none": None, "pairs": some(BATCH, HEADS, ROWS, COLUMNS), "padding": some(BATCH, 1, 1, COLUMNS),
    "biases": drawn(ROWS, COLUMNS, seed=8), "infinities": minus(some(BATCH, 1, ROWS, COLUMNS)),
}


def wide(array: Any) -> Any:
    return array.double() if array is not None and array.is_floating_point() else array


def with_gradients(function: Any, arrays: Any) -> list[Any]:
    moving = [a.clone().requires_grad_() for a in arrays]
    found = function(*moving)
    weights = torch.arange(found.numel(), dtype=found.dtype).reshape(found.shape).cos()
    return [found, *torch.autograd.grad((found * weights).sum(), moving)]


def close(found: Any, wanted: Any) -> None:
    for f, w in zip(found, wanted, strict=True):
        torch.testing.assert_close(f.double(), w, rtol=1e-5, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("kv_heads", [HEADS, 2])
@pytest.mark.parametrize("name", MASKS)
def test_the_function_is_torchs(name: str, kv_heads: int) -> None:
    """Rows of which nothing counts are 0, and so is what they add to gradients."""
    mask, more = MASKS[name], {"enable_gqa": kv_heads != HEADS}
    arrays = [drawn(BATCH, HEADS, ROWS, LENGTH), *(drawn(BATCH, kv_heads, COLUMNS, LENGTH, seed=s)
                                                   for s in (1, 2))]
    found = with_gradients(
        lambda q, k, v: fg.torch.scaled_dot_product_attention(q, k, v, mask, **more), arrays)
    close(found, with_gradients(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, wide(mask), **more),
        [a.double() for a in arrays]))


@pytest.mark.long
def test_causal_rows_and_graphs() -> None:
    q, k = drawn(BATCH, ROWS, LENGTH), drawn(BATCH, COLUMNS, LENGTH, seed=1)
    call = torch.compile(fg.torch.scaled_dot_product_attention, fullgraph=True, backend="eager")
    close([call(q, k, k, is_causal=True, scale=0.3)],
          [F.scaled_dot_product_attention(*(a.double() for a in (q, k, k)), is_causal=True,
                                          scale=0.3)])


def test_autocast_makes_its_type_first_as_torchs() -> None:
    q, k = drawn(ROWS, LENGTH), drawn(COLUMNS, LENGTH).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        found = fg.torch.scaled_dot_product_attention(q, k, k, MASKS["biases"])
    assert found.dtype == torch.bfloat16


def test_what_there_is_not_is_said() -> None:
    q = drawn(ROWS, LENGTH)
    call = fg.torch.scaled_dot_product_attention
    with pytest.raises(fg.ArgumentError, match=r"dropout_p is 0\.1"):
        call(q, q, q, dropout_p=0.1)
    with pytest.raises(fg.ArgumentError, match=r"attn_mask holds torch\.int64"):
        call(q, q, q, torch.ones(ROWS, ROWS, dtype=torch.int64))
    attention = fg.library.attention
    with pytest.raises(fg.ArgumentError, match=r"scale is an array \(Tensor\)"):
        attention(q, q, q, scale=torch.tensor(0.3))
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"scale is an array \(Tensor\)"):
        torch.compile(attention, fullgraph=True, backend="eager")(q, q, q, scale=torch.tensor(0.3))


LAYERS: list[dict[str, Any]] = [
    {"batch_first": True}, {"bias": False}, {"kdim": 6, "vdim": 10, "batch_first": True}]
MASKED: dict[str, dict[str, Any]] = {
    "plain": {}, "padding": {"key_padding_mask": ~some(BATCH, 1, COLUMNS)[:, 0]},
    "both": {"attn_mask": ~some(BATCH * HEADS, ROWS, COLUMNS),
             "key_padding_mask": ~some(BATCH, 1, COLUMNS)[:, 0]},
    "floats": {"attn_mask": drawn(ROWS, COLUMNS), "key_padding_mask": drawn(BATCH, COLUMNS)},
}


@pytest.mark.long
@pytest.mark.parametrize("options", LAYERS, ids=str)
def test_the_layer_is_torchs(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(16, HEADS, **options).eval()
    ours = copy.deepcopy(theirs)
    assert [str(s) for s in fg.torch.patch(ours)] == ["the model: torch.nn.MultiheadAttention"]
    theirs.double()
    sizes = (ROWS, 16), (COLUMNS, options.get("kdim", 16)), (COLUMNS, options.get("vdim", 16))
    given = [drawn(BATCH, n, d, seed=n) for n, d in sizes]
    if not options.get("batch_first"):
        given = [x.transpose(0, 1) for x in given]
    for masks in MASKED.values():
        found, weights = ours(*given, need_weights=False, **masks)
        assert weights is None
        close([found], [theirs(*(x.double() for x in given), need_weights=False,
                               **{n: wide(m) for n, m in masks.items()})[0]])


def test_a_patched_encoder_computes_the_same() -> None:
    torch.manual_seed(0)
    theirs = torch.nn.TransformerEncoderLayer(16, HEADS, 8, dropout=0.0, batch_first=True)
    ours, x = copy.deepcopy(theirs), drawn(BATCH, ROWS, 16)
    swapped = fg.torch.patch(ours)
    assert [s.name for s in swapped] == ["self_attn", "norm1", "norm2"]
    mask = torch.nn.Transformer.generate_square_subsequent_mask(ROWS)
    close([ours(x, src_mask=mask, is_causal=True)],
          [theirs.double()(x.double(), src_mask=mask.double(), is_causal=True)])
    weighed = ours.self_attn(x, x, x)[1]  # torch's own, which stores them
    torch.testing.assert_close(weighed.sum(-1), torch.ones(BATCH, ROWS))
