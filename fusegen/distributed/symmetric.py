"""An exchange by memory that ranks write to on one another's GPUs, and merges in the same launch.

    fold → states, in memory of the exchange
    one launch of every rank: states to all others, a wait for theirs, merge, finish

All calls of a group, whatever their pipelines, take turns in one such memory (the protocol is
<fusegen/meet/ranks.cuh>), in the order of their stream. It is made when a kind of call is agreed
upon that needs it, by all ranks together, and larger where a later kind needs more. It is never
given back: graphs may have recorded it. torch's symmetric memory is what maps it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal, get_args

import torch
import torch.distributed as dist

from fusegen.backend.memory import Adopted
from fusegen.backend.symmetric import Chained, Joint, Meet, Meeting
from fusegen.backend.symmetric import Place as Room
from fusegen.backend.words import Place, word
from fusegen.distributed.levels import host_name, timeout_of
from fusegen.distributed.order import InOrder
from fusegen.distributed.ranks import HOST, Members, Ranks
from fusegen.ir.errors import ArgumentError, ExchangeError
from fusegen.ir.shared import lazy
from fusegen.pipeline.states.roles import Roles

Exchange = Literal["auto", "collective", "symmetric"]
EXCHANGES = " ".join(get_args(Exchange))

PIECED = "rows are of canonical pieces"

_LEAST_BYTES, _LEAST_GROUPS = 1 << 20, 1 << 11
_MOST_RANKS = 64
_PATIENCE = timedelta(minutes=10)  # where a group does not say how long it waits
_OTHER_CALL, _LOST_RANK = 0, 1  # words that launches tell the host
_WORDS = 4  # of the memory that a rank's launches leave to one another
_SAID = 512  # bytes of what a rank says of what it can


@dataclass(eq=False)
class Boxes:
    """The memory of one exchange on a rank, and what its launches have told."""

    place: Room
    places: tuple[int, ...]  # addresses of every rank's place, here
    rank: int
    patience: int  # nanoseconds
    memory: Any  # torch's: kept
    order: InOrder
    states: Any = field(init=False)  # uint8: this rank's, as folded
    merged: Any = field(init=False)
    control: Any = field(init=False)
    told: Any = field(init=False)
    kept: list[Any] = field(default_factory=list, init=False)  # what launches use

    @property
    def device(self) -> Any:
        return self.order.device

    def __post_init__(self) -> None:
        room = self.place.room
        self.states, self.merged = torch.zeros(2, room, dtype=torch.uint8, device=self.device)
        self.control = torch.zeros(_WORDS, dtype=torch.int64, device=self.device)
        self.told = torch.zeros(2, dtype=torch.int64, pin_memory=self.device.type != HOST.type)
        self._told = (ctypes.c_longlong * 2).from_address(self.told.data_ptr())

    @property
    def words(self) -> tuple[int, ...]:
        """What every launch takes behind states."""
        return (*self.places, self.places[self.rank], self.control.data_ptr(),
                self.told.data_ptr())

    def enter(self) -> None:
        """Before a call. Raises ExchangeError where a rank was lost."""
        if self._told[_LOST_RANK]:
            raise self.lost()
        self.order.enter()

    def verify(self) -> bool:
        """Wait for the calls so far. Did one meet states of another call? Raises ExchangeError
        where a rank was lost."""
        _wait(self.device)
        if self._told[_LOST_RANK]:
            raise self.lost()
        found, self._told[_OTHER_CALL] = bool(self._told[_OTHER_CALL]), 0
        return found

    def lost(self) -> ExchangeError:
        return ExchangeError(
            f"rank {self.rank} of {self.place.ranks} did not get states from the others within "
            f"{self.patience / 1e9:g} s",
            why="A process is lost, does not come, or calls something else. Results since then are "
            "NaN and -1.",
            fix="Look at the other ranks' errors; make the group anew (init_process_group).")


@dataclass(frozen=True, eq=False)
class Kind:
    """Calls of a kind, which meet in memory that all ranks have agreed upon."""

    boxes: Boxes
    joint: Joint
    tag: int  # the same on all ranks, and another for other calls
    roles: Roles
    memory: Meeting

    def meet(self, finishes: bool) -> Meet:
        """Raises BackendError."""
        joint = replace(self.joint, finishes=finishes)
        return self.memory.meet(joint, self.boxes.device.index)

    def launch(self, meet: Meet, first_column: int, n_cols: int) -> Any:
        """See `Meet.launch`."""
        boxes, place = self.boxes, self.boxes.place
        known = {"own_rank": boxes.rank, "most_groups": place.groups, "room": place.room,
                 "tag": self.tag, "patience": boxes.patience, "n_rows": self.joint.n_rows,
                 "whole_columns": n_cols, "first_column": first_column}
        return meet.launch({n: known[n] for n in meet.numbers})

    def words(self, meet: Meet, states: Place, merged: Place) -> tuple[Place, ...]:
        """What it takes, but for what is `given`."""
        scalars = self.roles.scalars(self.roles.merge)
        held = (word(scalars[p.name]) for p in meet.held)
        return (states, *((-1, w) for w in self.boxes.words), merged, *((-1, w) for w in held))

    def merged(self, states: Any) -> Any:
        """⊕ of all ranks' states, uint8 like this rank's, which are packed."""
        self.boxes.enter()
        found = torch.empty_like(states)
        self._merging.run([states.data_ptr(), found.data_ptr()])
        return found

    @lazy
    def _merging(self) -> Chained:
        meet = self.meet(False)
        launch = self.launch(meet, 0, 0), self.words(meet, (0, 0), (1, 0))
        return self.memory.chain([launch], (), 2, self.boxes.device.index)


# ---- agreed upon by all ranks ----

_BOXES: dict[tuple[int, Any], tuple[Any, Boxes | str]] = {}
"""Of groups: the latest memory, or why there is none."""


def agreed_kind(
    members: Members, hosts: Members, asked: Exchange, joint: Joint, tag: int, n_bytes: int,
    roles: Roles, like: Adopted,
) -> Kind | str:
    """How calls of this kind meet, or why they do not: the same on all ranks, which call this
    together. n_bytes: of a rank's states."""
    why = 'exchange="collective" was asked for' if asked == "collective" else (
        _elsewhere(like) or _refused(members, like))
    words = _said(hosts, f"{host_name()}\n{_device_name(like)}\n{why}")
    if found := _differs(words):
        return found
    assert isinstance(members, Ranks)
    assert isinstance(like.memory, Meeting)
    order, kind = InOrder(torch.device(like.memory.name, like.index), like.memory.streams()), None
    try:
        meet = like.memory.meet(joint, like.index)
        groups = -(-joint.n_rows // meet.rows_per_block)
        kind = Kind(_boxes(members, groups, n_bytes, order), joint, tag, roles, like.memory)
    except Exception as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
    failed = [f"rank {r}: {w}" for r, w in enumerate(_said(hosts, why)) if w]
    if kind is None or failed:
        why = "; ".join(failed)
        _BOXES[id(members.group), order.device] = members.group, why
        return why
    return kind


def hindrance(members: Members) -> str:
    """Why these ranks do not meet so, as all of them know; "": they may."""
    if not isinstance(members, Ranks):
        return "ranks meet by nodes"
    if members.size > _MOST_RANKS:
        return f"there are more than {_MOST_RANKS} ranks"
    return ""


def expected(members: Members, pieces: int | None) -> str:
    """Why calls of tensors on GPUs will not meet so, as far as one rank knows before any."""
    return hindrance(members) or (PIECED if pieces is not None else "")


def has_gpus(group: Any) -> bool:
    """May the ranks of what a row is sharded over have them?"""
    group = None if hasattr(group, "get_group") else group
    return "nccl" in str(dist.get_backend(group))


def _elsewhere(like: Adopted) -> str:
    meets = like.family == "torch" and isinstance(like.memory, Meeting)
    return "" if meets else f"arrays are on {like.place}"


def _refused(members: Members, like: Adopted) -> str:
    """Why there is no memory, if that is known from an earlier kind."""
    group, found = _BOXES.get((id(members.group), torch.device(like.memory.name, like.index)),
                              (None, ""))
    return found if isinstance(found, str) and group is members.group else ""


def _said(hosts: Members, mine: str) -> list[str]:
    said = mine.encode()[:_SAID]
    block = torch.zeros(_SAID, dtype=torch.uint8)
    if said:
        block[: len(said)] = torch.frombuffer(bytearray(said), dtype=torch.uint8)
    table = hosts.gathered(block, "how they exchange states").numpy()
    return [bytes(row).rstrip(b"\0").decode(errors="replace") for row in table]


def _device_name(like: Adopted) -> str:
    """Of a GPU, the same in all processes."""
    if like.memory.name == HOST.type:
        return "host"
    found = torch.get_device_module(like.memory.name).get_device_properties(like.index)
    return str(found.uuid)


def _differs(words: Sequence[str]) -> str:
    """Why they cannot meet."""
    places = [w.split("\n", 2) for w in words]
    reasons = dict.fromkeys(why for _, _, why in places if why)
    if reasons:
        return "; ".join(reasons)
    if len({host for host, _, _ in places}) > 1:
        return "ranks are on several hosts"
    if len({device for _, device, _ in places}) < len(places):
        return "ranks share a GPU"
    return ""


def _boxes(ranks: Ranks, groups: int, n_bytes: int, order: InOrder) -> Boxes:
    """Those of the group that hold so much, made by all ranks together where there are none."""
    device = order.device
    group, found = _BOXES.get((id(ranks.group), device), (None, ""))
    if isinstance(found, Boxes) and group is ranks.group and \
            found.place.groups >= groups and found.place.room >= n_bytes:
        return found
    place = Room(ranks.size, max(_LEAST_GROUPS, _power(groups)),
                  max(_LEAST_BYTES, _power(n_bytes)))
    memory, places = _mapped(ranks, place, device)
    limit = timeout_of(ranks.group) or _PATIENCE
    made = Boxes(place, places, ranks.rank, int(limit.total_seconds() * 1e9), memory, order)
    _wait(device)  # all is 0 before another rank writes there
    _BOXES[id(ranks.group), device] = ranks.group, made
    return made


def _mapped(ranks: Ranks, place: Room, device: Any) -> tuple[Any, tuple[int, ...]]:
    """(memory of this rank's place, addresses of all of them)."""
    if ranks.size == 1:
        memory = torch.zeros(place.n_bytes, dtype=torch.uint8, device=device)
        return memory, (memory.data_ptr(),)
    import torch.distributed._symmetric_memory as symmetric

    memory = symmetric.empty(place.n_bytes, dtype=torch.uint8, device=device)
    memory.zero_()
    handle = symmetric.rendezvous(memory, ranks.group)
    behind = memory.data_ptr() - handle.buffer_ptrs[handle.rank]
    if (handle.rank, handle.world_size) != (ranks.rank, ranks.size):
        raise ArgumentError("symmetric memory numbers the ranks of the group otherwise")
    return (memory, handle), tuple(int(at) + behind for at in handle.buffer_ptrs)


def _wait(device: Any) -> None:
    torch.get_device_module(device).synchronize(device)


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
