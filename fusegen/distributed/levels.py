"""An exchange inside nodes first, then across them: what leaves a node is one state for all of its
ranks, however many these are.

    fold → all-gather inside the node → merge → all-gather across nodes → merge

Across nodes, ranks of the same number exchange. Ranks are numbered node by node, and merge in that
order at both levels, so operators that keep the order of a row do. Both merges are made by every
rank of a node, of the same states: all have the same bits.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from fusegen.distributed.calls import Call
from fusegen.distributed.packets import SEAL_BYTES, unsealed
from fusegen.distributed.pieces import runs_of
from fusegen.distributed.ranks import Members, Ranks, group_of, on_hosts
from fusegen.distributed.tables import Met, merged_runs, met_of, padded
from fusegen.ir.errors import ArgumentError, ExchangeError
from fusegen.pipeline.states.columns import Spans
from fusegen.pipeline.states.record import States

_NAME = 256  # bytes of a host's name


@dataclass(frozen=True, eq=False)
class Levels:
    """The ranks of nodes that have as many as one another. inside: those of this node; across:
    those of this number in every node."""

    group: Any
    inside: Ranks
    across: Ranks

    @property
    def rank(self) -> int:
        return self.across.rank * self.inside.size + self.inside.rank

    @property
    def size(self) -> int:
        return self.across.size * self.inside.size

    def gathered(self, mine: Any, what: str) -> Any:
        """See `Ranks`."""
        node = self.inside.gathered(mine, what).reshape(-1)
        return self.across.gathered(node, what).reshape(self.size, -1)


def hosts_of(members: Members, timeout: timedelta | None) -> Members:
    """The same on hosts: see `on_hosts`."""
    if isinstance(members, Levels):
        return Levels(members.group, on_hosts(members.inside, timeout),
                      on_hosts(members.across, timeout))
    assert isinstance(members, Ranks)
    return on_hosts(members, timeout)


# ---- which ranks are a node ----


def checked_nodes(per_node: Any) -> int | str | None:
    """Raises ArgumentError."""
    whole = isinstance(per_node, int) and not isinstance(per_node, bool) and per_node > 0
    if per_node is None or per_node == "host" or whole:
        found: int | str | None = per_node
        return found
    raise ArgumentError(f"per_node is {per_node!r}",
                        fix='Give a number of ranks, or "host": as many as there are on each.')


def place_of(group: Any) -> Any:
    """What ranks are found by: a mesh of two dimensions, or a group as torch has it."""
    if getattr(group, "ndim", 0) == 2 and hasattr(group, "get_group"):
        return group
    return group_of(group)


def is_still(members: Members, group: Any) -> bool:
    """Are these the members of what `place_of` finds now? Asked at every call."""
    world = dist.group.WORLD  # None: there are no processes any more
    return world is not None and (group is not None or members.group is world)


_MADE: dict[tuple[int, int | str | None, Any], tuple[Any, Members]] = {}


def members_of(place: Any, per_node: int | str | None, timeout: timedelta | None) -> Members:
    """The ranks of `place_of`, by nodes if that is asked for; groups of nodes are made once, by all
    ranks together. Raises ArgumentError."""
    if per_node is None and not hasattr(place, "get_group"):
        return Ranks(place)
    key = (id(place), per_node, timeout)
    known, found = _MADE.get(key, (None, None))
    if found is None or known is not place:
        found = _of_mesh(place, per_node) if hasattr(place, "get_group") else \
            _of_group(place, per_node, timeout)
        _MADE[key] = place, found
    return found


def _of_mesh(mesh: Any, per_node: int | str | None) -> Members:
    if per_node is not None:
        raise ArgumentError(f"per_node={per_node!r} beside a mesh of two dimensions",
                            why="Its second dimension is the ranks of a node.", fix="Give one.")
    table = mesh.mesh
    rising = all(bool((table.diff(dim=d) > 0).all()) for d in (0, 1))
    if not rising:
        raise ArgumentError(f"the ranks of the mesh {table.tolist()} do not rise along both of its "
                            "dimensions", why="Torch's groups count their ranks upwards.",
                            fix="Order them, node by node.")
    return Levels(mesh, Ranks(mesh.get_group(1)), Ranks(mesh.get_group(0)))


def _of_group(group: Any, per_node: int | str | None, timeout: timedelta | None) -> Members:
    ranks = Ranks(group)
    n = _on_each_host(ranks, timeout) if isinstance(per_node, str) else per_node
    assert n is not None
    if ranks.size % n:
        raise ArgumentError(f"{ranks.size} ranks are no whole nodes of {n}",
                            fix=f"per_node= divides {ranks.size}.")
    if n in (1, ranks.size):
        return ranks
    members, backend = dist.get_process_group_ranks(group), dist.get_backend(group)
    node, limit = ranks.rank // n * n, timeout or timeout_of(group)
    both = [dist.new_group(found, timeout=limit, backend=backend, use_local_synchronization=True)
            for found in (members[node : node + n], members[ranks.rank % n :: n])]
    return Levels(group, *map(Ranks, both))


def timeout_of(group: Any) -> timedelta | None:
    """How long its exchanges wait; None, torch's default, where this torch does not say it."""
    try:
        found: timedelta = group._get_backend(group._device_types[0]).options._timeout
    except (AttributeError, IndexError, RuntimeError):
        return None
    return found


