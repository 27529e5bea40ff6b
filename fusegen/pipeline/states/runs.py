"""States as values: p.states(piece) → merge → p.finish, equal to p of the whole row.

    a, b = p.states(x[:, :n]), p.states(x[:, n:], at=n)
    p.finish(fg.merge(p, b, a))            # p(x): any split of a row, any order

A state is bytes, laid out as `States.layout` says, so it may be stored, sent, and merged elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fusegen.backend.arrays.adopt import adopt, adopt_all, one_memory
from fusegen.backend.arrays.columns import check_last_column
from fusegen.backend.arrays.layout import lay_out_piece
from fusegen.backend.arrays.results import Result, hand_back
from fusegen.backend.arrays.rows import Rows
from fusegen.backend.arrays.vectors import types_of
from fusegen.backend.memory import Adopted
from fusegen.backend.problem import Phase
from fusegen.compile.roles import MERGED, STATES
from fusegen.ir.dtypes import UINT8
from fusegen.ir.errors import ArgumentError, ShapeError
from fusegen.ir.kernel import Param
from fusegen.lang.blame import blames
from fusegen.lang.signature import constants_key
from fusegen.pipeline.states.columns import Spans, in_order, span, together
from fusegen.pipeline.states.programs import Run
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.roles import Pipeline, Roles, roles_for
from fusegen.pipeline.states.tables import (
    array_of,
    fields_in,
    new_states,
    packed_rows,
    roles_of,
    stack_of,
    states_in,
)
from fusegen.pipeline.variants import Variants


def states_of(
    pipeline: Pipeline, present: Mapping[str, Any], constants: dict[str, Any],
    at: int | None,
) -> States:
    """States of the rows of a piece whose first column is number `at`; 0 where nothing is said."""
    taken = adopt_all(present)
    one_memory(taken)
    roles = roles_for(pipeline, types_of(taken, pipeline.vectors), constants)
    return folded(roles, roles.fold, taken, at)


@dataclass(frozen=True, slots=True)
class Fold:
    """A fold, ready to run, and the states that it leaves."""

    run: Run
    rows: Rows
    columns: Spans
    made: Result
    param: Param
    shape: Rows


def laid_fold(
    roles: Roles, fold: Variants, taken: Mapping[str, Adopted], at: int | None,
    lies: Phase | None = None,
) -> Fold:
    """Of arrays that are taken in, by a fold of these roles; while the memory is being worked in.
    lies: how rows are said to lie to 16 bytes, whatever they do."""
    like = next(iter(taken.values()))
    rows, arrays = lay_out_piece(fold.graph, taken, like)
    first = at or 0
    check_last_column(roles.graph, first + rows.n_cols)
    columns = span(first, rows.n_cols)
    made, param, shape = new_states(rows.lead, roles.layout, like)
    states = made.written
    if rows.n_cols == 0:
        none = stack_of([], rows.n_rows, roles.layout, like)
        arrays = {STATES: none, MERGED: states, **roles.scalars(roles.merge)}
        run = Run(roles.merge, arrays, (rows.n_rows, 0), like)
    else:
        given = {fold.graph.names[i]: taken[i.name].array for i in fold.graph.inputs}
        kept = [a for n, a in arrays.items() if n not in given]
        arrays |= fields_in(states, fold.program.outputs, roles.layout) | roles.scalars(fold)
        run = Run(fold, arrays, (rows.n_rows, rows.n_cols), like, first, given, kept, lies)
    return Fold(run, rows, columns, made, param, shape)


def folded(
    roles: Roles, fold: Variants, taken: Mapping[str, Adopted], at: int | None,
    lies: Phase | None = None,
) -> States:
    """States of arrays that are taken in: see `laid_fold`."""
    like = next(iter(taken.values()))
    with like.memory.working(like):
        one = laid_fold(roles, fold, taken, at, lies)
        one.run.now()
        array = hand_back(one.made, one.param, one.shape, like)
    known = at is not None or roles.numbered
    return States(array, roles.layout, one.rows.n_cols, one.columns if known else (),
                  roles.pipeline.name, tuple(roles.dtypes.items()), tuple(roles.constants.items()))


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
        array = _merged(roles, stacked, tuple(first.array.shape[:-1]), like)
    return replace(first, array=array, n_cols=sum(s.n_cols for s in states), columns=columns)


@blames
def merge_gathered(
    pipeline: Pipeline, like: States, gathered: Any, columns: Sequence[tuple[int, int]]
) -> States:
    """As `merge`, of states that lie in one array: what an all-gather of `States.array` leaves.

    like: states of the same rows, types and constants (one's own). gathered: uint8 (parts, …rows,
    bytes), read where it lies if each part is packed, whatever is between two of them. columns:
    (first, end) of the columns that each of the parts has seen. Raises ArgumentError, ShapeError.
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
        stacked = states_in(taken.array, like.layout)
        if order != list(range(len(spans))):
            stacked = stacked[order]
        array = _merged(roles, stacked, wanted[1:-1], taken)
    return replace(like, array=array, n_cols=sum(j - i for s in spans for i, j in s), columns=seen)


def _order(roles: Roles, columns: Sequence[Spans]) -> list[int]:
    """Which states come first: as they are given, where that does not matter to their operator."""
    return in_order(roles.pipeline.name, columns) if roles.ordered else list(range(len(columns)))


def _merged(
    roles: Roles, stacked: Any, lead: tuple[int, ...], like: Adopted
) -> Any:
    """⊕ of the states of each row, (states, rows, bytes), as an array of the user's; while the
    memory is being worked in."""
    made, param, shape = new_states(lead, roles.layout, like)
    laid_merge(roles, stacked, made.written, like).now()
    return hand_back(made, param, shape, like)


def laid_merge(roles: Roles, stacked: Any, merged: Any, like: Adopted) -> Run:
    """⊕ of the states of each row, (states, rows, bytes), to (rows, bytes)."""
    arrays = {STATES: stacked, MERGED: merged, **roles.scalars(roles.merge)}
    shape = (int(stacked.shape[1]), int(stacked.shape[0]))
    return Run(roles.merge, arrays, shape, like, kept=[stacked])


def _belong_together(a: States, b: States) -> bool:
    """Are they of one operator, and finished alike? Types of inputs are those of results, also
    where states are equal: float16's and float32's. Constants by class and exact value: 0.0 is not
    -0.0, and NaN is NaN."""
    return (a.layout == b.layout and dict(a.dtypes) == dict(b.dtypes)
            and constants_key(dict(a.constants)) == constants_key(dict(b.constants)))


def _described(states: States) -> str:
    types = ", ".join(f"{n} {d}" for n, d in states.dtypes)
    return f"{states!r}, of {types}, with {dict(states.constants)}"
