"""Ranks that meet in one launch each, on the emulator: their launches are the blocks of one, which
runs them side by side and at different speeds, so that one rank may be a turn ahead of another."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from simt import compile_module

import fusegen as fg
from fusegen.backend.cuda.emit.dialect import C_TYPES
from fusegen.backend.cuda.emit.meet import NUMBERS, Meet, meet_source
from fusegen.backend.cuda.emit.state import held
from fusegen.backend.cuda.schedule.states import meeting_schedule
from fusegen.backend.symmetric import Place
from fusegen.ir.kernel import Param

TAG, PATIENCE = 0x1234_5678, 20_000_000  # nanoseconds: looks at the emulator's clock, 1000 each
_HEAD = re.compile(r'extern "C" __global__ void __launch_bounds__\(kMostThreads\)\n(\w+)\(')


def meet_of(p: fg.Pipeline, ranks: int, *, finish: bool = True, **constants: Any) -> Meet:
    merge, results = (p.work(role=role, target="sm_90", n_rows=7, n_cols=n, **constants)
                      for role, n in (("merge", ranks), ("finish", 100)))
    made = results.program if finish else None
    return Meet(merge.program, made,
                meeting_schedule(merge.program, made, ranks, merge.target), ranks)


def text_of(meet: Meet) -> str:
    """The kernel as a function of every rank's blocks; a launch of all of them, turn after turn."""
    text = meet_source(meet).text()
    start = _HEAD.search(text)
    assert start
    body = text[start.end() :].replace("blockIdx.x", "block").replace("gridDim.x", "blocks")
    function = f"__device__ void one_rank(const unsigned block, const unsigned blocks,\n{body}"
    calls = "".join(_call(meet, rank) for rank in range(meet.ranks))
    params = [f"unsigned char* {place}" for place in meet.places]
    for rank in range(meet.ranks):
        params += [f"const unsigned char* states_{rank}", f"unsigned long long* control_{rank}",
                   f"unsigned long long* told_{rank}", f"unsigned char* merged_{rank}",
                   *(f"{C_TYPES[p.dtype.name]}* {p.name}_{rank}" for p in outputs(meet)),
                   f"long long tag_{rank}"]
    params += [*(f"{C_TYPES[p.dtype.name]} {p.name}" for p in scalars(meet)),
               *(f"long long {n}" for n in meet.numbers if n not in ("own_rank", "tag")),
               "long long turns", "long long pitch", "long long each", "long long absent"]
    return (text[: start.start()] + function + f"""
extern "C" __global__ void ranks({", ".join(params)})
{{
    const unsigned block = blockIdx.x % each, rank = blockIdx.x / each;
    for (long long turn = 0; turn < turns; ++turn) {{
        if (turn + 1 == turns && (absent >> rank & 1)) return;
{calls}        __syncthreads();
    }}
}}
""")


def _call(meet: Meet, rank: int) -> str:
    sizes = {p.name: p.k if p.shape == "list" else 1 for p in outputs(meet)}
    words = {"states": f"states_{rank} + turn * pitch", "control": f"control_{rank}",
             "own_place": f"place_{rank}", "told": f"told_{rank}",
             "merged": f"merged_{rank} + turn * n_rows * kStateBytes",
             **{p: p for p in meet.places},
             **{held(p.name): p.name for p in meet.held}, **{p.name: p.name for p in meet.given},
             **{n: f"{n}_{rank} + turn * n_rows * {size}" for n, size in sizes.items()}}
    numbers = {"own_rank": f"{rank}", "tag": f"tag_{rank}"}
    given = [*(words[w] for w in meet.words), *(numbers.get(n, n) for n in meet.numbers)]
    return f"        if (rank == {rank}) one_rank(block, each, {', '.join(given)});\n"


def outputs(meet: Meet) -> tuple[Param, ...]:
    return tuple(p for p in meet.given if p.output)


def scalars(meet: Meet) -> tuple[Param, ...]:
    """Numbers of the call, each once."""
    both = (*meet.held, *(p for p in meet.given if p.shape == "scalar"))
    return tuple({p.name: p for p in both}.values())


@dataclass
class Ranks:
    """What the ranks of a meeting have, and what becomes of it."""

    meet: Meet
    n_rows: int
    text: str = ""
    groups: int = 0  # more than there are: as calls of more rows would have
    told: list[np.ndarray] = field(default_factory=list)
    merged: list[np.ndarray] = field(default_factory=list)
    results: list[dict[str, np.ndarray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        ranks, size = self.meet.ranks, self.meet.layout.n_bytes
        rows = self.meet.schedule.rows_per_block
        self.place = Place(ranks, self.groups or -(-self.n_rows // rows), self.n_rows * size)
        self.places = [np.zeros(self.place.n_bytes, np.uint8) for _ in range(ranks)]
        self.control = [np.zeros(4, np.uint64) for _ in range(ranks)]
        self.told = [np.zeros(2, np.uint64) for _ in range(ranks)]

    def run(
        self, states: Sequence[np.ndarray], columns: int, *, blocks: int = 1, seed: int = 0,
        tags: Mapping[int, int] | None = None, absent: int = 0,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """states: of every rank, uint8 (turns, rows, bytes). absent: a bit for each rank that does
        not come to the last turn."""
        meet, turns = self.meet, len(states[0])
        self.merged = [np.zeros_like(s) for s in states]
        self.results = [{p.name: _nothing(p, turns, self.n_rows) for p in outputs(meet)}
                        for _ in states]
        args: list[Any] = [*self.places]
        written, ready = {*range(len(args))}, {*range(len(args))}
        for rank, own in enumerate(states):
            first = len(args)
            args += [_pitched(own), self.control[rank], self.told[rank],
                     self.merged[rank].reshape(-1),
                     *(a.reshape(-1) for a in self.results[rank].values()),
                     (tags or {}).get(rank, TAG)]
            written |= {*range(first + 1, len(args) - 1)}
            ready |= {first + 1, first + 2}
        known = {"most_groups": self.place.groups, "room": self.place.room, "patience": PATIENCE,
                 "n_rows": self.n_rows, "whole_columns": columns}
        args += [np.dtype(p.dtype.numpy).type((given or {})[p.name]) for p in scalars(meet)]
        args += [known[n] for n in meet.numbers if n not in ("own_rank", "tag")]
        args += [turns, _pitched(states[0]).size // turns, blocks, absent]
        assert set(NUMBERS) <= {*known, "own_rank", "tag"}
        compile_module(self.text or text_of(meet)).launch(
            "ranks", (meet.ranks * blocks,), (meet.schedule.threads,), args, outputs=written,
            initialised=ready, seed=seed, together=True)


def _pitched(states: np.ndarray) -> np.ndarray:
    """Each turn's bytes on a boundary of 16, as memory for states is."""
    flat = states.reshape(len(states), -1)
    return np.pad(flat, ((0, 0), (0, -flat.shape[1] % 16))).reshape(-1)


def _nothing(p: Param, turns: int, n_rows: int) -> np.ndarray:
    shape = (turns, n_rows, p.k) if p.shape == "list" else (turns, n_rows)
    return np.full(shape, np.nan if p.dtype.kind == "float" else -77).astype(p.dtype.numpy)
