"""Runs in numbers, as templates/xla/cuda.cpp reads them.

Counters lie in the workspace of the call and are zeroed by it: nobody else's launches use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fusegen.backend.cuda.run.driver import Driver, Geometry
from fusegen.backend.cuda.run.room import BOUNDARY, Counters, Room
from fusegen.backend.cuda.run.tensor_maps import Mapped, words_of
from fusegen.backend.executable import Record
from fusegen.backend.words import scalar_bits

_FUNCTIONS = ("cuLaunchKernelEx", "cuMemsetD8Async", "cuStreamGetCtx", "cuCtxPushCurrent_v2",
              "cuCtxPopCurrent_v2", "cuGetErrorName")


class Loaded(Protocol):
    """Kernels on a device."""

    source: str
    schedule: Any
    context: int
    driver: Driver


@dataclass(frozen=True, slots=True)
class Step:
    """One launch: its function's handle, names of its pointers, the numbers behind them, and the
    tensor maps behind those."""

    function: int
    geometry: Geometry
    pointers: tuple[str, ...]
    numbers: tuple[int, ...]
    maps: tuple[Mapped, ...] = ()


def recorded(
    loaded: Loaded, steps: Sequence[Step], room: Room, counters: Sequence[Counters],
    arrays: Mapping[str, Any], order: tuple[str, ...],
) -> Record:
    """See `Recordable.record`."""
    scalars = {name: (-1, scalar_bits(a)) for name, a in arrays.items() if not a.ndim}
    places = scalars | {name: (i, 0) for i, name in enumerate(order)}
    places |= {name: (len(order), offset) for name, offset in room.offsets.items()}
    end = room.n_bytes
    zeroed: list[int] = []
    for one in counters:
        places[one.name] = (len(order), end)
        zeroed += [end, one.n_bytes]
        end += -(-one.n_bytes // BOUNDARY) * BOUNDARY
    words = [loaded.context, *map(loaded.driver.address, _FUNCTIONS), len(order),
             len(counters), *zeroed, len(steps)]
    for step in steps:
        shape = step.geometry
        words += [step.function, shape.grid, shape.threads, shape.shared_bytes, shape.cluster,
                  shape.together, len(step.pointers), *(n for p in step.pointers
                                                        for n in places[p]),
                  len(step.numbers), *step.numbers, len(step.maps)]
        if step.maps:
            words += [loaded.driver.address("cuTensorMapEncodeTiled"),
                      *(n for m in step.maps for n in words_of(m))]
    told = [(s.geometry, s.pointers, s.numbers, s.maps) for s in steps]
    every = loaded.source, loaded.schedule, order, told, scalars
    return Record(tuple(map(int, words)), repr(every), end, loaded)
