"""The one exchange of a call: states of all ranks.

Checked at every call: each rank sends a block of a fixed size, header and states, and all that do
not fit in a second exchange, once every rank has read every header. So ranks that call differently
have sent the same number of bytes, and all of them know.

    ranks × (header, states …, 0 …) FIRST bytes   →   verified on hosts   →   the rest, if any

Over nodes (levels.py) headers go alone, and states in two exchanges with a merge in between.

Checked once: what is exchanged is agreed at the first call of a kind, among hosts; from then on a
packet is a seal and the states, and no host waits for a device. What wrong seals come with becomes
0xff once merged: NaN, and columns of -1. A call is remembered whole (steps.py) where it can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from fusegen.backend.arrays.adopt import adopt
from fusegen.backend.memory import Adopted
from fusegen.backend.symmetric import Joint
from fusegen.distributed.agreement import check_alike, starts_of
from fusegen.distributed.calls import Call, Said
from fusegen.distributed.levels import Levels, Sealed, by_levels, hosts_of
from fusegen.distributed.packets import (
    HEADER_BYTES,
    SEAL_BYTES,
    Header,
    read,
    seal_of,
    unsealed,
    written,
)
from fusegen.distributed.ranks import HOST, Members, Ranks, is_recorded
from fusegen.distributed.steps import Served
from fusegen.distributed.symmetric import PIECED, Boxes, Exchange, Kind, agreed_kind, hindrance
from fusegen.distributed.tables import Met, met_of, padded, shards_of
from fusegen.ir.errors import ArgumentError, ExchangeError
from fusegen.ir.literals import constant_key
from fusegen.ir.shared import Recent
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.remembered import MISS, Recall
from fusegen.pipeline.states.columns import Spans
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.roles import Roles
from fusegen.pipeline.states.tables import roles_of

FIRST = 1 << 14
_KINDS = 256  # calls of these many kinds are known at once


@dataclass(eq=False)
class AtEveryCall:
    """Headers are verified before anything is made of the states beside them."""

    ranks: Members
    widths: Recent[int, tuple[int, ...]] = field(default_factory=lambda: Recent(_KINDS))

    def met(self, call: Call) -> Met:
        """Raises on every rank what is wrong on any."""
        for pieces in (call.pieces, None):
            said = call.said(partial(self._guess, pieces=pieces))
            first = HEADER_BYTES if isinstance(self.ranks, Levels) else FIRST
            blocks = self.ranks.gathered(_block(said, call.device, first), "states")
            headers = read(blocks[:, :HEADER_BYTES].to(HOST).numpy())
            check_alike(self.ranks, headers, said.words, said.error, call.device)
            starts = starts_of(headers)
            if all(h.at == s for h, s in zip(headers, starts, strict=True) if h.n_cols):
                break
            self._learn(headers)  # on every rank: all fold again, where they have to
        shards = shards_of(starts, headers, call.pieces)
        if isinstance(self.ranks, Levels):
            return by_levels(call, said.runs, shards, self.ranks)
        n_bytes = max(map(len, shards)) * said.header.size
        rest = padded(said.runs, n_bytes)[FIRST - HEADER_BYTES :]
        table = blocks[:, HEADER_BYTES : HEADER_BYTES + n_bytes]
        if rest.numel():
            table = torch.cat([table, self.ranks.gathered(rest, "states")], 1)
        return met_of(said.runs[0], table, shards, self.ranks)

    def _guess(self, n_cols: int, pieces: int | None) -> int:
        """As when a rank last had so many columns; before that, as if all had. pieces: what shards
        begin with, if a guess that is wrong should fold, too."""
        widths = self.widths.get(n_cols)
        rank = self.ranks.rank
        found = rank * n_cols if widths is None else sum(widths[:rank])
        return found if pieces is None else found - found % pieces

    def _learn(self, headers: list[Header]) -> None:
        widths = tuple(h.n_cols for h in headers)
        self.widths.put(widths[self.ranks.rank], widths)


def _block(said: Said, device: Any, size: int) -> Any:
    """What every rank sends first, uint8 (size,): a header, and what fits of the states."""
    block = torch.zeros(size, dtype=torch.uint8, device=device)
    block[:HEADER_BYTES] = torch.from_numpy(written(said.header))
    if said.runs:
        body = padded(said.runs, len(said.runs) * said.header.size)[: size - HEADER_BYTES]
        block[HEADER_BYTES : HEADER_BYTES + body.numel()] = body
    return block


# ---- agreed once ----

_NOT_SAID = constant_key(None), constant_key(None)


def _places(at: int | None, columns: int | None) -> tuple[Any, ...]:
    if at is None and columns is None:
        return _NOT_SAID
    return constant_key(at), constant_key(columns)


@dataclass(frozen=True, eq=False)
class Agreed:
    """What all ranks said of calls of a kind."""

    shards: tuple[Spans, ...]  # by rank, the columns of each of its states
    n_bytes: int  # that each rank sends, beside the seal: as long as several seals
    seal: Any  # int64 (SEAL_BYTES / 8,), where the states are
    kind: Kind | None = None  # how they meet in memory that ranks write to; None: by collectives

    @property
    def in_order(self) -> bool:
        """Has every rank one state, and do they follow one another by rank?"""
        spans = [one for shard in self.shards for one in shard]
        return (len(spans) == len(self.shards) and spans == sorted(spans)
                and all(end > first for first, end in spans))


@dataclass(eq=False)
class Once:
    """Headers are verified at the first call of a kind; later calls wait for no host."""

    ranks: Members
    timeout: Any
    asked: Exchange = "auto"
    kinds: Recent[Any, Agreed] = field(default_factory=lambda: Recent(_KINDS))
    steps: Recall | None = None  # for arrays that lie alike
    text: object = None  # while it is the pipeline's, its text is what it was
    wrong: dict[Any, Any] = field(default_factory=dict)
    """Of each device, bool (): was a seal wrong? Graphs that are recorded write there."""
    boxes: set[Boxes] = field(default_factory=set)  # that calls have met in
    why: str | None = None
    """In the latest kind of call ranks do not write to one another's memory; "": they do."""

    def again(
        self, pipeline: Pipeline, arrays: tuple[Any, ...], named: Mapping[str, Any],
        at: int | None, columns: int | None,
    ) -> Any:
        """What a call like an earlier one finds, or MISS."""
        self._renew(pipeline)
        if self.steps is None:
            return MISS
        for boxes in self.boxes:
            boxes.enter()
        return self.steps.serve(arrays, named, None, _places(at, columns))

    def learn(self, call: Call, met: Met, whole: States) -> None:
        """Remember a call that has been served."""
        agreed = self.kinds.get(call.key)
        if agreed is None or not agreed.in_order or is_recorded(call.device):
            return
        if not isinstance(self.ranks, Ranks):  # two exchanges, with a merge in between
            return
        if self.steps is None:
            self.steps = Recall(call.pipeline.signature.arrays)
        words = agreed.n_bytes // SEAL_BYTES + 1
        packet = agreed.seal.expand(words, len(agreed.seal))
        served = Served(call, whole, met.first, self.ranks, packet, self.wrong[packet.device],
                        agreed.kind)
        served.keep(self.steps, _places(call.at, call.columns))

    def met(self, call: Call) -> Met:
        """Raises on every rank what is wrong on any, at the first call of a kind."""
        self._renew(call.pipeline)
        agreed = self.kinds.get_or_make(call.key, lambda: self._agreed(call))
        if call.error is not None:
            raise call.error
        runs = call.folded(agreed.shards[self.ranks.rank][0][0])
        if isinstance(self.ranks, Levels):
            sealed = Sealed(agreed.seal, agreed.seal, self.wrong[agreed.seal.device])
            return by_levels(call, runs, agreed.shards, self.ranks, sealed)
        if agreed.kind is not None:
            first, end = agreed.shards[self.ranks.rank][0][0], agreed.shards[-1][-1][-1]
            whole = agreed.kind.merged(torch.as_tensor(runs[0].array))
            return Met(runs[0], whole.view(1, -1), ((0, end),), first)
        states = padded(runs, agreed.n_bytes).view(torch.int64)
        table = self.ranks.gathered(torch.cat([agreed.seal, states]), "states")
        wrong = unsealed(table, agreed.seal, self.wrong[table.device])
        rest = table.view(torch.uint8)[:, SEAL_BYTES:]
        return met_of(runs[0], rest, agreed.shards, self.ranks, wrong)

    def _renew(self, pipeline: Pipeline) -> None:
        """Forget what was agreed of a text that has changed since, as every rank does."""
        watches = pipeline.traces.watches
        if watches.items or watches.others:  # asked at every call
            pipeline.traces.are_stale()
        if self.text is not pipeline.traces.kinds:
            self.text, self.kinds, self.steps = pipeline.traces.kinds, Recent(_KINDS), None

    def _agreed(self, call: Call) -> Agreed:
        if is_recorded(call.device):
            raise ExchangeError(
                f"{call.pipeline.name} is called in a new way while a graph is recorded",
                why="What ranks exchange is agreed among their hosts at the first such call.",
                fix="Call it once with arrays like these before the graph is recorded.")
        hosts = hosts_of(self.ranks, self.timeout)
        said = call.said(lambda n_cols: 0)
        block = torch.from_numpy(written(said.header))
        headers = read(hosts.gathered(block, "their headers").numpy())
        check_alike(hosts, headers, said.words, said.error, HOST)
        shards = tuple(shards_of(starts_of(headers), headers, call.pieces))
        seal = seal_of(said.header.seal, shards)
        kept = torch.frombuffer(bytearray(seal), dtype=torch.int64).to(call.device)
        if kept.device not in self.wrong:
            self.wrong[kept.device] = torch.zeros((), dtype=torch.bool, device=kept.device)
        most = max(map(len, shards)) * said.header.size
        agreed = Agreed(shards, -(-most // SEAL_BYTES) * SEAL_BYTES, kept)
        return replace(agreed, kind=self._kind(call, said, agreed, hosts))

    def _kind(self, call: Call, said: Said, agreed: Agreed, hosts: Members) -> Kind | None:
        """How such calls meet. Raises ArgumentError where they cannot in the way that was asked
        for. Ranks ask one another only where what all of them know does not forbid it."""
        self.why = hindrance(self.ranks) or _unfit(call, said.header, agreed)
        if not self.why:
            found = agreed_kind(self.ranks, hosts, self.asked, *_joint(call, said, agreed))
            if isinstance(found, Kind):
                self.boxes.add(found.boxes)
                return found
            self.why = found
        if self.asked == "symmetric":
            raise ArgumentError(f"{call.pipeline.name} was to be exchanged by symmetric memory, "
                                "which these calls cannot", why=self.why,
                                fix='exchange="auto" takes it where it is available.')
        return None

    def verify(self) -> None:
        """Wait for the exchanges so far. Raises ExchangeError where a seal was wrong."""
        met_other = [boxes.verify() for boxes in self.boxes]
        wrong = [one for one in self.wrong.values() if one]
        for one in wrong:
            one.fill_(False)
        if not wrong and not any(met_other):
            return
        raise ExchangeError("an exchange met states of another call",
                            why="Ranks made calls in different orders; results were NaN and -1.",
                            fix="Make the same calls in the same order on every rank.")


def _unfit(call: Call, header: Header, agreed: Agreed) -> str:
    """Why such calls do not meet in memory that ranks write to, as all of them know; "": they may.
    """
    if call.pieces is not None:
        return PIECED
    if not agreed.in_order or header.n_rows == 0:
        return "shards without columns or rows, or that do not follow one another by rank"
    return "tensors are on hosts" if call.device.type == HOST.type else ""


def _joint(call: Call, said: Said, agreed: Agreed) -> tuple[Joint, int, int, Roles, Adopted]:
    """What `agreed_kind` asks."""
    states, header = said.runs[0], said.header
    roles = roles_of(call.pipeline, states)
    alone = not roles.full_rows and not roles.finish.program.has_vectors
    joint = Joint(roles.merge.program, roles.finish.program if alone else None, alone,
                  len(agreed.shards), header.n_rows)
    tag = int.from_bytes(seal_of(header.seal, agreed.shards)[:4], "little")
    return joint, tag, header.size, roles, adopt("states", states.array)
