"""A state of every row of a piece, as bytes where the rows' arrays were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.backend.arrays.adopt import adopt, on_host
from fusegen.backend.memory import Adopted
from fusegen.ir.dtypes import UINT8, DType
from fusegen.ir.errors import ArgumentError
from fusegen.ir.state_layout import StateLayout
from fusegen.lang.blame import blames
from fusegen.pipeline.states import written
from fusegen.pipeline.states.columns import Spans
from fusegen.pipeline.states.roles import Pipeline, roles_for


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """What a pipeline knows of pieces of rows.

    `array`: uint8 (…rows, layout.n_bytes), of the kind and on the device of what it was made of:
    one buffer, all that an exchange between places has to move.
    `n_cols`: how many columns of each row these states have seen.
    `columns`: which they were, as spans (first, end); not said of pieces whose states do not depend
    on it, where no `at` was given.
    """

    array: Any
    layout: StateLayout
    n_cols: int
    columns: Spans
    pipeline: str
    dtypes: tuple[tuple[str, DType], ...]  # of the inputs
    constants: tuple[tuple[str, Any], ...]

    def __repr__(self) -> str:
        rows = tuple(self.array.shape[:-1])
        seen = f"{self.n_cols} column{'' if self.n_cols == 1 else 's'} seen"
        return f"<states of {self.pipeline}: rows {rows}, {seen}, {self.layout}>"

    @blames
    def to_bytes(self) -> bytes:
        """These states for a file or another process, with all that `from_bytes` checks: magic,
        version, checksum, a header of JSON, and the states as they lie in memory (docs/states.md).
        """
        held = np.ascontiguousarray(on_host(adopted(self, "states")).array)
        header = written.Header(
            self.pipeline, written.said(self.layout), self.dtypes, self.constants,
            tuple(held.shape[:-1]), self.n_cols, self.columns)
        return written.encoded(header, held.reshape(-1).data)

    @staticmethod
    @blames
    def from_bytes(pipeline: Pipeline, data: Any, like: Any = None, **constants: Any) -> States:
        """States that `to_bytes` wrote, of this pipeline.

        data: bytes, or what has them as a buffer. like: an array whose kind and device states get,
        NumPy's if None. constants: those that have no text (members of enumerations, records).
        Raises ArgumentError for what is no such data, was cut off or changed, is of another version
        of the layout, another pipeline, or other constants.
        """
        kind = adopt("like", np.empty(0, np.uint8) if like is None else like)
        found, body = written.decoded(pipeline.name, pipeline.signature, data, constants)
        roles = roles_for(pipeline, dict(found.dtypes), dict(found.constants))
        written.check_layout(pipeline.name, found, roles.layout)
        table = np.frombuffer(body, np.uint8).reshape(*found.rows, roles.layout.n_bytes)
        with kind.memory.working(kind):
            own = kind.memory.maker(table.shape, UINT8, kind, None)()
            shaped = kind.memory.view(own)
            shaped[...] = kind.memory.from_host(table, UINT8)
            array = kind.memory.handed_back(shaped, own, UINT8, kind)
        return States(array, roles.layout, found.n_cols, found.columns, pipeline.name,
                      found.dtypes, found.constants)


def adopted(states: Any, name: str) -> Adopted:
    """Their array as it is. Raises ArgumentError for what are no states."""
    if not isinstance(states, States):
        raise ArgumentError(f"{name} is {type(states).__name__}, no states",
                            fix="p.states(x) of a pipeline p makes them.")
    found = adopt(name, states.array)
    shape = tuple(found.array.shape)
    if found.dtype != UINT8 or not shape or shape[-1] != states.layout.n_bytes:
        raise ArgumentError(
            f"{name} holds {found.dtype} {shape}, not uint8 (…, {states.layout.n_bytes})",
            why="A row's state is that many bytes.")
    return found
