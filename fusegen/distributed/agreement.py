"""Do the ranks of a call belong together? Decided from all headers, so alike on every rank."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch

from fusegen.distributed.packets import Header
from fusegen.distributed.ranks import HOST, Members
from fusegen.ir.errors import ExchangeError

_WORDS = 1024  # bytes of what a rank says in words, where ranks do not belong together


def check_alike(
    ranks: Members, headers: Sequence[Header], words: str, error: Exception | None, device: Any
) -> None:
    """Raises where a rank has failed or calls otherwise: its own error on a rank that has one,
    ExchangeError on the others. words: what this rank calls; every rank tells the others."""
    strangers = [r for r, h in enumerate(headers) if not h.is_ours]
    if strangers:
        raise ExchangeError(f"rank{_s(strangers)} {_list(strangers)} sent something else than "
                            "states", why="Its collective is not one of fusegen's.",
                            fix="Make the same calls in the same order on every rank.")
    failed = [r for r, h in enumerate(headers) if h.failed]
    same = len({(h.seal, h.n_rows, h.n_bytes, h.columns) for h in headers}) == 1
    if not failed and same:
        return
    every = _in_words(ranks, str(error) if error is not None else words, device)
    if error is not None:
        raise error
    if failed:
        raise ExchangeError(f"the call failed on rank{_s(failed)} {_list(failed)}",
                            why="\n  ".join(f"rank {r}: {every[r]}" for r in failed))
    raise ExchangeError("the ranks of a group call differently",
                        why="\n  ".join(_by_words(every)),
                        fix="Make the same calls in the same order on every rank.")


def _in_words(ranks: Members, mine: str, device: Any) -> list[str]:
    """What every rank says, cut to a fixed size."""
    said = mine.encode()[:_WORDS]
    block = np.zeros(_WORDS, np.uint8)
    block[: len(said)] = np.frombuffer(said, np.uint8)
    found = ranks.gathered(torch.from_numpy(block).to(device), "what differs").to(HOST).numpy()
    return [bytes(row).rstrip(b"\0").decode(errors="replace") for row in found]


def _by_words(every: Sequence[str]) -> list[str]:
    """Each saying once, with those who say it."""
    return [f"rank{_s(who)} {_list(who)}: {words}" for words in dict.fromkeys(every)
            for who in [[r for r, w in enumerate(every) if w == words]]]


def _s(ranks: Sequence[int]) -> str:
    return "s" if len(ranks) > 1 else ""


def _list(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))


def starts_of(headers: Sequence[Header]) -> list[int]:
    """The number of every shard's first column. Raises ExchangeError where shards are no row."""
    widths = [h.n_cols for h in headers]
    silent = [r for r, h in enumerate(headers) if not h.told]
    if silent and len(silent) < len(headers):
        raise ExchangeError(f"at= is given on some ranks, and not on {_list(silent)}",
                            fix="Give it on every rank, or on none.")
    whole, total = headers[0].columns, sum(widths)
    starts = [0, *accumulate(widths)][:-1] if silent else [h.at for h in headers]
    spans = sorted((s, s + w) for s, w in zip(starts, widths, strict=True) if w)
    meet = all(a[1] == b[0] for a, b in pairwise(spans)) and (not spans or spans[0][0] == 0)
    if not meet or whole not in (-1, total):
        shown = ", ".join(f"rank {r}: {s} … {s + w - 1}" if w else f"rank {r}: none"
                          for r, (s, w) in enumerate(zip(starts, widths, strict=True)))
        ends = "" if whole in (-1, total) else f"; columns={whole}"
        raise ExchangeError("the shards are not one row: they overlap, or miss columns",
                            why=f"Columns {shown}{ends}.",
                            fix="at= is the number of a shard's first column in the whole row, "
                            "columns= how many there are on all ranks.")
    return starts

