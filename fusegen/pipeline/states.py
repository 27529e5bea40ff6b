"""States as values: p.states(piece) → merge → p.finish, equal to p of the whole row.

    a, b = p.states(x[:, :n]), p.states(x[:, n:], at=n)
    p.finish(fg.merge(p, b, a))            # p(x): any split of a row, any order

A state is bytes, laid out as `States.layout` says, so it may be stored, sent, and merged elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from fusegen.backend.arrays.adopt import adopt, adopt_all, one_memory
from fusegen.backend.arrays.columns import check_columns, check_last_column
from fusegen.backend.arrays.layout import lay_out_piece
from fusegen.backend.arrays.results import Result, hand_back, new_result
from fusegen.backend.arrays.rows import Rows
from fusegen.backend.arrays.spans import phase
from fusegen.backend.arrays.vectors import types_of
from fusegen.backend.memory import Adopted
from fusegen.backend.scalars import scalars_in
from fusegen.backend.words import address
from fusegen.compile.roles import MERGED, STATES
from fusegen.ir.dtypes import UINT8, DType
from fusegen.ir.errors import ArgumentError, ShapeError
from fusegen.ir.forms import Role
from fusegen.ir.kernel import Param
from fusegen.ir.nesting import nest
from fusegen.ir.state_layout import StateLayout
from fusegen.lang.blame import blames
from fusegen.lang.signature import Signature, constants_key
from fusegen.pipeline.variants import Choices, Key, Variants


class Pipeline(Protocol):
    """What states need of a fusegen.Pipeline."""

    name: str
    signature: Signature

    @property
    def vectors(self) -> frozenset[str]:
        """Inputs that hold vectors."""

    def of_types(
        self, dtypes: Mapping[str, DType], constants: dict[str, Any], choices: Choices
    ) -> Variants: ...


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """What a pipeline knows of pieces of rows.

    `array`: uint8 (…rows, layout.n_bytes), of the kind and on the device of what it was made of.
    `n_cols`: how many columns of each row these states have seen.
    """

    array: Any
    layout: StateLayout
    n_cols: int
    pipeline: str
    dtypes: tuple[tuple[str, DType], ...]  # of the inputs
    constants: tuple[tuple[str, Any], ...]

    def __repr__(self) -> str:
        rows = tuple(self.array.shape[:-1])
        seen = f"{self.n_cols} column{'' if self.n_cols == 1 else 's'} seen"
        return f"<states of {self.pipeline}: rows {rows}, {seen}, {self.layout}>"


def states_of(
    pipeline: Pipeline, present: Mapping[str, Any], constants: dict[str, Any], at: int
) -> States:
    """States of the rows of a piece whose first column is number `at`."""
    adopted = adopt_all(present)
    one_memory(adopted)
    dtypes = types_of(adopted, pipeline.vectors)
    roles, like = Roles(pipeline, dtypes, constants), next(iter(adopted.values()))
    rows, arrays = lay_out_piece(roles.fold.graph, adopted)
    check_last_column(roles.finish.graph, at + rows.n_cols)
    with like.memory.working(like):
        made, param, shape = _made(rows.lead, roles.layout, like)
        states = made.written
        if rows.n_cols == 0:
            none = _stacked([], rows.n_rows, roles.layout, like)
            given = {STATES: none, MERGED: states, **roles.scalars(roles.merge)}
            _run(roles.merge, given, (rows.n_rows, 0), like)
        else:
            fold = roles.fold
            given = {fold.graph.names[i]: adopted[i.name].array for i in fold.graph.inputs}
            copies = [a for n, a in arrays.items()
                      if n not in given or address(a) != address(given[n])]
            fields = _fields(states, fold.program.outputs, roles.layout)
            arrays |= fields | roles.scalars(fold)
            _run(fold, arrays, (rows.n_rows, rows.n_cols), like, at, copies)
        array = hand_back(made, param, shape, like)
    return States(array, roles.layout, rows.n_cols, pipeline.name, tuple(dtypes.items()),
                  tuple(constants.items()))


@blames
def merge(pipeline: Pipeline, *states: States) -> States:
    """⊕: the states of all these pieces of the same rows together.

    In any order, but for monoids that are ordered=True: those merge in the order of the columns.
    Pieces must not overlap. Raises ArgumentError for states of other pipelines, types or constants,
    ShapeError for those of other rows.
    """
    if not states:
        raise ArgumentError("merge was given no states", fix="Give one or more of p.states(…).")
    first: States = states[0]
    adopted = [_adopted(pipeline, s, f"states {i}") for i, s in enumerate(states)]
    one_memory({f"states {i}": a for i, a in enumerate(adopted)})
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
    roles, like = _roles(pipeline, first), adopted[0]
    lead = tuple(first.array.shape[:-1])
    with like.memory.working(like):
        parts = [_rows_of(a, first.layout) for a in adopted]
        n_rows = int(parts[0].shape[0])
        stacked = _stacked(parts, n_rows, roles.layout, like)
        made, param, shape = _made(lead, roles.layout, like)
        arrays = {STATES: stacked, MERGED: made.written, **roles.scalars(roles.merge)}
        _run(roles.merge, arrays, (n_rows, len(parts)), like, copies=[stacked])
        array = hand_back(made, param, shape, like)
    return replace(first, array=array, n_cols=sum(s.n_cols for s in states))


def _same(a: tuple[tuple[str, Any], ...], b: tuple[tuple[str, Any], ...]) -> bool:
    """Constants by class and exact value: 0.0 is not -0.0, and NaN is NaN."""
    return constants_key(dict(a)) == constants_key(dict(b))


def finished(pipeline: Pipeline, states: States) -> Any:
    """What the pipeline returns for the rows whose pieces have been merged."""
    like = _adopted(pipeline, states, "states")
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


@dataclass(frozen=True)
class Roles:
    """The programs that make, merge and finish states of inputs of these types. Raises
    PipelineError where the text has no states."""

    pipeline: Pipeline
    dtypes: Mapping[str, DType]
    constants: dict[str, Any]

    @property
    def fold(self) -> Variants:
        return self._of("fold")

    @property
    def merge(self) -> Variants:
        return self._of("merge")

    @property
    def finish(self) -> Variants:
        return self._of("finish")

    @property
    def layout(self) -> StateLayout:
        return self.merge.states

    def scalars(self, variants: Variants) -> dict[str, Any]:
        """Numbers that a program takes beside arrays, by parameter name."""
        return scalars_in(variants.graph, variants.params, self.constants)

    def _of(self, role: Role) -> Variants:
        return self.pipeline.of_types(self.dtypes, self.constants, Choices(role=role))


def _roles(pipeline: Pipeline, states: States) -> Roles:
    """Those of the pipeline that made the states. Raises ArgumentError for another one."""
    found = Roles(pipeline, dict(states.dtypes), dict(states.constants))
    if states.layout != found.layout:
        raise ArgumentError(f"{states!r} is of another operator than {pipeline.name}'s",
                            why=f"Its states are {found.layout}.",
                            fix="Finish and merge with the pipeline that made them.")
    return found


def _adopted(pipeline: Pipeline, states: Any, name: str) -> Adopted:
    if not isinstance(states, States):
        raise ArgumentError(f"{name} is {type(states).__name__}, no states",
                            fix=f"{pipeline.name}.states(x) makes them.")
    found = adopt(name, states.array)
    shape = tuple(found.array.shape)
    if found.dtype != UINT8 or not shape or shape[-1] != states.layout.n_bytes:
        raise ArgumentError(
            f"{name} holds {found.dtype} {shape}, not uint8 (…, {states.layout.n_bytes})",
            why="A row's state is that many bytes.")
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
