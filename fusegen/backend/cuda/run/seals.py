"""The look at the seals of packets that ranks have exchanged: one launch of a fixed kernel."""

from __future__ import annotations

from functools import cache
from typing import Any

from fusegen.backend.cuda.run.device import bind_context, context_reader, cupy_module, on_device
from fusegen.backend.cuda.run.driver import Geometry, Launcher, driver
from fusegen.backend.cuda.run.families import torch_family
from fusegen.backend.cuda.run.nvrtc import machine_code
from fusegen.backend.emit.render import render
from fusegen.backend.emit.source import Source

SYMBOL, _THREADS, _MOST_BLOCKS = "fusegen_seals", 256, 128
_POINTERS = 4


class Seals:
    """For tables of so many packets of torch's, `apart` words apart, and states of so many words on
    a device; loaded now, so that graphs may record it."""

    def __init__(self, ranks: int, apart: int, words: int, device: int) -> None:
        with cupy_module().cuda.Device(device):
            bind_context()
            self._device, self._context = device, context_reader()()
            _, function = _loaded(self._context)
        blocks = max(1, min(_MOST_BLOCKS, -(-words // _THREADS)))
        geometry = Geometry(grid=blocks, threads=_THREADS)
        self._launcher = Launcher(driver(), SYMBOL, function, geometry, _POINTERS,
                                  (ranks, apart, words))
        self._stream, self._current = torch_family().stream, context_reader()

    def check(self, packets: int, seal: int, states: int, wrong: int) -> None:
        """Queue it, on torch's stream: see `poison_unless_sealed`. All are addresses."""
        pointers = packets, seal, states, wrong
        if self._current() == self._context:
            self._launcher.launch(self._stream(self._device), pointers)
            return
        with on_device(self._device, self._context):
            self._launcher.launch(self._stream(self._device), pointers)


def source() -> str:
    """The kernel, the same for all devices."""
    body = render("cuda/roles/seals.cu.j2", {"symbol": SYMBOL, "threads": _THREADS})
    return Source(body=body, headers=("fusegen/states/seals.cuh",)).text()


@cache
def _loaded(context: int) -> tuple[Any, int]:
    """(what keeps it loaded, the function) in the current context."""
    module = cupy_module().cuda.function.Module()
    module.load(machine_code(source(), SYMBOL))
    function = module.get_function(SYMBOL)
    return (module, function), function.ptr
