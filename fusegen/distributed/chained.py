"""Steps whose launches stand one after another, in memory of their own: what a host does for a call
is one look at its arrays, memory for results, and launches, all of which compiled code may do.

    packet, a seal with states behind it  ←  fold      ⎫ ranks that write to one another's memory:
    table of all ranks' packets           ←  exchange  ⎬ fold, and one launch for the rest, or two
    results                               ←  merge, a look at seals, finish
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fusegen.backend.executable import Chainable
from fusegen.backend.symmetric import Chained, Meeting
from fusegen.backend.words import Place, word
from fusegen.distributed.laid import Laid, Results
from fusegen.distributed.order import InOrder
from fusegen.distributed.packets import SEAL_BYTES
from fusegen.distributed.ranks import Ranks
from fusegen.distributed.symmetric import Kind
from fusegen.pipeline.ready import Lesson
from fusegen.pipeline.states.programs import Again


@dataclass(slots=True, kw_only=True)
class MeetingStep:
    """A call but for its arrays' addresses, whose ranks meet in memory that they write to."""

    chain: Chained
    results: Results
    lesson: Lesson | None
    apart: tuple[Any, ...] = field(default=(), init=False)

    def run(self, pointers: list[int], named: Mapping[str, Any], out: Any) -> Any:
        """See `Ready`. Who calls has entered `Boxes`."""
        return self.results(self.chain.run(pointers), out)


def meeting_step(laid: Laid, kind: Kind) -> MeetingStep | None:
    """None where programs do not read these very arrays."""
    boxes, like = kind.boxes, laid.like
    states, merged = (-1, boxes.states.data_ptr()), (-1, boxes.merged.data_ptr())
    run = laid.finish.run
    if run is None or run.copies:
        return None
    known, meet = laid.finished(merged), kind.meet(kind.joint.finishes)
    given = (known.get(p.name) or (-1, word(run.arrays[p.name])) for p in meet.given)
    launch = kind.launch(meet, laid.first, laid.whole.n_cols)
    parts = [launched(laid.fold(states), boxes.kept),
             [(launch, (*kind.words(meet, states, merged), *given))]]
    if not kind.joint.finishes:
        parts.append(launched(run.again(known), boxes.kept))
    if not all(parts):
        return None
    chain = kind.memory.chain([one for part in parts for one in part],
                              tuple(laid.makers().values()), laid.behind, like.index)
    results = laid.results()
    sizes = tuple(laid.taken[n].dtype.itemsize for n in laid.places)
    return MeetingStep(chain=chain, results=results,
                       lesson=Lesson(chain, sizes, lambda met: (), results))


@dataclass(slots=True, kw_only=True)
class ChainedStep:
    """A call but for its arrays' addresses, whose ranks meet by an all-gather."""

    order: InOrder
    fold: Chained
    exchange: Callable[[], None]
    finish: Chained
    results: Results
    kept: list[Any]  # packets, and what else launches use
    apart: tuple[Any, ...] = field(default=(), init=False)
    lesson: Lesson | None = field(default=None, init=False)

    def run(self, pointers: list[int], named: Mapping[str, Any], out: Any) -> Any:
        """See `Ready`."""
        self.order.enter()
        self.fold.run(pointers)
        self.exchange()
        return self.results(self.finish.run(pointers), out)


def chained_step(laid: Laid, packet: Any, wrong: Any, ranks: Ranks) -> ChainedStep | None:
    """None where launches cannot stand one after another, or programs do not read these arrays.
    packet: int64, expanded, seals alone; wrong: see `unsealed`."""
    memory, run, like = laid.like.memory, laid.finish.run, laid.like
    if not isinstance(memory, Meeting) or run is None:
        return None
    own = packet.contiguous().view(-1)
    table = own if ranks.size == 1 else own.new_empty(ranks.size * own.numel())
    whole = own.new_empty(laid.words)
    kept: list[Any] = [own, table, whole, packet, wrong]
    place = -1, whole.data_ptr()
    seals = memory.seals(ranks.size, own.numel(), laid.words, like.index)
    look: tuple[Place, ...] = tuple((-1, at.data_ptr()) for at in (table, packet, whole, wrong))
    merge = laid.merge(own, ranks.size, (-1, table.data_ptr() + SEAL_BYTES), place)
    parts = [launched(merge, kept), [(seals, look)],
             launched(run.again(laid.finished(place)), kept)]
    fold = launched(laid.fold((-1, own.data_ptr() + SEAL_BYTES)), kept)
    if not fold or not all(parts):
        return None
    gather = ranks.gathering(own, table, "states")
    behind = memory.chain([one for part in parts for one in part],
                          tuple(laid.makers().values()), laid.behind, like.index)
    return ChainedStep(order=InOrder(own.device, memory.streams()),
                       fold=memory.chain(fold, (), laid.behind, like.index), exchange=gather,
                       finish=behind, results=laid.results(), kept=kept)


def launched(again: Again | None, kept: list[Any]) -> list[Any]:
    """The launches of a run, none where they cannot stand among others'."""
    if again is None or not isinstance(again.bound, Chainable):
        return []
    found, held = again.bound.chained(again.words)
    kept += (*held, again)
    return found
