"""The processes of a group, and what moves bytes between them: torch.distributed alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllgatherOptions

from fusegen.backend.registry import memories
from fusegen.ir.errors import ArgumentError, ExchangeError

_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class Members(Protocol):
    """Processes that exchange bytes."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def group(self) -> Any:
        """What they were made of."""

    def gathered(self, mine: Any, what: str) -> Any:
        """See `Ranks`."""


class Ranks:
    """The members of a group. Raises ArgumentError where there is none, or this process is not in
    it."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.rank: int = dist.get_rank(group)
        self.size: int = dist.get_world_size(group)
        if self.rank < 0:
            raise ArgumentError("this process is not in the group that a row is sharded over",
                                fix="Call sharded(…) on the group's own ranks alone.")

    def gathered(self, mine: Any, what: str) -> Any:
        """The bytes of every rank, uint8 (ranks, n), of uint8 (n,), n the same on every rank.

        Raises ExchangeError where that did not come about within the group's timeout."""
        if self.size == 1:
            return mine.reshape(1, -1)
        found = mine.new_empty(self.size * mine.numel())
        try:
            _all_gather(found, mine, group=self.group)
        except RuntimeError as error:
            raise lost(self, what, error) from error
        return found.view(self.size, -1)


    def gathering(self, mine: Any, found: Any, what: str) -> Callable[[], None]:
        """What does so from the same memory to the same memory, again and again: it asks the group
        itself, which torch's own functions take a third of their time to come to."""
        if self.size == 1:
            return lambda: None
        ask = getattr(self.group, "all_gather_single", None) or self.group._allgather_base
        options = AllgatherOptions()
        options.asyncOp = False

        def gather() -> None:
            try:
                work = ask(found, mine, options)
                if work is not None:
                    work.wait()
            except RuntimeError as error:
                raise lost(self, what, error) from error

        return gather


def lost(ranks: Ranks, what: str, error: Exception) -> ExchangeError:
    """Of an exchange that did not come about."""
    first = str(error).strip().partition("\n")[0]
    return ExchangeError(
        f"rank {ranks.rank} of {ranks.size} did not get {what} from the others",
        why=f"A process is lost, does not come, or calls something else: {first}",
        fix="Look at the other ranks' errors; make the group anew (init_process_group).")


def group_of(group: Any) -> Any:
    """A group as torch has it: given as such, as a DeviceMesh of one dimension, or None for all
    processes. Raises ArgumentError."""
    if not (dist.is_available() and dist.is_initialized()):
        raise ArgumentError("there is no process group to shard rows over",
                            fix="Call torch.distributed.init_process_group first (torchrun starts "
                            "the processes).")
    if group is not None and hasattr(group, "get_group"):  # a DeviceMesh
        if group.ndim != 1:
            raise ArgumentError(f"the mesh has {group.ndim} dimensions, a row lies along one",
                                fix='Give one of them: mesh["name"], or two: mesh["node", "gpu"].')
        group = group.get_group()
    return dist.group.WORLD if group is None else group


_HOSTS: dict[tuple[int, Any], tuple[Any, Ranks]] = {}


def on_hosts(ranks: Ranks, timeout: timedelta | None) -> Ranks:
    """The same members in a gloo group of its own: what is agreed there meets no exchange of
    states. Made once for a group, by all its members together."""
    key = (id(ranks.group), timeout)
    group, found = _HOSTS.get(key, (None, None))
    if found is None or group is not ranks.group:
        if ranks.size == 1:
            found = ranks
        else:
            members = dist.get_process_group_ranks(ranks.group)
            found = Ranks(dist.new_group(members, backend="gloo", timeout=timeout,
                                         use_local_synchronization=True))
        _HOSTS[key] = (ranks.group, found)
    return found


HOST = torch.device(memories()[-1].name)


def is_recorded(device: Any) -> bool:
    """Is a graph of the device's launches being recorded?"""
    return device.type != HOST.type and bool(
        torch.get_device_module(device).is_current_stream_capturing())