def host_name() -> str:
    """The same in all processes of a host, and in none of another's."""
    return socket.gethostname()


def _on_each_host(ranks: Ranks, timeout: timedelta | None) -> int:
    """How many ranks each host has. Raises ArgumentError on all of them where these are several
    numbers, or hosts take turns."""
    mine = torch.zeros(_NAME, dtype=torch.uint8)
    said = host_name().encode()[:_NAME]
    mine[: len(said)] = torch.frombuffer(bytearray(said), dtype=torch.uint8)
    names = [bytes(row) for row in on_hosts(ranks, timeout).gathered(mine, "hosts").tolist()]
    hosts = [*dict.fromkeys(names)]
    n = len(names) // len(hosts)
    if names != [h for h in hosts for _ in range(n)]:
        counts = ", ".join(str(names.count(h)) for h in hosts)
        raise ArgumentError("the ranks of the group are not the same number of neighbours on every "
                            "host", why=f"Its {len(hosts)} hosts have {counts}.",
                            fix="Leave per_node= away, or order the ranks host by host.")
    return n


# ---- the exchange ----


@dataclass(frozen=True, eq=False)
class Sealed:
    """What packets begin with: `mine` of this rank, `seal` if all is well. wrong: see `unsealed`.
    """

    seal: Any
    mine: Any
    wrong: Any

    def after(self, found: Any) -> Sealed:
        """Behind an exchange that met a wrong seal, if bool () `found` says so: other nodes see one
        then, too."""
        return replace(self, mine=torch.where(found, ~self.seal, self.seal))


def by_levels(
    call: Call, runs: Sequence[States], shards: Sequence[Spans], levels: Levels,
    sealed: Sealed | None = None,
) -> Met:
    """States of every node, from those of this rank. shards: columns of each rank's states."""
    n = levels.inside.size
    nodes = [_of_node(shards[i : i + n], i, call.pieces) for i in range(0, levels.size, n)]
    mine = levels.across.rank * n
    met = _exchanged(runs, shards[mine : mine + n], levels.inside, sealed)
    node = merged_runs(call, met)
    found = _exchanged(node, nodes, levels.across, sealed and sealed.after(met.wrong))
    return replace(found, first=shards[levels.rank][0][0])


def _of_node(shards: Sequence[Spans], first: int, pieces: int | None) -> Spans:
    """The columns of each state that a node is left with. Raises ExchangeError."""
    spans = sorted(one for shard in shards for one in shard if one[1] > one[0])
    start, end = (spans[0][0], spans[-1][1]) if spans else shards[0][0]
    if sum(j - i for i, j in spans) != end - start:
        raise ExchangeError(
            f"the columns of ranks {first} … {first + len(shards) - 1} are no run",
            why=f"They are {spans}; a node's states meet before those of others.",
            fix="Give a node's ranks neighbouring columns, or leave per_node= away.")
    return runs_of(start, end, pieces)


def _exchanged(
    runs: Sequence[States], shards: Sequence[Spans], ranks: Ranks, sealed: Sealed | None
) -> Met:
    n_bytes = max(map(len, shards)) * math.prod(runs[0].array.shape)
    packet = padded(runs, n_bytes)
    if sealed is None:
        table = ranks.gathered(packet, "states") if n_bytes else packet.new_empty(ranks.size, 0)
        return met_of(runs[0], table, shards, ranks)
    packet = torch.cat([sealed.mine, packet.view(torch.int64)])
    table = ranks.gathered(packet, "states")
    wrong = unsealed(table, sealed.seal, sealed.wrong)
    rest = table.view(torch.uint8)[:, SEAL_BYTES:]
    return met_of(runs[0], rest, shards, ranks, wrong)
