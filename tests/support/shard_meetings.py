"""Ranks that write to one another's memory, without GPUs: memory that processes share stands for
it, and what a launch does is done in Python around the emulated merge and finish of GPUs."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusegen as fg
from fusegen.backend.cpu.bound import CpuBound
from fusegen.backend.cuda.emit.meet import Meet
from fusegen.backend.cuda.emit.merge import merge_source
from fusegen.backend.cuda.emit.source import cuda_source
from fusegen.backend.cuda.schedule.states import meeting_schedule
from fusegen.backend.host.memory import HostMemory
from fusegen.backend.symmetric import Joint, Place
from fusegen.backend.target import gpu_named
from fusegen.compile.roles import MERGED, STATES
from fusegen.distributed import exchange, symmetric
from fusegen.distributed.chained import MeetingStep
from fusegen.pipeline.states.tables import fields_in
from support import state_cases as cases
from support.emulated import EmulatedExecutable
from support.shard_cases import (
    PEERS,
    PIPELINES,
    RANKS,
    L,
    differentiated,
    raises,
    same_everywhere,
    shard,
    tensor,
    torch,
    wanted,
)
from support.shard_steps import is_remembered

_MAPS: list[Any] = []
_TURN = np.uint64(24)


class HostMeet:
    """As `Meets`, of host memory."""

    def __init__(self, joint: Joint) -> None:
        target = gpu_named("sm_90")
        assert target is not None
        schedule = meeting_schedule(joint.merge, joint.finish, joint.ranks, target)
        finish = joint.finish if joint.finishes else None
        self.meet, self.joint = Meet(joint.merge, finish, schedule, joint.ranks), joint
        self.rows_per_block = schedule.rows_per_block
        self.numbers, self.held, self.given = self.meet.numbers, self.meet.held, self.meet.given

    def launch(self, numbers: Mapping[str, int]) -> Callable[[Sequence[int]], None]:
        ranks, joint, meet = self.joint.ranks, self.joint, self.meet
        place = Place(ranks, numbers["most_groups"], numbers["room"])
        size, rows = meet.layout.n_bytes, joint.n_rows
        groups = -(-rows // self.rows_per_block)
        merge = EmulatedExecutable(joint.merge, meet.schedule,
                                   merge_source(joint.merge, meet.schedule).text())

        def queue(words: Sequence[int]) -> None:
            states, *rest = words
            places, (own, control, told, merged), more = rest[:ranks], rest[ranks:ranks + 4], \
                rest[ranks + 4 :]
            turn, said = _words(control, 4), _words(told, 2)
            now = int(turn[0] >> _TURN) + 1
            mark = np.uint64(numbers["tag"] << 32 | now)
            mine = _bytes(states, rows * size)
            for at in places:
                _box(at, place, now, numbers["own_rank"], rows * size)[:] = mine
                _flags(at, place, now)[:groups, numbers["own_rank"]] = mark
            came = _awaited(_flags(own, place, now), groups, mark, numbers["patience"])
            whole = _bytes(merged, rows * size).reshape(rows, size)
            if came:
                said[came - 1], whole[:] = 1, 0xFF
            else:
                stack = np.stack([_box(own, place, now, r, rows * size).reshape(rows, size)
                                  for r in range(ranks)])
                scalars = {p.name: _scalar(p, w) for p, w in zip(self.held, more, strict=False)}
                merge({STATES: stack, MERGED: whole, **scalars}, rows, ranks)
            if meet.finish is not None:
                self._finish(whole, more[len(self.held) :], numbers)
            turn[0] += np.uint64(1) << _TURN

        return queue

    def _finish(self, whole: np.ndarray, words: Sequence[int], numbers: Mapping[str, int]) -> None:
        program, rows = self.meet.finish, self.joint.n_rows
        assert program is not None
        run = EmulatedExecutable(program, self.meet.schedule,
                                 cuda_source(program, self.meet.schedule).text())
        arrays = fields_in(whole, [p for p in program.inputs if p.field and p.shape != "scalar"],
                           self.meet.layout)
        for p, word in zip(self.given, words, strict=True):
            if p.shape == "scalar":
                arrays[p.name] = _scalar(p, word)
                continue
            count = rows * (p.k if p.shape == "list" else 1)
            found = _bytes(word, count * p.dtype.itemsize).view(p.dtype.numpy)
            arrays[p.name] = found.reshape(rows, -1) if p.shape == "list" else found
        run(arrays, rows, numbers.get("whole_columns", 1))


def _bytes(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address))


def _words(address: int, count: int) -> np.ndarray:
    return _bytes(address, 8 * count).view(np.uint64)


def _scalar(p: Any, word: int) -> Any:
    return np.frombuffer(word.to_bytes(8, "little", signed=True), p.dtype.numpy)[0]


def _flags_at(place: Place) -> int:
    return -(-8 * place.ranks // 256) * 256


def _flags(address: int, place: Place, turn: int) -> np.ndarray:
    each = place.groups * place.ranks
    found = _words(address + _flags_at(place) + 8 * (turn % 2) * each, each)
    return found.reshape(place.groups, place.ranks)


def _box(address: int, place: Place, turn: int, rank: int, count: int) -> np.ndarray:
    first = _flags_at(place) + -(-16 * place.groups * place.ranks // 256) * 256
    return _bytes(address + first + (turn % 2 * place.ranks + rank) * place.room, count)


def _awaited(flags: np.ndarray, groups: int, mark: np.uint64, patience: int) -> int:
    """0: all are there; 1: one is of another call; 2: one is lost."""
    until, turn = time.monotonic_ns() + patience, np.uint64(0xFFFF_FFFF)
    while time.monotonic_ns() < until:
        if (flags[:groups] == mark).all():
            return 0
        here = (flags[0] & turn) == (mark & turn)
        if (here & (flags[0] != mark)).any():
            return 1
        time.sleep(0.001)
    return 2


def _look(ranks: int, apart: int, words: int, at: Sequence[int]) -> None:
    """At the seals of packets, as one launch does."""
    packets, seal, states, wrong = at
    heads = _words(packets, ranks * apart).reshape(ranks, apart)[:, :4]
    if (heads != _words(seal, 4)).any():
        _bytes(states, 8 * words)[:] = 0xFF
        _bytes(wrong, 1)[:] = 1


# ---- in place of GPUs ----


class HostChain:
    """As `Chain`, of host memory."""

    def __init__(
        self, launches: Sequence[tuple[Any, tuple[Any, ...]]], makers: tuple[Any, ...],
        arrays: int, index: int,
    ) -> None:
        self.launches, self.makers = launches, makers

    def run(self, pointers: Sequence[int]) -> list[Any]:
        made = [make() for make in self.makers]
        at = [*pointers, *(one.data_ptr() for one in made)]
        for launch, words in self.launches:
            launch([w if i < 0 else at[i] + w for i, w in words])
        return made

    def helper(self) -> None:
        return None

    def plan(self, *told: Any) -> Any:
        raise AssertionError("there is no helper")


def _mapped(ranks: Any, place: Place, device: Any) -> tuple[Any, tuple[int, ...]]:
    """Files that all processes map."""
    every: list[Any] = [None] * ranks.size
    with tempfile.NamedTemporaryFile(dir="/dev/shm", delete=False) as mine:
        mine.truncate(place.n_bytes)
    torch.distributed.all_gather_object(every, mine.name, group=ranks.group)
    found = []
    for name in every:
        with Path(name).open("r+b") as file:
            found.append(mmap.mmap(file.fileno(), place.n_bytes))
    torch.distributed.barrier(ranks.group)
    Path(mine.name).unlink()
    _MAPS.extend(found)
    return found, tuple(ctypes.addressof(ctypes.c_char.from_buffer(m)) for m in found)


@contextmanager
def shared_memory() -> Any:
    """Ranks on hosts meet as those on GPUs do."""
    unfit = exchange._unfit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostMemory, "meet", lambda self, joint, index: HostMeet(joint), raising=False)
        patch.setattr(HostMemory, "chain", lambda self, *a: HostChain(*a), raising=False)
        patch.setattr(HostMemory, "streams", lambda self: lambda index: 0, raising=False)
        patch.setattr(HostMemory, "seals", lambda self, *a: partial(_look, *a[:3]), raising=False)
        patch.setattr(CpuBound, "chained", lambda self, words: ([(self.run, words)], []),
                      raising=False)
        patch.setattr(exchange, "_unfit", lambda *a: "" if "on hosts" in (w := unfit(*a)) else w)
        patch.setattr(symmetric, "_device_name", lambda like: f"{os.getpid()}")
        patch.setattr(symmetric, "_mapped", _mapped)
        yield


# ---- cases ----


def meeting(name: str) -> Callable[[int], None]:
    """Rounds of calls of several kinds, remembered and looked at in full: the results of whole rows
    on every rank, which outlive later calls."""
    def case(rank: int) -> None:
        rng, kept = np.random.default_rng(3), []
        with shared_memory():
            step = fg.distributed.sharded(PIPELINES[name], checks="once", exchange="symmetric")
            for turn in range(3):
                for n_rows, width in ((3, 9), (1, 9), (2, 12)):
                    x = rng.normal(0, 3, (n_rows, RANKS * width)).astype("f4")
                    given = cases.arguments(name, x)
                    mine = [a.clone() for a in shard(given, rank * width, (rank + 1) * width)]
                    found = step(*mine)
                    same_everywhere(found)
                    kept.append((found, wanted(name, given)))
                    assert turn == 0 or is_remembered(step, *mine)
            for found, want in kept:
                cases.near(found, want)
            step.verify()
            (way,) = step._ways.values()
            assert way.why == ""
            assert {type(one) for one in way.steps._ready.values()} == {MeetingStep}
    return case


def full_rows_meet(rank: int) -> None:
    """A map behind the meeting, and gradients, which are steps of their own."""
    rng = np.random.default_rng(4)
    with shared_memory():
        step = fg.distributed.sharded(L["softmax"], checks="once", exchange="symmetric")
        for _ in range(3):
            x, c = rng.normal(size=(2, 3, 4 * RANKS))
            part, cotangent = (tensor(a[:, 4 * rank : 4 * rank + 4].astype("f4")) for a in (x, c))
            found = differentiated(step, [part], cotangent)
            want = differentiated(PEERS["softmax"], [tensor(x)], tensor(c))
            for f, w in zip(found, want, strict=True):
                cases.near(f, w[:, 4 * rank : 4 * rank + 4], 1e-5)
        assert is_remembered(step, part.detach())
        step.verify()


def who_meets(rank: int) -> None:
    """What is asked for, and what there is: the same on every rank."""
    x = torch.zeros(2, 8)
    raises(lambda: fg.distributed.sharded(PIPELINES["topk"], exchange="nvlink"),
           fg.ArgumentError, "or .symmetric.")
    for checks, why in (("once", "tensors are on hosts"), ("auto", "hosts check every time")):
        step = fg.distributed.sharded(PIPELINES["topk"], checks=checks, exchange="symmetric")
        raises(lambda: step(x), fg.ArgumentError, why)  # noqa: B023
    with shared_memory():
        asked = "collective" if rank == 1 else "auto"
        step = fg.distributed.sharded(PIPELINES["topk"], checks="once", exchange=asked)
        for _ in range(3):
            assert step(x)[1].tolist() == [[*range(5)]] * 2
        (way,) = step._ways.values()
        assert way.why == 'exchange="collective" was asked for'
        step = fg.distributed.sharded(PIPELINES["topk"], checks="once", exchange="symmetric",
                                      deterministic=True, pieces=8)
        raises(lambda: step(x), fg.ArgumentError, "canonical pieces")
        step = fg.distributed.sharded(PIPELINES["topk"], checks="once")
        uneven = torch.zeros(2, 8 * (rank != 2))  # by collectives: a rank without columns
        assert step(uneven)[1].tolist() == [[*range(5)]] * 2
        assert "without columns" in way_of(step).why


def calls_that_cross(rank: int) -> None:
    """All steps of a group take turns in one memory."""
    with shared_memory():
        first, second = (fg.distributed.sharded(PIPELINES[n], checks="once", exchange="symmetric")
                         for n in ("topk", "argmax"))
        x = torch.arange(8.0).repeat(2, 1)
        for _ in range(2):
            first(x), second(x)
        if rank == 1:
            at, (values, columns) = second(x), first(x)
        else:
            (values, columns), at = first(x), second(x)
        assert values.isnan().all()
        assert (columns == -1).all()
        assert (at == -1).all()
        raises(first.verify, fg.ExchangeError, "met states of another call")
        assert first(x)[1][0].tolist() == [7, 15, 23, 31, 6]
        second.verify()


def way_of(step: Any) -> Any:
    (way,) = step._ways.values()
    return way


MEETING_CASES: dict[str, Callable[[int], None]] = {
    **{f"meeting {n}": meeting(n) for n in ("softmax_topk", "labelled", "tempered")},
    **{f.__name__.replace("_", " "): f for f in (full_rows_meet, who_meets, calls_that_cross)},
}
