"""Runs in numbers, as templates/xla/cpu.cpp reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fusegen.backend.cpu.table import Array, shape_in_workspace, words_of
from fusegen.backend.executable import Record
from fusegen.backend.host.threads import thread_count
from fusegen.backend.host.unmade import unmade
from fusegen.backend.words import scalar_bits
from fusegen.ir.kernel import Param

if TYPE_CHECKING:
    from fusegen.backend.cpu.launch import Launch

_LINE = 64  # bytes: arrays of a workspace begin on one


def recorded(
    launches: Sequence[Launch], told: Any, workspace: Sequence[Param],
    arrays: Mapping[str, Array], shape: tuple[int, int], order: tuple[str, ...],
) -> Record:
    """See `Recordable.record`. told: what the kernels were made from."""
    held = {p.name: unmade(shape_in_workspace(p, *shape), p.dtype) for p in workspace}
    places = [(i, 0) for i in range(len(order))]
    end = 0
    for array in held.values():
        places.append((len(order), end))
        end += -(-array.size * array.itemsize // _LINE) * _LINE
    at = {name: i for i, name in enumerate((*order, *held))}
    words = [*shape, thread_count(), len(order), len(places),
             *(n for place in places for n in place), len(launches)]
    scalars = {n: scalar_bits(a) for n, a in arrays.items() if not a.ndim and n not in order}
    every: list[Any] = [told, shape, order, scalars]
    for launch in launches:
        table = words_of(launch.kernel, {**arrays, **held}, *shape)
        every.append(table)
        words += [*launch.addresses(), launch.piece]
        words += [len(table), *(n for w in table for n in _argument(w, arrays, at))]
        sweeps = launch.sweeps()
        words += [len(sweeps), *(n for sweep in sweeps for n in sweep)]
    return Record(tuple(words), repr(every), end, tuple(launches))


def _argument(word: str | int, arrays: Mapping[str, Array], at: Mapping[str, int]
              ) -> tuple[int, int]:
    """(kind, number) of a word of a kernel's struct: see `Argument` in templates/xla/cpu.cpp."""
    if isinstance(word, int):
        return 0, word
    given = arrays.get(word)
    if given is None or given.ndim:
        return 1, at[word]
    return (given.itemsize, at[word]) if word in at else (0, scalar_bits(given))
