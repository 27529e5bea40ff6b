"""Steps remembered, as calls are: all that a rank runs for arrays that lie like earlier ones.

    packet, a seal with room behind it  ←  fold
    table of all ranks' packets         ←  one exchange
    states of whole rows                ←  merge, where they lie; poison, if a seal is wrong
    results                             ←  finish, or map over this shard

Addresses are all that differs, so a step is three launches, the exchange, and a look at the seals.
Where launches may stand one after another (chained.py) it is less than that of its host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from fusegen.backend.arrays.adopt import adopt_all
from fusegen.backend.arrays.vectors import types_of
from fusegen.backend.memory import Adopted
from fusegen.distributed.calls import Call
from fusegen.distributed.chained import ChainedStep, MeetingStep, chained_step, meeting_step
from fusegen.distributed.laid import Laid, Results
from fusegen.distributed.packets import SEAL_BYTES, poison, unsealed
from fusegen.distributed.ranks import Ranks
from fusegen.distributed.symmetric import Kind
from fusegen.ir.shared import lazy
from fusegen.pipeline.ready import Lesson
from fusegen.pipeline.remembered import Recall, met
from fusegen.pipeline.states.programs import Again
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.roles import roles_for

_HELD = 1 << 16  # bytes of a packet that is held to be copied

Exchanged = Callable[[Any], Any]
"""From this rank's packet to those of all ranks, int64 (ranks, words)."""

Check = Callable[[Any, Any], None]
"""(packets of all ranks, states): these are poisoned if a seal is wrong."""


@dataclass(slots=True, kw_only=True)
class Step:
    """A call but for its arrays' addresses."""

    packet: Callable[[], Any]  # makes one, int64, that begins with its seal
    exchanged: Exchanged
    states: Callable[[], Any]  # makes memory for those of whole rows
    check: Check
    fold: Again
    merge: Again
    finish: Again
    results: Results
    apart: tuple[Any, ...] = field(default=(), init=False)
    lesson: Lesson | None = field(default=None, init=False)

    def run(self, pointers: list[int], named: Mapping[str, Any], out: Any) -> Any:
        """See `Ready`."""
        packet = self.packet()
        self.fold.run([*pointers, packet.data_ptr() + SEAL_BYTES])
        table = self.exchanged(packet)
        whole = self.states()
        start = whole.data_ptr()
        self.merge.run([table.data_ptr() + SEAL_BYTES, start])
        self.check(table, whole)
        return self.results(self.finish.run([*pointers, start]), out)


@dataclass(frozen=True, eq=False)
class Served:
    """A call that has been served, and what its ranks have agreed upon: one state each, of some
    columns, in the order of the ranks."""

    call: Call
    whole: States  # of whole rows
    first: int  # of this rank's columns
    ranks: Ranks
    packet: Any  # int64, expanded: see `Step`
    wrong: Any  # bool (): has a seal been wrong?
    kind: Kind | None  # how ranks meet, if not by collectives

    @lazy
    def taken(self) -> Mapping[str, Adopted]:
        return adopt_all(self.call.bound[0])

    def keep(self, steps: Recall, places: tuple[Any, ...]) -> None:
        """Among the steps of its pipeline."""
        if met(self.taken.values()):
            steps.keep(self.step, tuple(self.call.arrays), self.call.named, None, places)

    def step(
        self, order: list[str], pointers: list[int]
    ) -> Step | ChainedStep | MeetingStep | None:
        """For arrays that lie like this call's, whose addresses come in this order. None where
        programs do not read these very arrays."""
        taken, pipeline = self.taken, self.call.pipeline
        if any(a.family != "torch" for a in taken.values()):
            return None
        given, constants = self.call.bound
        roles = roles_for(pipeline, types_of(taken, pipeline.vectors), constants)
        laid = Laid(roles, taken, given, self.whole, self.first,
                    {n: (i, 0) for i, n in enumerate(order)})
        with laid.like.memory.working(laid.like):
            if self.kind is not None:
                return meeting_step(laid, self.kind)
            return chained_step(laid, self.packet, self.wrong, self.ranks) or self._plain(laid)

    def _plain(self, laid: Laid) -> Step | None:
        parts, run = self.ranks.size, laid.finish.run
        if run is None:
            return None
        fold = laid.fold((laid.behind, 0))
        merge = laid.merge(self.packet, parts, (0, 0), (1, 0))
        made = laid.finished((laid.behind, 0))
        makers = laid.makers()
        finish = run.again({n: p for n, p in made.items() if n not in makers}, makers)
        if fold is None or merge is None or finish is None:
            return None
        states = partial(torch.empty, laid.words, dtype=torch.int64, device=self.packet.device)
        return Step(packet=self._packet(), exchanged=partial(self.ranks.gathered, what="states"),
                    states=states, fold=fold, check=self._check, merge=merge, finish=finish,
                    results=laid.results())

    def _packet(self) -> Callable[[], Any]:
        """In one call of torch: from one that is held, where that is small."""
        made = partial(self.packet.clone, memory_format=torch.contiguous_format)
        if self.packet.nbytes > _HELD:
            return lambda: made().view(-1)
        held: Callable[[], Any] = made().view(-1).clone
        return held

    def _check(self, table: Any, states: Any) -> None:
        poison(states, unsealed(table, self.packet[0], self.wrong))
