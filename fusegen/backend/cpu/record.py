"""Runs in numbers, as templates/xla/cpu.cpp reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fusegen.backend.backend import Record
from fusegen.backend.cpu.table import Array, words_of
from fusegen.backend.host.chunks import PIECE_COLUMNS
from fusegen.backend.host.threads import thread_count
from fusegen.backend.host.unmade import unmade
from fusegen.ir.kernel import Param

if TYPE_CHECKING:
    from fusegen.backend.cpu.launch import Launch

_LINE = 64  # bytes: arrays of a workspace begin on one


def recorded(
    launches: Sequence[Launch], told: Any, workspace: Sequence[Param],
    arrays: Mapping[str, Array], shape: tuple[int, int], order: tuple[str, ...],
) -> Record:
    """See `Recordable.record`. told: what the kernels were made from."""
    held = {p.name: unmade(shape if p.shape == "element" else shape[:1], p.dtype)
            for p in workspace}
    places = [(i, 0) for i in range(len(order))]
    end = 0
    for array in held.values():
        places.append((len(order), end))
        end += -(-array.size * array.itemsize // _LINE) * _LINE
    at = {name: i for i, name in enumerate((*order, *held))}
    words = [*shape, PIECE_COLUMNS, thread_count(), len(order), len(places),
             *(n for place in places for n in place), len(launches)]
    every: list[Any] = [told, shape, order]
    for launch in launches:
        table = words_of(launch.kernel, {**arrays, **held}, *shape)
        every.append(table)
        words += launch.addresses()
        words += [len(table), *(n for w in table
                                for n in ((0, w) if isinstance(w, int) else (1, at[w])))]
        sweeps = launch.sweeps()
        words += [len(sweeps), *(n for sweep in sweeps for n in sweep)]
    return Record(tuple(words), repr(every), end, tuple(launches))
