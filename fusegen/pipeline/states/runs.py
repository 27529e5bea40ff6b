"""States as values: p.states(piece) → merge → p.finish, equal to p of the whole row.

    a, b = p.states(x[:, :n]), p.states(x[:, n:], at=n)
    p.finish(fg.merge(p, b, a))            # p(x): any split of a row, any order

A state is bytes, laid out as `States.layout` says, so it may be stored, sent, and merged elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusegen.backend.arrays.adopt import adopt, adopt_all, one_memory
from fusegen.backend.arrays.columns import check_last_column
from fusegen.backend.arrays.layout import lay_out_piece
from fusegen.backend.arrays.results import hand_back
from fusegen.backend.arrays.vectors import types_of
from fusegen.backend.memory import Adopted
from fusegen.backend.words import address
from fusegen.compile.roles import MERGED, STATES
from fusegen.ir.dtypes import UINT8
from fusegen.ir.errors import ArgumentError, ShapeError
from fusegen.lang.blame import blames
from fusegen.lang.signature import constants_key
from fusegen.pipeline.states.columns import Spans, in_order, span, together
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.roles import Pipeline, Roles
from fusegen.pipeline.states.tables import (
    Phase,
    array_of,
    fields_in,
    new_states,
    packed_rows,
    roles_of,
    run_role,
    stack_of,
)
from fusegen.pipeline.variants import Variants


def states_of(
    pipeline: Pipeline, present: Mapping[str, Any], constants: dict[str, Any],
    at: int | None,
) -> States:
    """States of the rows of a piece whose first column is number `at`; 0 where nothing is said."""
    taken = adopt_all(present)
    one_memory(taken)
    roles = Roles(pipeline, types_of(taken, pipeline.vectors), constants)
    return folded(roles, roles.fold, taken, at)


def folded(
    roles: Roles, fold: Variants, taken: Mapping[str, Adopted], at: int | None,
    lies: Phase | None = None,
) -> States:
    """The same of arrays that are taken in, by a fold of these roles. lies: how rows are said to
    lie to 16 bytes, whatever they do."""
    like = next(iter(taken.values()))
    rows, arrays = lay_out_piece(fold.graph, taken, like)
    first = at or 0
    check_last_column(roles.graph, first + rows.n_cols)
    columns = span(first, rows.n_cols)
    with like.memory.working(like):
        made, param, shape = new_states(rows.lead, roles.layout, like)
        states = made.written
        if rows.n_cols == 0:
            none = stack_of([], rows.n_rows, roles.layout, like)
            arrays = {STATES: none, MERGED: states, **roles.scalars(roles.merge)}
            run_role(roles.merge, arrays, (rows.n_rows, 0), like)
        else:
            given = {fold.graph.names[i]: taken[i.name].array for i in fold.graph.inputs}
            copies = [a for n, a in arrays.items()
                      if n not in given or address(a) != address(given[n])]
            fields = fields_in(states, fold.program.outputs, roles.layout)
            arrays |= fields | roles.scalars(fold)
            run_role(fold, arrays, (rows.n_rows, rows.n_cols), like, first, copies, lies)
        array = hand_back(made, param, shape, like)
    known = at is not None or roles.numbered
    return States(array, roles.layout, rows.n_cols, columns if known else (), roles.pipeline.name,
                  tuple(roles.dtypes.items()), tuple(roles.constants.items()))


@blames
def merge(pipeline: Pipeline, *states: States) -> States:
    """As `pieced.merge`, of states that know no pieces."""
    if not states:
        raise ArgumentError("merge was given no states", fix="Give one or more of p.states(…).")
    first: States = states[0]
    taken = [array_of(pipeline, s, f"states {i}") for i, s in enumerate(states)]
    one_memory({f"states {i}": a for i, a in enumerate(taken)})
    for one in states[1:]:
        if not _belong_together(first, one):
            raise ArgumentError(
                f"states of {pipeline.name} that do not belong together",
                why=f"One is {_described(first)}; another {_described(one)}.",
                fix="Merge states of the same types and constants.")
        if tuple(one.array.shape) != tuple(first.array.shape):
            raise ShapeError(f"states of rows {tuple(one.array.shape[:-1])} and of rows "
                             f"{tuple(first.array.shape[:-1])} cannot be merged",
                             fix="Merge pieces of the same rows.")
    roles, like = roles_of(pipeline, first), taken[0]
    columns = together(pipeline.name, [s.columns for s in states])
    order = _order(roles, [s.columns for s in states])
    with like.memory.working(like):
        parts = [packed_rows(taken[i], first.layout) for i in order]
        stacked = stack_of(parts, int(parts[0].shape[0]), roles.layout, like)
        array = _merged(roles, stacked, tuple(first.array.shape[:-1]), like, [stacked])
    return replace(first, array=array, n_cols=sum(s.n_cols for s in states), columns=columns)


@blames
def merge_gathered(
    pipeline: Pipeline, like: States, gathered: Any, columns: Sequence[tuple[int, int]]
) -> States:
    """As `merge`, of states that lie in one array: what an all-gather of `States.array` leaves.

    like: states of the same rows, types and constants (one's own). gathered: uint8 (parts, …rows,
    bytes), packed, which nothing is copied of. columns: (first, end) of the columns that each of
    the parts has seen. Raises ArgumentError, ShapeError.
    """
    array_of(pipeline, like, "like")
    taken, roles = adopt("gathered", gathered), roles_of(pipeline, like)
    shape, wanted = tuple(taken.array.shape), (len(columns), *like.array.shape)
    if taken.dtype != UINT8 or shape != wanted or not columns:
        raise ShapeError(f"gathered holds {taken.dtype} {shape}, not uint8 {wanted}",
                         why=f"These are {len(columns)} parts, and a row's state is "
                         f"{like.layout.n_bytes} bytes.")
    spans = [span(int(first), int(end) - int(first)) for first, end in columns]
    seen, order = together(pipeline.name, spans), _order(roles, spans)
    with taken.memory.working(taken):
        packed = taken.array.flags.c_contiguous and address(taken.array) % like.layout.boundary == 0
        stacked = taken.array if packed else taken.array.copy(order="C")
        if order != list(range(len(spans))):
            stacked = stacked[order]
        flat = stacked.reshape(len(spans), -1, like.layout.n_bytes)
        copies = [flat] if address(flat) != address(taken.array) else []
        array = _merged(roles, flat, wanted[1:-1], taken, copies)
    return replace(like, array=array, n_cols=sum(j - i for s in spans for i, j in s), columns=seen)


def _order(roles: Roles, columns: Sequence[Spans]) -> list[int]:
    """Which states come first: as they are given, where that does not matter to their operator."""
    return in_order(roles.pipeline.name, columns) if roles.ordered else list(range(len(columns)))


def _merged(
    roles: Roles, stacked: Any, lead: tuple[int, ...], like: Adopted, copies: Sequence[Any]
) -> Any:
    """⊕ of the states of each row, (states, rows, bytes), as an array of the user's; while the
    memory is being worked in."""
    made, param, shape = new_states(lead, roles.layout, like)
    arrays = {STATES: stacked, MERGED: made.written, **roles.scalars(roles.merge)}
    run_role(roles.merge, arrays, (shape.n_rows, int(stacked.shape[0])), like, copies=copies)
    return hand_back(made, param, shape, like)


def _belong_together(a: States, b: States) -> bool:
    """Are they of one operator, and finished alike? Types of inputs are those of results, also
    where states are equal: float16's and float32's. Constants by class and exact value: 0.0 is not
    -0.0, and NaN is NaN."""
    return (a.layout == b.layout and dict(a.dtypes) == dict(b.dtypes)
            and constants_key(dict(a.constants)) == constants_key(dict(b.constants)))


def _described(states: States) -> str:
    types = ", ".join(f"{n} {d}" for n, d in states.dtypes)
    return f"{states!r}, of {types}, with {dict(states.constants)}"
