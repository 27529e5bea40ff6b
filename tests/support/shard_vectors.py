"""Texts over vectors whose columns are sharded: attention with split keys, and backwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fusegen as fg
from support import state_cases as cases
from support import vector_library
from support.shard_cases import differentiated, same_everywhere, tensor, torch


def attention_over_split_keys(rank: int) -> None:
    """Context-parallel: keys and values are on all ranks, queries everywhere."""
    rng = np.random.default_rng(4)
    q, k, v = (rng.normal(size=s).astype("f4") for s in ((2, 9, 8), (2, 26, 8), (2, 26, 8)))
    at = (0, 3, 3, 20, 26)
    mine = slice(at[rank], at[rank + 1])
    step = fg.distributed.sharded(fg.library.attention)
    positions = np.arange(17, 26)
    found = step(tensor(q), tensor(k[:, mine]), tensor(v[:, mine]), None, None, tensor(positions),
                 scale=0.3, causal=True, with_lse=True)
    same_everywhere(found)
    want = vector_library.attention(
        *(a.astype("f8") for a in (q, k, v)), positions=positions, scale=0.3, causal=True,
        with_lse=True)
    cases.near(found, want, 2e-5)


def attention_backwards(rank: int) -> None:
    """Context-parallel training: gradients of queries are everywhere, of keys where they are."""
    rng = np.random.default_rng(11)
    shapes = ((2, 9, 8), (2, 26, 8), (2, 26, 8), (2, 9, 8))
    q, k, v, cotangent = (rng.normal(size=s) for s in shapes)
    at = (0, 3, 3, 20, 26)
    mine = slice(at[rank], at[rank + 1])
    parts = [tensor(a.astype("f4")) for a in (q, k[:, mine], v[:, mine])]
    step = fg.distributed.sharded(fg.library.attention)
    peer = torch.nn.functional.scaled_dot_product_attention
    rows, columns = torch.arange(17, 26)[:, None], torch.arange(26)
    masks = {
        "all": ({}, None),
        "causal": ({"causal": True, "positions": rows[:, 0]}, columns <= rows),
        "window": ({"window": 6, "positions": rows[:, 0]}, (columns - rows).abs() < 6),
        "own numbers": ({"causal": True}, columns <= rows - 17),
        "lengths": ({"lengths": rows[:, 0] - 5}, columns < rows - 5),
    }
    for given, mask in masks.values():
        found = differentiated(lambda *a, given=given: step(*a, scale=0.3, **given), parts,
                               tensor(cotangent.astype("f4")))
        want = differentiated(lambda *a, mask=mask: peer(*a, attn_mask=mask, scale=0.3),
                              [*map(tensor, (q, k, v))], tensor(cotangent))
        for f, w in zip(found, want, strict=True):
            cases.near(f, w if w.shape[1] == 9 else w[:, mine], 2e-5)


@fg.pipeline
def counted(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    """Gradients of v are made of rows' inputs and columns' numbers alone."""
    s = fg.dot(q, k)
    return fg.sum(fg.where(fg.index(s) <= 2 * fg.row(s), s, 0.0) * v)


def columns_without_rows(rank: int) -> None:
    """No stage of rows says where a shard is; ranks without columns take part all the same."""
    rng = np.random.default_rng(5)
    q, k, v, cotangent = (rng.normal(size=s) for s in ((9, 8), (26, 8), (26, 4), (9, 4)))
    at = (0, 3, 3, 20, 26)
    mine = slice(at[rank], at[rank + 1])
    step = fg.distributed.sharded(counted)
    weights = np.where(np.arange(26) <= 2 * np.arange(9)[:, None], q @ k.T, 0)
    rows, keys, values, moved = (
        tensor(a.astype("f4")) for a in (q, k[mine], v[mine], cotangent))

    def call(v: Any) -> Any:
        return step(rows, keys, v)

    for f in (call, torch.compile(call, backend="aot_eager", fullgraph=True)):
        _, found = differentiated(f, [values], moved)
        cases.near(found, (weights.T @ cotangent)[mine], 1e-5)


VECTOR_CASES: dict[str, Callable[[int], None]] = {
    f.__name__.replace("_", " "): f
    for f in (attention_over_split_keys, attention_backwards, columns_without_rows)}
