"""What pipelines return for rows whose pieces have met: of full rows, the part of one piece."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.backend.arrays.adopt import adopt_all, one_memory
from fusegen.backend.arrays.columns import check_columns, check_last_column
from fusegen.backend.arrays.layout import lay_out_piece
from fusegen.backend.arrays.results import Result, hand_back, new_result
from fusegen.backend.arrays.rows import Rows
from fusegen.backend.arrays.vectors import types_of
from fusegen.backend.memory import Adopted
from fusegen.ir.errors import ArgumentError, DTypeError, ShapeError
from fusegen.ir.kernel import Param
from fusegen.ir.nesting import nest
from fusegen.pipeline.states.columns import span
from fusegen.pipeline.states.programs import Run
from fusegen.pipeline.states.record import States
from fusegen.pipeline.states.roles import Pipeline, Roles
from fusegen.pipeline.states.tables import array_of, fields_in, packed_rows, roles_of
from fusegen.pipeline.variants import Variants


@dataclass(frozen=True, slots=True)
class Finish:
    """Results that are about to be made, and what makes them; None: nothing is of this piece."""

    run: Run | None
    rows: Rows
    outputs: tuple[Param, ...]
    results: Mapping[str, Result]
    like: Adopted  # whose kind they have


def finished(
    pipeline: Pipeline, states: States, given: Mapping[str, Any], at: int | None
) -> Any:
    """What the pipeline returns for the rows whose pieces have been merged. given: arrays by name,
    those of the piece whose first column is number `at` where results are of full rows."""
    own = array_of(pipeline, states, "states")
    roles = roles_of(pipeline, states)
    with own.memory.working(own):
        one = laid_finish(roles, states, own, given, at)
        if one.run is not None:
            one.run.now()
        found = [hand_back(one.results[p.name], p, one.rows, one.like) for p in one.outputs]
    return nest(roles.graph.structure, found)


def laid_finish(
    roles: Roles, states: States, own: Adopted, given: Mapping[str, Any], at: int | None
) -> Finish:
    """The same but for the run; while the memory is being worked in. own: the states' array."""
    if states.n_cols == 0:
        raise ShapeError(f"states of {roles.pipeline.name} have seen no column",
                         fix="A reduction needs at least one element.")
    check_columns(roles.graph, states.n_cols)
    writes = roles.map if roles.full_rows else roles.finish
    _check_given(roles, writes, given)
    taken = adopt_all(given)
    one_memory({"states": own, **taken})
    _check_types(roles.pipeline, states, taken)
    lead, like = tuple(states.array.shape[:-1]), next(iter(taken.values()), own)
    rows, arrays = lay_out_piece(roles.graph, taken, own, lead, states.n_cols)
    if rows.lead != lead:
        raise ShapeError(f"arrays of rows {rows.lead} for states of rows {lead}",
                         why="They are of the same rows, and so of the same shape.")
    first = 0
    if roles.full_rows:
        first = first_of(roles.pipeline.name, states, rows.n_cols, at, writes.numbered)
        check_last_column(roles.graph, first + rows.n_cols)
    outputs = writes.program.outputs
    results = {p.name: new_result(p, rows, like) for p in outputs}
    runs = writes if rows.n_cols else _of_rows_alone(roles)
    if runs is None:
        return Finish(None, rows, outputs, results, like)
    run = _run(roles, runs, states, own, arrays, rows, first, taken, results)
    return Finish(run, rows, outputs, results, like)


def _run(
    roles: Roles, runs: Variants, states: States, own: Adopted, arrays: dict[str, Any], rows: Rows,
    first: int, taken: Mapping[str, Adopted], results: Mapping[str, Result],
) -> Run:
    """What fills the results."""
    whole, inputs = packed_rows(own, states.layout), runs.program.inputs
    given = {roles.graph.names[i]: taken[i.name].array for i in roles.graph.inputs
             if i.name in taken}
    kept = [whole, *(a for n, a in arrays.items() if n not in given)]
    arrays |= {n: r.written for n, r in results.items()}
    arrays |= fields_in(whole, [p for p in inputs if _is_field(p)], states.layout)
    arrays |= roles.scalars(runs)
    arrays |= {p.name: np.int64(states.n_cols) for p in inputs if p.shape == "scalar" and p.field}
    n_cols = rows.n_cols if runs.choices.role == "map" else states.n_cols
    return Run(runs, arrays, (rows.n_rows, n_cols), own, first, given, kept)


def _is_field(param: Param) -> bool:
    return bool(param.field) and param.shape != "scalar"


def _of_rows_alone(roles: Roles) -> Variants | None:
    """What computes all that is not of full rows, for a piece without columns."""
    return roles.finish if len(roles.full_rows) < len(roles.graph.outputs) else None


def _check_given(roles: Roles, writes: Variants, given: Mapping[str, Any]) -> None:
    """Raises ArgumentError for arrays that results need and that are not given again, and for those
    that the states were made without."""
    graph, name = roles.graph, roles.pipeline.name
    read = {p.name for p in writes.program.inputs}
    needed = [i.name for i in graph.inputs if graph.names[i] in read]
    missing = [n for n in needed if n not in given]
    if missing:
        full = roles.full_rows
        why = f"Its result {full[0]} has a value for every element" if full else (
            "Its results are made of them, too")
        raise ArgumentError(
            f"{name} needs {', '.join(missing)} again to finish",
            why=f"{why}; a state holds what one sweep knows of a row, not the row.",
            fix=f"Write {name}.finish(states, {', '.join(f'{n}={n}' for n in needed)}"
            f"{', at=…' if full else ''}), with this piece's arrays.")
    unknown = [n for n in given if n not in roles.dtypes]
    if unknown:
        raise ArgumentError(f"these states of {name} were made without {unknown[0]}",
                            fix="Give what they were made of.")


def _check_types(pipeline: Pipeline, states: States, taken: Mapping[str, Adopted]) -> None:
    """Raises DTypeError."""
    made = dict(states.dtypes)
    for name, dtype in types_of(taken, pipeline.vectors & {*taken}).items():
        if dtype != made[name]:
            raise DTypeError(f"{name} has type {dtype}, the states are of one of {made[name]}")


def first_of(name: str, states: States, n_cols: int, at: int | None, numbered: bool) -> int:
    """The number of the first of a piece's columns. numbered: do results depend on it? Raises
    ArgumentError where it is not said, or is of columns that the states have not seen."""
    first = at or 0
    if at is None and numbered and n_cols not in (0, states.n_cols):
        raise ArgumentError(f"{name} was finished for a piece of unknown place",
                            why="Its results depend on column numbers.",
                            fix=f"{name}.finish(states, …, at=number of its first column).")
    piece = span(first, n_cols)
    known = sum(j - i for i, j in states.columns) == states.n_cols
    if known and (at is not None or numbered) and piece:
        seen = any(i <= piece[0][0] and piece[0][1] <= j for i, j in states.columns)
        if not seen:
            raise ArgumentError(
                f"{name} was finished for columns {first} … {first + n_cols - 1}",
                why=f"Its states have seen {states.columns}.",
                fix="Merge all states first, and say where this piece begins: at=….")
    return first
