"""Steps remembered, as calls are: all that a rank runs for arrays that lie like earlier ones.

    packet, a seal with room behind it  ←  fold
    table of all ranks' packets         ←  one exchange
    states of whole rows                ←  merge, where they lie; poison, if a seal is wrong
    results                             ←  finish, or map over this shard

Addresses are all that differs, so a step is three launches, the exchange, and a look at the seals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from fusegen.backend.arrays.adopt import adopt, adopt_all
from fusegen.backend.arrays.results import maker
from fusegen.backend.arrays.vectors import types_of
from fusegen.backend.memory import Adopted, Sealing
from fusegen.compile.roles import MERGED, STATES
from fusegen.distributed.calls import Call
from fusegen.distributed.packets import SEAL_BYTES, poison, unsealed
from fusegen.ir.shared import lazy
from fusegen.ir.state_layout import StateLayout
from fusegen.pipeline.ready import nested
from fusegen.pipeline.remembered import Recall, met
from fusegen.pipeline.states.finished import laid_finish
from fusegen.pipeline.states.programs import Again, Place
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.roles import Roles, roles_for
from fusegen.pipeline.states.runs import laid_fold, laid_merge
from fusegen.pipeline.states.tables import states_in

_HELD = 1 << 16  # bytes of a packet that is held to be copied

Exchanged = Callable[[Any], Any]
"""From this rank's packet to those of all ranks, int64 (ranks, words)."""

Check = Callable[[Any, Any], None]
"""(packets of all ranks, states): these are poisoned if a seal is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A call but for its arrays' addresses."""

    packet: Callable[[], Any]  # makes one, int64, that begins with its seal
    exchanged: Exchanged
    states: Callable[[], Any]  # makes memory for those of whole rows
    check: Check
    fold: Again
    merge: Again
    finish: Again
    results: Callable[[list[Any]], Any]  # what was made → what a call finds
    apart: tuple[Any, ...] = field(default=(), init=False)
    pupil: None = field(default=None, init=False)

    def run(self, pointers: list[int], named: Mapping[str, Any], out: Any) -> Any:
        """See `Ready`."""
        packet = self.packet()
        self.fold.run([*pointers, packet.data_ptr() + SEAL_BYTES])
        table = self.exchanged(packet)
        whole = self.states()
        start = whole.data_ptr()
        self.merge.run([table.data_ptr() + SEAL_BYTES, start])
        self.check(table, whole)
        return self.results(self.finish.run([*pointers, start]))


@dataclass(frozen=True, eq=False)
class Served:
    """A call that has been served, and what its ranks have agreed upon: one state each, of some
    columns, in the order of the ranks."""

    call: Call
    whole: States  # of whole rows
    first: int  # of this rank's columns
    parts: int
    packet: Any  # int64, expanded: see `Step`
    exchanged: Exchanged
    wrong: Any  # bool (): has a seal been wrong?

    @lazy
    def taken(self) -> Mapping[str, Adopted]:
        return adopt_all(self.call.bound[0])

    def keep(self, steps: Recall, places: tuple[Any, ...]) -> None:
        """Among the steps of its pipeline."""
        if met(self.taken.values()):
            steps.keep(self.step, tuple(self.call.arrays), self.call.named, None, places)

    def step(self, order: list[str], pointers: list[int]) -> Step | None:
        """For arrays that lie like this call's, whose addresses come in this order. None where
        programs do not read these very arrays."""
        taken, pipeline = self.taken, self.call.pipeline
        if any(a.family != "torch" for a in taken.values()):
            return None
        roles = roles_for(pipeline, types_of(taken, pipeline.vectors), self.call.bound[1])
        like = next(iter(taken.values()))
        places = {n: (i, 0) for i, n in enumerate(order)}
        with like.memory.working(like):
            fold = self._fold(roles, taken, places)
            merge = self._merge(roles)
            made = self._finish(roles, places)
        if fold is None or merge is None or made is None:
            return None
        whole = torch.as_tensor(self.whole.array)
        states = partial(torch.empty, whole.numel() // 8, dtype=torch.int64, device=whole.device)
        return Step(packet=self._packet(), exchanged=self.exchanged, states=states, fold=fold,
                    check=self._check(like, whole.numel() // 8), merge=merge, finish=made[0],
                    results=made[1])

    def _packet(self) -> Callable[[], Any]:
        """In one call of torch: from one that is held, where that is small."""
        made = partial(self.packet.clone, memory_format=torch.contiguous_format)
        if self.packet.nbytes > _HELD:
            return lambda: made().view(-1)
        held: Callable[[], Any] = made().view(-1).clone
        return held

    def _check(self, like: Adopted, words: int) -> Check:
        """In one launch, where there is one for it."""
        seal, wrong = self.packet[0], self.wrong
        if not isinstance(like.memory, Sealing):
            return lambda table, states: poison(states, unsealed(table, seal, wrong))
        look = like.memory.seals(self.parts, self.packet.numel(), words, like).check
        places = seal.data_ptr(), wrong.data_ptr()

        def check(table: Any, states: Any) -> None:
            look(table.data_ptr(), places[0], states.data_ptr(), places[1])

        return check

    def _fold(
        self, roles: Roles, taken: Mapping[str, Adopted], places: Mapping[str, Place]
    ) -> Again | None:
        one = laid_fold(roles, roles.fold, taken, self.first)
        names = roles.fold.graph.names
        inputs = {names[i]: places[i.name] for i in roles.fold.graph.inputs if i.name in places}
        states = _fields(roles.fold.program.outputs, roles.layout, len(places))
        return one.run.again(inputs | states)

    def _merge(self, roles: Roles) -> Again | None:
        n_bytes = self.whole.array.shape[-1]
        table = self.packet.new_empty(self.parts, self.packet.numel()).view(torch.uint8)
        size = torch.as_tensor(self.whole.array).numel()
        stack = table[:, SEAL_BYTES : SEAL_BYTES + size].view(self.parts, -1, n_bytes)
        taken, whole = adopt("gathered", stack), adopt("states", self.whole.array)
        merged = whole.array.reshape(-1, n_bytes)
        run = laid_merge(roles, states_in(taken.array, roles.layout), merged, taken)
        return run.again({STATES: (0, 0), MERGED: (1, 0)})

    def _finish(
        self, roles: Roles, places: Mapping[str, Place]
    ) -> tuple[Again, Callable[[list[Any]], Any]] | None:
        own = adopt("states", self.whole.array)
        one = laid_finish(roles, self.whole, own, self.call.bound[0], self.first)
        if one.run is None:
            return None
        names = roles.graph.names
        inputs = {names[i]: places[i.name] for i in roles.graph.inputs if i.name in places}
        fields = [p for p in one.run.variants.program.inputs if p.field and p.shape != "scalar"]
        again = one.run.again(inputs | _fields(fields, roles.layout, len(places)),
                              {p.name: maker(p, one.rows, one.like) for p in one.outputs})
        if again is None:
            return None
        results, first = nested(roles.graph.structure, {}, len(one.outputs)), self.first
        n_cols = self.whole.n_cols
        return again, lambda made: (results(made, None), first, n_cols)


def _fields(params: Any, layout: StateLayout, place: int) -> dict[str, Place]:
    """Of states that begin at an address."""
    offsets = {f.name: f.offset for f in layout.fields}
    return {p.name: (place, offsets[p.field]) for p in params}
