"""A state as bytes: the same wherever it is made, merged, read, or shipped to.

    state = state_layout(monoid, compute)
    state.fields    name, type, count (K of a list), offset; natural alignment
    state.n_bytes   of one row, a multiple of 8

Fields stand in the order of `Monoid.components`. A best is `<name>_value`, `<name>` (its column),
a list `<list>_value` and `<list>_column`, K each and best first; a column of -1 stands where there
is no element yet. A sum of vectors has their numbers, one after the other. Pivots are not there:
they are functions of the fields, and every moving sum is kept relative to the pivot of its own
state. Integers and columns are int64, floats of the type that kernels compute in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np

from fusegen.ir.dtypes import BOOL, INT64, DType, Kind
from fusegen.ir.monoid import Best, Component, Folded, KBest, Monoid, Moving, Own

_BOUNDARY = 8


@dataclass(frozen=True, slots=True)
class Field:
    """`count` numbers of a type, `offset` bytes after the beginning of a row's state."""

    name: str
    dtype: DType
    count: int
    offset: int
    in_list: bool = False  # even if the list has one entry


@dataclass(frozen=True, slots=True)
class StateLayout:
    """Where everything of a state is. Equal layouts hold states of the same ⊕."""

    fields: tuple[Field, ...]
    n_bytes: int  # of one row
    digest: str  # of the fields and of ⊕: equal only where states may be merged

    @property
    def numpy(self) -> np.dtype[Any]:
        """The same as a structured dtype."""
        return np.dtype({
            "names": [f.name for f in self.fields],
            "formats": [(f.dtype.numpy, (f.count,)) for f in self.fields],
            "offsets": [f.offset for f in self.fields],
            "itemsize": self.n_bytes,
        })

    @property
    def has_gaps(self) -> bool:
        """Are there bytes that no field has?"""
        return sum(f.count * f.dtype.itemsize for f in self.fields) < self.n_bytes

    @property
    def boundary(self) -> int:
        """Bytes that states begin on."""
        return _BOUNDARY

    def __str__(self) -> str:
        shown = [f"{f.name} {f.dtype}{f'[{f.count}]' if f.count > 1 else ''} at {f.offset}"
                 for f in self.fields]
        return f"{', '.join(shown)}; {self.n_bytes} bytes"


def state_layout(monoid: Monoid, compute: DType) -> StateLayout:
    """The layout of a sweep's states; `compute`: the type of floats."""
    types: dict[Kind, DType] = {"float": compute, "int": INT64, "bool": BOOL}
    fields, end = [], 0
    for component in monoid.components:
        for name, kind, count in _numbers(component):
            dtype = types[kind]
            offset = -(-end // dtype.itemsize) * dtype.itemsize
            in_list = isinstance(component, KBest)
            fields.append(Field(name, dtype, count, offset, in_list))
            end = offset + count * dtype.itemsize
    n_bytes = -(-end // _BOUNDARY) * _BOUNDARY
    said = repr((fields, monoid.pivots, monoid.relatives, monoid.components))
    return StateLayout(tuple(fields), n_bytes, hashlib.sha256(said.encode()).hexdigest()[:16])


def _numbers(component: Component) -> Iterator[tuple[str, Kind, int]]:
    """(name, kind, count) of what a component keeps."""
    match component:
        case Folded(name=name, kind=kind, width=width) | Moving(name=name, kind=kind, width=width):
            yield name, kind, width
        case Best(name=name, kind=kind):
            yield component.value, kind, 1
            yield name, "int", 1
        case Own(name=name, operator=operator):
            for field in operator.fields:
                yield f"{name}.{field.name}", field.kind, 1
        case KBest(k=k, kind=kind):
            yield component.value, kind, k
            yield component.column, "int", k
        case _:
            assert_never(component)
