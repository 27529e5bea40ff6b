"""The look at the seals of packets that ranks have exchanged: one launch of a fixed kernel."""

from __future__ import annotations

from functools import cache
from typing import Any

from fusegen.backend.cuda.run.device import bind_context, context_reader, cupy_module
from fusegen.backend.cuda.run.driver import Geometry, Launcher, driver
from fusegen.backend.cuda.run.nvrtc import machine_code
from fusegen.backend.emit.render import render
from fusegen.backend.emit.source import Source

SYMBOL, _THREADS, _MOST_BLOCKS = "fusegen_seals", 256, 128
_POINTERS = 4


def seals_launch(ranks: int, apart: int, words: int, device: int) -> Launcher:
    """For tables of so many packets, `apart` words apart, and states of so many words; loaded now,
    so that graphs may record it. It takes addresses of packets, a seal, states, a bool: see
    `poison_unless_sealed`."""
    with cupy_module().cuda.Device(device):
        bind_context()
        _, function = _loaded(context_reader()())
    blocks = max(1, min(_MOST_BLOCKS, -(-words // _THREADS)))
    return Launcher(driver(), SYMBOL, function, Geometry(grid=blocks, threads=_THREADS), _POINTERS,
                    (ranks, apart, words))


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
