"""Launches in which ranks meet, through memory that they write to on one another's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from fusegen.backend.cuda.run.device import (
    bind_context,
    context_reader,
    cupy_module,
    current_target,
)
from fusegen.backend.cuda.run.driver import Geometry, Launcher, driver
from fusegen.backend.cuda.run.nvrtc import machine_code
from fusegen.backend.symmetric import Joint

if TYPE_CHECKING:
    from fusegen.backend.cuda.emit.meet import Meet


class Meets:
    """See `symmetric.Meet`; loaded now, so that graphs may record it."""

    def __init__(self, joint: Joint, device: int) -> None:
        with cupy_module().cuda.Device(device):
            bind_context()
            meet, text = _printed(joint)
            _, function = _loaded(context_reader()(), text, meet.symbol)
            threads = meet.schedule.threads
            one = Geometry(grid=1, threads=threads)
            count = cupy_module().cuda.Device().attributes["MultiProcessorCount"]
            at_once = driver().blocks_at_once(function, one, count)
        self.rows_per_block = meet.schedule.rows_per_block
        self.numbers, self.held, self.given = meet.numbers, meet.held, meet.given
        groups = -(-joint.n_rows // self.rows_per_block)
        self._launched = Geometry(grid=min(groups, at_once), threads=threads), function, meet

    def launch(self, numbers: Mapping[str, int]) -> Launcher:
        """See `symmetric.Meet`."""
        geometry, function, meet = self._launched
        return Launcher(driver(), meet.symbol, function, geometry, len(meet.words),
                        tuple(numbers[n] for n in meet.numbers))


def _printed(joint: Joint) -> tuple[Meet, str]:
    from fusegen.backend.cuda.emit.meet import Meet, meet_source
    from fusegen.backend.cuda.schedule.states import meeting_schedule

    schedule = meeting_schedule(joint.merge, joint.finish, joint.ranks, current_target())
    meet = Meet(joint.merge, joint.finish if joint.finishes else None, schedule, joint.ranks)
    return meet, meet_source(meet).text()


@cache
def _loaded(context: int, text: str, symbol: str) -> tuple[Any, int]:
    """(what keeps it loaded, the function) in the current context."""
    module = cupy_module().cuda.function.Module()
    module.load(machine_code(text, symbol))
    function = module.get_function(symbol)
    return (module, function), function.ptr
