"""The programs of a call that has been served, for arrays that lie like its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fusegen.backend.arrays.adopt import adopt
from fusegen.backend.arrays.results import maker
from fusegen.backend.memory import Adopted
from fusegen.backend.words import Place
from fusegen.compile.roles import MERGED, STATES
from fusegen.distributed.packets import SEAL_BYTES
from fusegen.ir.shared import lazy
from fusegen.ir.state_layout import StateLayout
from fusegen.pipeline.ready import nested
from fusegen.pipeline.states.finished import Finish, laid_finish
from fusegen.pipeline.states.programs import Again
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.roles import Roles
from fusegen.pipeline.states.runs import laid_fold, laid_merge
from fusegen.pipeline.states.tables import states_in

Results = Callable[[list[Any], Any], Any]
"""From what was made to what a call finds."""


@dataclass(frozen=True, eq=False)
class Laid:
    """While the memory is being worked in. Places of arrays are known, others are said."""

    roles: Roles
    taken: Mapping[str, Adopted]
    given: Mapping[str, Any]  # as the caller gave them
    whole: States  # of whole rows
    first: int  # of this rank's columns
    places: Mapping[str, Place]

    @property
    def like(self) -> Adopted:
        return next(iter(self.taken.values()))

    @property
    def behind(self) -> int:
        """The place behind all arrays."""
        return len(self.places)

    @property
    def words(self) -> int:
        """Of the states of whole rows, 64 bits each."""
        found: int = torch.as_tensor(self.whole.array).numel() // 8
        return found

    def fold(self, states: Place) -> Again | None:
        roles = self.roles
        one = laid_fold(roles, roles.fold, self.taken, self.first)
        names = roles.fold.graph.names
        inputs = {names[i]: self.places[i.name] for i in roles.fold.graph.inputs
                  if i.name in self.places}
        return one.run.again(inputs | _fields(roles.fold.program.outputs, roles.layout, states))

    def merge(self, packet: Any, parts: int, table: Place, whole: Place) -> Again | None:
        """Of packets like this one; table: of their states, behind the first one's seal."""
        n_bytes = self.whole.array.shape[-1]
        size = torch.as_tensor(self.whole.array).numel()
        packets = packet.new_empty(parts, packet.numel()).view(torch.uint8)
        stack = packets[:, SEAL_BYTES : SEAL_BYTES + size].view(parts, -1, n_bytes)
        taken, own = adopt("gathered", stack), adopt("states", self.whole.array)
        run = laid_merge(self.roles, states_in(taken.array, self.roles.layout),
                         own.array.reshape(-1, n_bytes), taken)
        return run.again({STATES: table, MERGED: whole})

    @lazy
    def finish(self) -> Finish:
        own = adopt("states", self.whole.array)
        return laid_finish(self.roles, self.whole, own, self.given, self.first)

    def makers(self) -> dict[str, Callable[[], Any]]:
        """What makes memory for results, by name."""
        one = self.finish
        return {p.name: maker(p, one.rows, one.like) for p in one.outputs}

    def results(self) -> Results:
        first, n_cols = self.first, self.whole.n_cols
        found = nested(self.roles.graph.structure, {}, len(self.finish.outputs))
        return lambda made, out: (found(made, out), first, n_cols)

    def finished(self, states: Place) -> dict[str, Place]:
        """Places of what results are made of, and of results behind all arrays."""
        names, run = self.roles.graph.names, self.finish.run
        assert run is not None
        fields = [p for p in run.variants.program.inputs if p.field and p.shape != "scalar"]
        inputs = {names[i]: self.places[i.name] for i in self.roles.graph.inputs
                  if i.name in self.places}
        made = {p.name: (self.behind + i, 0) for i, p in enumerate(self.finish.outputs)}
        return inputs | _fields(fields, self.roles.layout, states) | made


def _fields(params: Any, layout: StateLayout, states: Place) -> dict[str, Place]:
    """Of states that begin at an address."""
    offsets, (place, first) = {f.name: f.offset for f in layout.fields}, states
    return {p.name: (place, first + offsets[p.field]) for p in params}
