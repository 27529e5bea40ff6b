"""What templates/cuda/tiles/round*.cuh.j2 print: vectors rounded, and lists found in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.emit.places import declared
from fusegen.backend.cuda.emit.tiles.scope import Scope
from fusegen.backend.cuda.emit.wgmma import Wgmma
from fusegen.backend.cuda.schedule.launch import Launch
from fusegen.backend.cuda.schedule.tiles.filters import Filter
from fusegen.backend.cuda.schedule.tiles.rounds import (
    GROUPS,
    MOST_SAMPLED,
    QUEUE,
    ROW_THREADS,
    RoundTiles,
    room,
    round_sizes,
    slots_of,
)
from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule
from fusegen.backend.emit.lines import Line
from fusegen.ir.expr import Var, substitute
from fusegen.ir.kernel import FromVectors

HEADERS = ("fusegen/warp.cuh", "fusegen/tiles/instructions.cuh", "fusegen/tiles/fragment.cuh",
           "fusegen/tiles/stages.cuh", "fusegen/tiles/row_scores.cuh")


@dataclass(frozen=True)
class PassView:
    """A launch."""

    symbol: str
    params: tuple[str, ...]


@dataclass(frozen=True)
class RoundView:
    """The launch that rounds vectors."""

    symbol: str
    params: tuple[str, ...]
    centre: PassView  # the one before it
    moved: bool  # are rows measured from the columns' centre?
    row: str
    column: str
    row_type: str
    column_type: str
    read_row: str  # C++: the number that is `stored`
    read_column: str
    turned: bool  # do rounded rows have the other sign?
    length: int
    width: int
    half: str  # C++: what a column's scores begin with, from its |y|² that `it` has
    rounds: bool  # do candidates come in rounds?


@dataclass(frozen=True)
class RoundsView:
    """A list that is found in rounds."""

    tiles: RoundTiles
    products: tuple[Wgmma, ...]
    sample: PassView
    bound: PassView
    filter: PassView
    lift: PassView | None
    k: int
    room: int
    queue: int
    row_threads: int
    most_groups: int
    slots: str
    row: str  # rounded vectors
    column: str
    length: int
    ranked: str
    source: str  # the name of a score
    term: str  # C++: what adds a number of the row's and a column's vector to a sum
    value: tuple[Line, ...]  # statements: from a score to what is ranked


def round_view(
    launched: Sequence[Launch], found: Filter, schedule: TileSchedule, dialect: CudaDialect
) -> RoundView:
    centre, launch, *_ = launched
    row, column = (launch.kernel.param(n).dtype for n in (found.row, found.column))
    return RoundView(
        launch.symbol, _params(launch, {}), PassView(centre.symbol, _params(centre, {})),
        found.ranked != "dots", found.row, found.column, C_TYPES[row.name],
        C_TYPES[column.name], dialect.load("stored", row), dialect.load("stored", column),
        found.turned, found.length, found.rounded[0].k,
        {"dots": "0.0f", "nearest": "-0.5f * it.square", "farthest": "0.5f * it.square"}[
            found.ranked], schedule.in_rounds)


def rounds_view(
    launched: Sequence[Launch], found: Filter, schedule: TileSchedule, scope: Scope
) -> RoundsView:
    """Of all launches of a program whose last kernel has the names of `scope`."""
    _, _, sample, bound, *more, last = launched
    tiles, dialect = round_sizes(sample.kernel, schedule.warps, schedule.stages), scope.dialect
    slots = slots_of(last.kernel, schedule.short).name
    row, column = found.rounded
    (source,) = found.exact.loads
    assert isinstance(source, FromVectors)
    numbers = {found.row: Var("row", varying=True), found.column: Var("column", varying=True)}
    term = dialect.text(substitute(source.value, numbers))
    value = dialect.line(f"return {dialect.text(found.best.lift)};", found.best.lift)
    # What raises bounds stands between two rounds, if there are two.
    views = [PassView(n.symbol, _params(n, {slots: "unsigned long long*"}))
             for n in (sample, bound, *more[:2])]
    return RoundsView(
        tiles=tiles, products=(Wgmma("multiply_scores", schedule.columns, "bfloat16"),),
        sample=views[0], bound=views[1], filter=views[2], lift=views[3] if more[1:] else None,
        k=found.best.k, room=room(found.best.k, schedule.short), queue=QUEUE,
        row_threads=ROW_THREADS, most_groups=GROUPS * MOST_SAMPLED, slots=slots,
        row=row.name, column=column.name, length=found.length, ranked=found.ranked,
        source=source.name,
        term=f"[&](float so_far, float row, float column) {{ return so_far + ({term}); }}",
        value=tuple(scope.opened([value])))


def _params(launch: Launch, types: dict[str, str]) -> tuple[str, ...]:
    """The C++ parameter list, in the order of run/arguments.py."""
    return (*(declared(p, " __restrict__ ") for p in launch.params),
            *(f"{types.get(s.name, 'float*')} __restrict__ {s.name}" for s in launch.scratch),
            *(f"long long {n}" for n in launch.scalars),
            *(f"const __grid_constant__ TensorMap {m.array}_map" for m in launch.maps))
