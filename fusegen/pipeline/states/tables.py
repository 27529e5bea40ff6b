"""Arrays of states: made, stacked, and where their fields are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fusegen.backend.arrays.results import Result, new_result
from fusegen.backend.arrays.rows import Rows
from fusegen.backend.memory import Adopted
from fusegen.backend.words import address
from fusegen.ir.dtypes import UINT8
from fusegen.ir.errors import ArgumentError
from fusegen.ir.kernel import Param
from fusegen.ir.state_layout import StateLayout
from fusegen.pipeline.states.record import States, adopted
from fusegen.pipeline.states.roles import Pipeline, Roles, roles_for


def roles_of(pipeline: Pipeline, states: States) -> Roles:
    """Those of the pipeline that made the states. Raises ArgumentError for another one."""
    found = roles_for(pipeline, dict(states.dtypes), dict(states.constants))
    if states.layout != found.layout:
        raise ArgumentError(f"{states!r} is of another operator than {pipeline.name}'s",
                            why=f"Its states are {found.layout}.",
                            fix="Finish and merge with the pipeline that made them.")
    return found


def array_of(pipeline: Pipeline, states: Any, name: str) -> Adopted:
    """The array of states of this pipeline. Raises ArgumentError."""
    found = adopted(states, name)
    signature = pipeline.signature
    theirs = {*dict(states.dtypes)}, {*dict(states.constants)}
    if not theirs[0] <= {*signature.arrays} or theirs[1] != {*signature.constants}:
        raise ArgumentError(f"{states!r} is not of {pipeline.name}",
                            fix="Finish and merge with the pipeline that made them.")
    return found


# ---- arrays of states ----


def packed_rows(taken: Adopted, layout: StateLayout) -> Any:
    """States one after the other, (n_rows, bytes), each field on its boundary."""
    found = taken.array.reshape(-1, layout.n_bytes)
    as_they_are = found.flags.c_contiguous and address(found) % layout.boundary == 0
    return found if as_they_are else found.copy()


def states_in(stack: Any, layout: StateLayout) -> Any:
    """(parts, …rows, bytes) as (parts, n_rows, bytes): where it lies, if each part's rows are
    packed and begin on their boundary, else a copy."""
    aligned = address(stack) % layout.boundary == 0 == stack.strides[0] % layout.boundary
    as_they_are = stack[0].flags.c_contiguous and aligned
    found = stack if as_they_are else stack.copy(order="C")
    return found.reshape(len(stack), -1, layout.n_bytes)


def stack_of(parts: Sequence[Any], n_rows: int, layout: StateLayout, like: Adopted) -> Any:
    """(len(parts), n_rows, bytes); of no parts an array that has an address all the same."""
    shape = (max(1, len(parts)), n_rows, layout.n_bytes)
    found = like.memory.view(like.memory.maker(shape, UINT8, like, None)())[: len(parts)]
    for i, part in enumerate(parts):
        found[i] = part
    return found


def new_states(
    lead: tuple[int, ...], layout: StateLayout, like: Adopted
) -> tuple[Result, Param, Rows]:
    """Memory for states of such rows, of the kind of array that came in. Equal states are equal
    bytes, also between fields."""
    param = Param("states", UINT8, "list", output=True, k=layout.n_bytes)
    rows = Rows(lead, (layout.n_bytes,), (len(lead),))
    result = new_result(param, rows, like)
    if layout.has_gaps:
        result.written[...] = 0
    return result, param, rows


def fields_in(states: Any, params: Iterable[Param], layout: StateLayout) -> dict[str, Any]:
    """Views of states (n_rows, bytes) by parameter name: (n_rows,), or (n_rows, K) of a list or a
    vector."""
    fields, found = {f.name: f for f in layout.fields}, {}
    for p in params:
        field = fields[p.field]
        first = field.offset // field.dtype.itemsize
        table = states.view(field.dtype.numpy)
        found[p.name] = table[:, first] if p.shape == "row" else table[:, first : first + p.k]
    return found
