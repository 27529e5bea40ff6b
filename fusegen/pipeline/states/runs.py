"""States as values: p.states(piece) → merge → p.finish, equal to p of the whole row.

    a, b = p.states(x[:, :n]), p.states(x[:, n:], at=n)
    p.finish(fg.merge(p, b, a))            # p(x): any split of a row, any order

A state is bytes, laid out as `States.layout` says, so it may be stored, sent, and merged elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusegen.backend.arrays.adopt import adopt, adopt_all, one_memory
from fusegen.backend.arrays.columns import check_columns, check_last_column
from fusegen.backend.arrays.layout import lay_out_piece
from fusegen.backend.arrays.results import Result, hand_back, new_result
from fusegen.backend.arrays.rows import Rows
from fusegen.backend.arrays.spans import phase
from fusegen.backend.arrays.vectors import types_of
from fusegen.backend.memory import Adopted
from fusegen.backend.words import address
from fusegen.compile.roles import MERGED, STATES
from fusegen.ir.dtypes import UINT8
from fusegen.ir.errors import ArgumentError, ShapeError
from fusegen.ir.kernel import Param
from fusegen.ir.nesting import nest
from fusegen.ir.state_layout import StateLayout
from fusegen.lang.blame import blames
from fusegen.lang.signature import constants_key
from fusegen.pipeline.states.columns import Spans, in_order, span, together
from fusegen.pipeline.states.record import States, adopted
from fusegen.pipeline.states.roles import Pipeline, Roles
from fusegen.pipeline.variants import Key, Variants


def states_of(
    pipeline: Pipeline, present: Mapping[str, Any], constants: dict[str, Any],
    at: int | None,
) -> States:
    """States of the rows of a piece whose first column is number `at`; 0 where nothing is said."""
    taken = adopt_all(present)
    one_memory(taken)
    dtypes = types_of(taken, pipeline.vectors)
    roles, like = Roles(pipeline, dtypes, constants), next(iter(taken.values()))
    rows, arrays = lay_out_piece(roles.fold.graph, taken)
    first = at or 0
    check_last_column(roles.finish.graph, first + rows.n_cols)
    with like.memory.working(like):
        made, param, shape = _made(rows.lead, roles.layout, like)
        states = made.written
        if rows.n_cols == 0:
            none = _stacked([], rows.n_rows, roles.layout, like)
            arrays = {STATES: none, MERGED: states, **roles.scalars(roles.merge)}
            _run(roles.merge, arrays, (rows.n_rows, 0), like)
        else:
            fold = roles.fold
            given = {fold.graph.names[i]: taken[i.name].array for i in fold.graph.inputs}
            copies = [a for n, a in arrays.items()
                      if n not in given or address(a) != address(given[n])]
            fields = _fields(states, fold.program.outputs, roles.layout)
            arrays |= fields | roles.scalars(fold)
            _run(fold, arrays, (rows.n_rows, rows.n_cols), like, first, copies)
        array = hand_back(made, param, shape, like)
    columns = span(first, rows.n_cols) if at is not None or roles.numbered else ()
    return States(array, roles.layout, rows.n_cols, columns, pipeline.name, tuple(dtypes.items()),
                  tuple(constants.items()))


@blames
def merge(pipeline: Pipeline, *states: States) -> States:
    """⊕: the states of all these pieces of the same rows together, given in any order; a monoid
    with commutative=False merges them in that of their columns.

    Raises ArgumentError for states of other pipelines, types or constants, and for those that have
    seen the same columns; ShapeError for those of other rows.
    """
    if not states:
        raise ArgumentError("merge was given no states", fix="Give one or more of p.states(…).")
    first: States = states[0]
    taken = [_of(pipeline, s, f"states {i}") for i, s in enumerate(states)]
    one_memory({f"states {i}": a for i, a in enumerate(taken)})
    for one in states[1:]:
        if one.layout != first.layout or not _same(one.constants, first.constants):
            raise ArgumentError(
                f"states of {pipeline.name} that do not belong together",
                why=f"One is {first!r}, with {dict(first.constants)}, another {one!r}, with "
                f"{dict(one.constants)}.", fix="Merge states of the same types and constants.")
        if tuple(one.array.shape) != tuple(first.array.shape):
            raise ShapeError(f"states of rows {tuple(one.array.shape[:-1])} and of rows "
                             f"{tuple(first.array.shape[:-1])} cannot be merged",
                             fix="Merge pieces of the same rows.")
    roles, like = _roles(pipeline, first), taken[0]
    columns = together(pipeline.name, [s.columns for s in states])
    order = _order(roles, [s.columns for s in states])
    with like.memory.working(like):
        parts = [_rows_of(taken[i], first.layout) for i in order]
        stacked = _stacked(parts, int(parts[0].shape[0]), roles.layout, like)
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
    _of(pipeline, like, "like")
    taken, roles = adopt("gathered", gathered), _roles(pipeline, like)
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
    made, param, shape = _made(lead, roles.layout, like)
    arrays = {STATES: stacked, MERGED: made.written, **roles.scalars(roles.merge)}
    _run(roles.merge, arrays, (shape.n_rows, int(stacked.shape[0])), like, copies=copies)
    return hand_back(made, param, shape, like)


def _same(a: tuple[tuple[str, Any], ...], b: tuple[tuple[str, Any], ...]) -> bool:
    """Constants by class and exact value: 0.0 is not -0.0, and NaN is NaN."""
    return constants_key(dict(a)) == constants_key(dict(b))


def finished(pipeline: Pipeline, states: States) -> Any:
    """What the pipeline returns for the rows whose pieces have been merged."""
    like = _of(pipeline, states, "states")
    roles = _roles(pipeline, states)
    if states.n_cols == 0:
        raise ShapeError(f"states of {pipeline.name} have seen no column",
                         fix="A reduction needs at least one element.")
    finish = roles.finish
    check_columns(finish.graph, states.n_cols)
    lead = tuple(states.array.shape[:-1])
    rows = Rows(lead, (states.n_cols,), (len(lead),))
    with like.memory.working(like):
        whole, outputs = _rows_of(like, states.layout), finish.program.outputs
        results = [new_result(p, rows, like) for p in outputs]
        fields = [p for p in finish.program.inputs if p.field]
        arrays = _fields(whole, fields, states.layout) | roles.scalars(finish)
        arrays |= {p.name: r.written for p, r in zip(outputs, results, strict=True)}
        _run(finish, arrays, (rows.n_rows, states.n_cols), like, copies=[whole])
        found = [hand_back(r, p, rows, like) for p, r in zip(outputs, results, strict=True)]
    return nest(finish.graph.structure, found)


def _roles(pipeline: Pipeline, states: States) -> Roles:
    """Those of the pipeline that made the states. Raises ArgumentError for another one."""
    found = Roles(pipeline, dict(states.dtypes), dict(states.constants))
    if states.layout != found.layout:
        raise ArgumentError(f"{states!r} is of another operator than {pipeline.name}'s",
                            why=f"Its states are {found.layout}.",
                            fix="Finish and merge with the pipeline that made them.")
    return found


def _of(pipeline: Pipeline, states: Any, name: str) -> Adopted:
    """The array of states of this pipeline. Raises ArgumentError."""
    found = adopted(states, name)
    signature = pipeline.signature
    theirs = {*dict(states.dtypes)}, {*dict(states.constants)}
    if not theirs[0] <= {*signature.arrays} or theirs[1] != {*signature.constants}:
        raise ArgumentError(f"{states!r} is not of {pipeline.name}",
                            fix="Finish and merge with the pipeline that made them.")
    return found


# ---- arrays of states ----


def _rows_of(adopted: Adopted, layout: StateLayout) -> Any:
    """States one after the other, (n_rows, bytes), each field on its boundary."""
    found = adopted.array.reshape(-1, layout.n_bytes)
    packed = found.flags.c_contiguous and address(found) % layout.boundary == 0
    return found if packed else found.copy()


def _stacked(parts: Sequence[Any], n_rows: int, layout: StateLayout, like: Adopted) -> Any:
    """(len(parts), n_rows, bytes); of no parts an array that has an address all the same."""
    shape = (max(1, len(parts)), n_rows, layout.n_bytes)
    found = like.memory.view(like.memory.maker(shape, UINT8, like, None)())[: len(parts)]
    for i, part in enumerate(parts):
        found[i] = part
    return found


def _made(
    lead: tuple[int, ...], layout: StateLayout, like: Adopted
) -> tuple[Result, Param, Rows]:
    """Memory for states of such rows, of the kind of array that came in. Equal states are equal
    bytes, also between fields."""
    param = Param("states", UINT8, "list", output=True, k=layout.n_bytes)
    rows = Rows(lead, (layout.n_bytes,), (len(lead),))
    made = new_result(param, rows, like)
    if layout.has_gaps:
        made.written[...] = 0
    return made, param, rows


def _fields(states: Any, params: Iterable[Param], layout: StateLayout) -> dict[str, Any]:
    """Views of states (n_rows, bytes) by parameter name: (n_rows,), or (n_rows, K) of a list or a
    vector."""
    fields, found = {f.name: f for f in layout.fields}, {}
    for p in params:
        field = fields[p.field]
        first = field.offset // field.dtype.itemsize
        table = states.view(field.dtype.numpy)
        found[p.name] = table[:, first] if p.shape == "row" else table[:, first : first + p.k]
    return found


def _run(
    variants: Variants, arrays: Mapping[str, Any], shape: tuple[int, int], like: Adopted,
    first_column: int = 0, copies: Sequence[Any] = (),
) -> None:
    """Run a program of one role where the arrays lie; the memory is being worked in."""
    if shape[0] == 0:
        return
    elements = [arrays[p.name] for p in variants.program.inputs if p.shape == "element"]
    key = Key(like.memory, like.index, shape, phase(elements) if elements else (True, True))
    variants.executable(key)(
        arrays, *shape, first_column=first_column, like=like.given,
        copies=() if like.memory.single else copies)
