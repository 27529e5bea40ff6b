"""The one exchange of a call: states of all ranks.

Checked at every call: each rank sends a block of a fixed size, header and states, and all that do
not fit in a second exchange, once every rank has read every header. So ranks that call differently
have sent the same number of bytes, and all of them know.

    ranks × (header, states …, 0 …) FIRST bytes   →   verified on hosts   →   the rest, if any

Checked once: what is exchanged is agreed at the first call of a kind, among hosts; from then on a
packet is a seal and the states, and no host waits for a device. What wrong seals come with becomes
0xff once merged: NaN, and columns of -1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from fusegen.distributed.agreement import check_alike, starts_of
from fusegen.distributed.calls import Call, Said
from fusegen.distributed.packets import HEADER_BYTES, SEAL_BYTES, Header, read, seal_of, written
from fusegen.distributed.ranks import HOST, Ranks, is_recorded, on_hosts
from fusegen.ir.errors import ExchangeError
from fusegen.ir.shared import Recent
from fusegen.pipeline.states.columns import Spans
from fusegen.pipeline.states.record import States

FIRST = 1 << 14
_KINDS = 256  # calls of these many kinds are known at once


@dataclass(frozen=True, eq=False)
class Met:
    """States of every rank, in the order of their columns; `mine` are this rank's."""

    mine: States
    table: Any  # uint8 (ranks, rows · bytes), packed: torch's memory, also while a graph is made
    columns: Spans  # of each of them
    first: int  # of this rank's columns
    right: Any = None  # bool (), where the states are: did ranks make one call? Known if None


@dataclass(eq=False)
class AtEveryCall:
    """Headers are verified before anything is made of the states beside them."""

    ranks: Ranks
    widths: Recent[int, tuple[int, ...]] = field(default_factory=lambda: Recent(_KINDS))

    def met(self, call: Call) -> Met:
        """Raises on every rank what is wrong on any."""
        while True:
            said = call.said(self._guess)
            blocks = self.ranks.gathered(_block(said, call.device), "states")
            headers = read(blocks[:, :HEADER_BYTES].to(HOST).numpy())
            check_alike(self.ranks, headers, said.words, said.error, call.device)
            assert said.states is not None
            starts = starts_of(headers)
            if all(h.at == s for h, s in zip(headers, starts, strict=True) if h.n_cols):
                break
            self._learn(headers)  # on every rank: all fold again
        columns = _columns(starts, headers)
        rest = _bytes_of(said.states)[FIRST - HEADER_BYTES :]
        table = blocks[:, HEADER_BYTES : HEADER_BYTES + said.header.body]
        if rest.numel():
            table = torch.cat([table, self.ranks.gathered(rest, "states")], 1)
        return _met(said.states, table, columns, self.ranks)

    def _guess(self, n_cols: int) -> int:
        """As when a rank last had so many columns; before that, as if all had."""
        widths = self.widths.get(n_cols)
        rank = self.ranks.rank
        return rank * n_cols if widths is None else sum(widths[:rank])

    def _learn(self, headers: list[Header]) -> None:
        widths = tuple(h.n_cols for h in headers)
        self.widths.put(widths[self.ranks.rank], widths)


def _met(mine: States, table: Any, columns: Spans, ranks: Ranks, right: Any = None) -> Met:
    """table: by rank."""
    first, order = columns[ranks.rank][0], sorted(range(len(columns)), key=columns.__getitem__)
    if order == [*range(len(columns))]:
        return Met(mine, table.contiguous(), columns, first, right)
    sorted_table = torch.stack([table[r] for r in order])  # no host's list goes to a device
    return Met(mine, sorted_table, tuple(columns[r] for r in order), first, right)


def _columns(starts: list[int], headers: list[Header]) -> Spans:
    return tuple((s, s + h.n_cols) for s, h in zip(starts, headers, strict=True))


def _bytes_of(states: States) -> Any:
    """As a tensor, uint8 (rows · bytes,)."""
    return torch.as_tensor(states.array).reshape(-1)


def _block(said: Said, device: Any) -> Any:
    """What every rank sends first, uint8 (FIRST,)."""
    block = torch.zeros(FIRST, dtype=torch.uint8, device=device)
    block[:HEADER_BYTES] = torch.from_numpy(written(said.header))
    if said.states is not None:
        body = _bytes_of(said.states)[: FIRST - HEADER_BYTES]
        block[HEADER_BYTES : HEADER_BYTES + body.numel()] = body
    return block


# ---- agreed once ----


@dataclass(frozen=True, eq=False)
class Agreed:
    """What all ranks said of calls of a kind."""

    columns: Spans
    seal: Any  # uint8 (SEAL_BYTES,), where the states are


@dataclass(eq=False)
class Once:
    """Headers are verified at the first call of a kind; later calls wait for no host."""

    ranks: Ranks
    timeout: Any
    kinds: Recent[Any, Agreed] = field(default_factory=lambda: Recent(_KINDS))
    right: dict[Any, Any] = field(default_factory=dict)
    """Of each device, bool (): have all seals been right? Graphs that are recorded write there."""

    def met(self, call: Call) -> Met:
        agreed = self.kinds.get_or_make(call.key, lambda: self._agreed(call))
        if call.error is not None:
            raise call.error
        mine = call.folded(agreed.columns[self.ranks.rank][0])
        packet = torch.cat([agreed.seal, _bytes_of(mine)])
        packets = self.ranks.gathered(packet, "states")
        right = (packets[:, :SEAL_BYTES] == agreed.seal).all()
        self.right[packet.device].logical_and_(right)
        return _met(mine, packets[:, SEAL_BYTES:], agreed.columns, self.ranks, right)

    def _agreed(self, call: Call) -> Agreed:
        if is_recorded(call.device):
            raise ExchangeError(
                f"{call.pipeline.name} is called in a new way while a graph is recorded",
                why="What ranks exchange is agreed among their hosts at the first such call.",
                fix="Call it once with arrays like these before the graph is recorded.")
        hosts = on_hosts(self.ranks, self.timeout)
        said = call.said(lambda n_cols: 0)
        block = torch.from_numpy(written(said.header))
        headers = read(hosts.gathered(block, "their headers").numpy())
        check_alike(hosts, headers, said.words, said.error, HOST)
        columns = _columns(starts_of(headers), headers)
        seal = seal_of(said.header.seal, columns)
        kept = torch.frombuffer(bytearray(seal), dtype=torch.uint8).to(call.device)
        if kept.device not in self.right:
            self.right[kept.device] = torch.ones((), dtype=torch.bool, device=kept.device)
        return Agreed(columns, kept)

    def verify(self) -> None:
        """Wait for the exchanges so far. Raises ExchangeError where a seal was wrong."""
        wrong = [right for right in self.right.values() if not right]
        for right in wrong:
            right.fill_(True)
        if not wrong:
            return
        raise ExchangeError("an exchange met states of another call",
                            why="Ranks made calls in different orders; results were NaN and -1.",
                            fix="Make the same calls in the same order on every rank.")
