"""Calls that share memory, whatever streams they are made on: one after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fusegen.distributed.ranks import is_recorded


@dataclass(slots=True, eq=False)
class InOrder:
    """Of one device. Those that a graph records take the order in which it is replayed."""

    device: Any
    current: Callable[[int], int]  # the handle of the stream that a device works on
    handle: int = -1  # of the latest call's
    stream: Any = None

    def enter(self) -> None:
        """Before a call: its stream waits for the latest one's, if that was another."""
        handle = self.current(self.device.index)
        if handle == self.handle or is_recorded(self.device):
            return
        now = torch.get_device_module(self.device).current_stream(self.device)
        if self.stream is not None:
            now.wait_event(self.stream.record_event())
        self.handle, self.stream = handle, now
