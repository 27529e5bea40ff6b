"""Attention as torch has it: `torch.nn.functional`'s function and `torch.nn`'s layer."""

from __future__ import annotations

import math
from typing import Any

import torch

from fusegen import library
from fusegen.ir.errors import ArgumentError
from fusegen.lang.blame import blames
from fusegen.torch.nn import is_served


@blames
def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:
    """torch.nn.functional.scaled_dot_product_attention by `fg.library.attention`.

    query (…, L, E), key (…, S, E), value (…, S, Ev): (…, L, Ev), of query's type; leading axes
    broadcast, and with enable_gqa the heads of key and value (third axis from the end) each serve
    as many neighbouring heads of query. attn_mask broadcasts to (…, L, S): conditions, true where a
    pair counts, or floats that are added to the scores. A row of which nothing counts is 0. scale:
    1 / sqrt(E). Autocast makes floats of its type first, as torch's does.
    Raises ArgumentError for dropout, which there is none of, and masks of other types.
    """
    if dropout_p:
        raise ArgumentError(f"dropout_p is {dropout_p}", why="Weights that are never stored are "
                            "not dropped.",
                            fix="Pass dropout_p=0.0, or call torch's own function.")
    query, key, value, attn_mask = _as_autocast_has_them(query, key, value, attn_mask)
    group = query.shape[-3] // max(1, key.shape[-3]) if enable_gqa and query.dim() > 2 else 1
    if group > 1:
        query, key, value = query.unflatten(-3, (-1, group)), key[..., None, :, :], \
            value[..., None, :, :]
        attn_mask = _of_groups(attn_mask, group)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    found = _attend(query, key, value, **_masks(attn_mask), causal=is_causal, scale=scale)
    return found.flatten(-4, -3) if group > 1 else found


class MultiheadAttention(torch.nn.MultiheadAttention):  # type: ignore[misc]
    """torch.nn.MultiheadAttention, by `fg.library.attention` where it is asked for no weights.

    Dropout in training, `bias_k`, `add_zero_attn` and weights are torch's own.
    """

    def forward(
        self, query: Any, key: Any, value: Any, key_padding_mask: Any = None,
        need_weights: bool = True, attn_mask: Any = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        if need_weights or (self.dropout and self.training) or self.add_zero_attn \
                or self.bias_k is not None or not _fit(query, key, value) \
                or not all(map(_is_mask, (key_padding_mask, attn_mask))) \
                or (is_causal and attn_mask is None):
            return super().forward(  # type: ignore[no-any-return]
                query, key, value, key_padding_mask, need_weights, attn_mask,
                average_attn_weights, is_causal)
        turned = query.dim() == 3 and not self.batch_first
        q, k, v = (self._heads(x) for x in self._projected(query, key, value, turned))
        causal = is_causal and key_padding_mask is None  # elsewhere the mask says so, too
        masks = _masks(_of_heads(None if causal else attn_mask, self.num_heads, query.dim()),
                       excluded=True)
        if key_padding_mask is not None:
            masks = _beside(masks, key_padding_mask)
        found = _attend(q, k, v, **masks, causal=causal, scale=1 / math.sqrt(self.head_dim))
        found = self.out_proj(found.transpose(-3, -2).flatten(-2))
        return found.transpose(0, 1) if turned else found, None

    def _projected(self, query: Any, key: Any, value: Any, turned: bool) -> list[Any]:
        """Queries, keys and values, batch first."""
        linear, packed = torch.nn.functional.linear, self.in_proj_weight
        if query is key is value and packed is not None:
            found = linear(query, packed, self.in_proj_bias).chunk(3, -1)
        else:
            weights = packed.chunk(3) if packed is not None else (
                self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
            found = [linear(x, w, b) for x, w, b in
                     zip((query, key, value), weights, biases, strict=True)]
        return [x.transpose(0, 1) if turned else x for x in found]

    def _heads(self, x: Any) -> Any:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)


def _attend(
    q: Any, k: Any, v: Any, *, bias: Any = None, mask: Any = None, valid: Any = None, causal: bool,
    scale: float,
) -> Any:
    """A score of −inf beside the others makes a row of which nothing counts 0, as torch's is."""
    masked = not (bias is None and mask is None and valid is None)
    sinks = q.new_full((), -math.inf) if masked else None
    found = library.attention(q, k, v, bias, sinks=sinks, mask=mask, valid=valid, causal=causal,
                              scale=scale)
    return found.to(q.dtype)


def _as_autocast_has_them(*tensors: Any) -> list[Any]:
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return [*tensors]
    wanted = torch.get_autocast_dtype(device)
    kept = (torch.bool, torch.float64)
    return [t if t is None or t.dtype in kept or not t.is_floating_point() else t.to(wanted)
            for t in tensors]


def _masks(attn_mask: Any, *, excluded: bool = False) -> dict[str, Any]:
    """The mask as the pipeline has such. excluded: are conditions true where nothing counts?"""
    if attn_mask is None:
        return {}
    if attn_mask.is_floating_point():
        return {"bias": attn_mask}
    if attn_mask.dtype != torch.bool:
        raise ArgumentError(f"attn_mask holds {attn_mask.dtype}",
                            why="A mask is of conditions, true where a pair counts, or of floats "
                            "that are added to the scores.",
                            fix="Pass attn_mask.bool(), or attn_mask.float().")
    mask = ~attn_mask if excluded else attn_mask
    if mask.dim() < 2:
        return {"valid": mask}
    return {"valid": mask.squeeze(-2)} if mask.shape[-2] == 1 else {"mask": mask}


def _of_groups(attn_mask: Any, group: int) -> Any:
    """The mask with an axis for the heads of query that share a head of key."""
    if attn_mask is None or attn_mask.dim() < 3:
        return attn_mask
    return attn_mask[..., None, :, :] if attn_mask.shape[-3] == 1 else \
        attn_mask.unflatten(-3, (-1, group))


# ---- of the layer ----


def _fit(query: Any, key: Any, value: Any) -> bool:
    """Are these tensors what pipelines take, of a batch or of none?"""
    same = query.dim() == key.dim() == value.dim() and query.dim() in (2, 3)
    return same and not query.is_nested and is_served(query, key, value)


def _is_mask(mask: Any) -> bool:
    return mask is None or mask.dtype == torch.bool or mask.is_floating_point()


def _of_heads(attn_mask: Any, heads: int, n_axes: int) -> Any:
    """(batch · heads, L, S) with an axis for each."""
    three = attn_mask is not None and attn_mask.dim() == 3 and n_axes == 3
    return attn_mask.unflatten(0, (-1, heads)) if three else attn_mask


def _beside(masks: dict[str, Any], padding: Any) -> dict[str, Any]:
    """With a padding mask (batch, S), or (S,)."""
    if padding.dtype == torch.bool:
        return {**masks, "valid": ~padding[..., None, :]}
    wide = padding[..., None, None, :]
    return {**masks, "bias": wide + masks["bias"] if "bias" in masks else wide}
