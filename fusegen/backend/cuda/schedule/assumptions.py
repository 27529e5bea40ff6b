"""What a source takes for granted of its arguments: said in its banner, checked by its launcher."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from fusegen.backend.cuda.schedule.cuda import NARROW_COLUMNS, VECTOR_BYTES, CudaSchedule
from fusegen.backend.cuda.schedule.launch import Launch, launches
from fusegen.backend.cuda.schedule.on_chip import kept_params
from fusegen.backend.cuda.schedule.states import of_states
from fusegen.backend.cuda.schedule.wide import Computed
from fusegen.backend.emit.banner import Facts
from fusegen.ir.kernel import Param, Program
from fusegen.ir.varying import range_text


@dataclass(frozen=True, slots=True)
class Aligned:
    """The array begins on a boundary of so many bytes, and so does every row of it."""

    array: Param
    n_bytes: int


@dataclass(frozen=True, slots=True)
class InPhase:
    """Rows of all these arrays begin equally far from a boundary, counted in elements."""

    arrays: tuple[Param, ...]
    elements: int


@dataclass(frozen=True, slots=True)
class Divides:
    """`number` is a multiple: n_cols, or n_inner, the rows side by side."""

    number: str
    of: int


@dataclass(frozen=True, slots=True)
class Between:
    """least ≤ n_cols ≤ most."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Within:
    """A number of the call is as positive or negative, and as great or small, as merges ask for."""

    scalar: Param


Assumption = Aligned | InPhase | Divides | Between | Within


def assumptions(program: Program, schedule: CudaSchedule) -> tuple[Assumption, ...]:
    """All that the program's kernels need beside what every call promises: columns of a row are
    neighbours, arrays of one value or list a row are packed, results overlap nothing."""
    return (*_places(program, schedule), *_numbers(program), _lengths(program, schedule))


def _numbers(program: Program) -> Iterator[Within]:
    yield from (Within(p) for p in program.inputs if p.magnitude)


def _places(program: Program, schedule: CudaSchedule) -> Iterator[Assumption]:
    arrays = (*program.inputs, *program.outputs)
    elements = tuple(p for p in arrays if p.shape == "element")
    if schedule.width == 1 or not elements:
        return
    if schedule.has_edges:
        written = tuple(p for p in elements if p.output)
        alike = elements if schedule.load == "peeled" else written
        if len(alike) > 1:
            yield InPhase(alike, VECTOR_BYTES)
        return
    yield Divides("n_inner" if schedule.strip else "n_cols", schedule.width)
    for p in arrays:
        if p.shape == "element" or (p.shape == "per_column" and not schedule.strip):
            yield Aligned(p, min(VECTOR_BYTES, schedule.width * p.dtype.itemsize)
                          if schedule.strip else VECTOR_BYTES)


def _lengths(program: Program, schedule: CudaSchedule) -> Between:
    lists = _longest_list(program)
    least = max(1, lists) if program.role == "call" else 1
    if lists and schedule.split and schedule.lists != "streamed":
        least = max(least, (schedule.blocks + 1) * schedule.width)  # a vector of the first slice
    if schedule.clustered and lists > 1:
        # Every block has a tile, also the last: it is there that lists begin.
        edges = 2 * (schedule.width - 1) if schedule.has_edges else 0
        least = max(least, ((schedule.blocks - 1) ** 2 + 1) * schedule.width + edges)
    least = max(least, least_vectors(schedule) * schedule.width)
    most = longest_row(schedule)
    if not schedule.wide_columns:
        widest = _most_narrow(program)
        most = widest if most is None else min(most, widest)
    return Between(least, 2**62 if most is None else most)


def shortest_row(program: Program, schedule: CudaSchedule) -> int:
    """Columns that a row must have."""
    return _lengths(program, schedule).least


def least_vectors(schedule: CudaSchedule) -> int:
    """Of a row, where its threads take for granted how many they have; 0: any number."""
    return schedule.home.fewest(schedule.team_threads, schedule.vectors)


def _longest_list(program: Program) -> int:
    """The greatest K; 0 without lists."""
    return max((c.k for s in program.sweeps for c in s.monoid.lists), default=0)


def longest_row(schedule: CudaSchedule) -> int | None:
    """Columns of the longest row that stays where the schedule keeps it; None: any."""
    vectors = schedule.home.capacity(schedule.team_threads * schedule.vectors)
    if vectors is None:
        return None
    if schedule.strip:  # of every thread
        return vectors * schedule.strip.down(schedule.threads) * schedule.blocks
    # Elements at the edges of a row do not fill a vector.
    edges = schedule.width - 1 if schedule.has_edges else 0
    return vectors * schedule.blocks * schedule.width + edges


def _most_narrow(program: Program) -> int:
    """The most columns whose numbers, and what is computed from them, fit 32 bits."""
    low, high, computed = 1, NARROW_COLUMNS, Computed.of(program)
    if not computed.need(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if computed.need(middle) else (middle, high)
    return low


# ---- for people: what holds of every launch of a source, whose threads and blocks may vary ----


def facts(program: Program, schedule: CudaSchedule) -> Facts:
    """What a source's banner says of how it runs."""
    shape, tree = schedule.shape, schedule.algorithm
    if of_states(program):
        shape = f"row per {schedule.team.phrase}"
        tree = "one state at a time, then lane by lane" if program.role == "merge" else ""
    return Facts(
        target=schedule.target.name, schedule=shape, tree=tree,
        launch=[launch_text(n, schedule) for n in launches(program, schedule)],
        assumes=assumed_text(program, schedule), reads=reads_per_element(program, schedule),
    )


def launch_text(launch: Launch, schedule: CudaSchedule) -> str:
    """A launch as CUDA writes it: grid, threads, dynamic shared bytes; and what those may be."""
    per_row = (schedule.clustered or schedule.split) and launch.grid_rows > 1
    rows = "n_rows"
    if launch.strip_rows:
        rows = f"n_rows / n_inner · ⌈n_inner / {launch.strip_rows}⌉"
    elif launch.rows_per_block > 1:
        rows = f"⌈n_rows / {launch.rows_per_block}⌉"
    threads = str(launch.threads) if _fixed(schedule) else "threads"
    arguments = [f"blocks · {rows}" if per_row else rows, threads, *_shared_text(launch, schedule)]
    notes = [] if _fixed(schedule) else [f"threads % 32 = 0, ≤ {schedule.most_threads}"]
    if schedule.clustered:
        notes.append("clusters of blocks")
    if schedule.home.slice_vectors:
        notes.append("slice: vectors of a row that a block keeps")
    if launch.together or launch.steady:
        notes.append("a grid that the device holds at once")
    elif launch.limited:
        notes.append("or a smaller grid")
    return "; ".join([f"{launch.symbol}<<<{', '.join(arguments)}>>>", *notes])


def _fixed(schedule: CudaSchedule) -> bool:
    """Is the number of threads part of the source?"""
    return schedule.fixed or schedule.in_warp or schedule.strip is not None


def _shared_text(launch: Launch, schedule: CudaSchedule) -> list[str]:
    if not schedule.home.slice_vectors:
        return [str(launch.shared_bytes)] if launch.shared_bytes else []
    vector = launch.shared_bytes // schedule.home.slice_vectors
    return [f"{vector} · slice"]


def assumed_text(program: Program, schedule: CudaSchedule) -> list[str]:
    """What every launch takes for granted of its arguments, a line each."""
    places = tuple(_places(program, schedule))
    lines = [said(a) for a in places if not isinstance(a, Aligned)]
    rows: dict[int, list[str]] = {}
    for a in places:
        if isinstance(a, Aligned):
            rows.setdefault(a.n_bytes, []).append(a.array.name)
    lines += [f"rows of {', '.join(names)} begin on {n} bytes" for n, names in rows.items()]
    lines += map(said, _numbers(program))
    lists = _longest_list(program)
    if lists and program.role == "call":  # a piece of a row may be shorter
        lines.append(f"{lists} ≤ n_cols")
    if not schedule.wide_columns:
        most = _most_narrow(program)
        lines.append("n_cols ≤ 2^30" if most == NARROW_COLUMNS else f"n_cols ≤ {most}")
    return lines + _room_text(schedule)


def _room_text(schedule: CudaSchedule) -> list[str]:
    """Where a row stays, it has to find room."""
    if longest_row(schedule) is None:
        return []
    threads = str(schedule.team_threads) if _fixed(schedule) else "threads"
    blocks = " · blocks" if (schedule.clustered or schedule.split) else ""
    if schedule.strip:
        held = schedule.tiers.held + schedule.tiers.stashed
        down = schedule.strip.down(schedule.threads)
        return [f"n_cols ≤ {held * down}{blocks}"]
    # Elements at the edges of a row stay in registers of their own.
    n = f"⌊n_cols / {schedule.width}⌋" if schedule.has_edges else "n_cols"
    items = schedule.vectors if schedule.has_edges else schedule.items
    if not schedule.home.slice_vectors:
        fewest = least_vectors(schedule) * schedule.width
        return [f"{f'{fewest} ≤ ' if fewest else ''}{n} ≤ {threads} · {items}{blocks}"]
    kept = schedule.home.room(f"{threads} · {schedule.vectors}")
    vectors = n if schedule.has_edges else f"n_cols / {schedule.width}"
    return [f"{vectors} ≤ {f'({kept})' if blocks and ' ' in kept else kept}{blocks}"]


def said(assumption: Assumption) -> str:
    match assumption:
        case Aligned(array=p, n_bytes=n):
            return f"rows of {p.name} begin on {n} bytes"
        case InPhase(arrays=arrays, elements=n):
            names = ", ".join(p.name for p in arrays)
            return f"rows of {names} begin equally many elements, modulo {n}, from 0"
        case Divides(number=name, of=n):
            return f"{n} divides {name}"
        case Between(least=least, most=most):
            return f"{least} ≤ n_cols ≤ {most}"
        case Within(scalar=p):
            return range_text(p.name, p.magnitude)
        case _:
            assert_never(assumption)


def reads_per_element(program: Program, schedule: CudaSchedule) -> str:
    """How often device memory is read for an element of every array of the rows' size."""
    most = program.reads_per_element
    kept = 0
    for kernel in program.kernels:
        here = {p.name for p in kept_params(kernel, schedule)}
        kept += sum(n in here for s in kernel.sweeps[1:] for n in s.reads)
    some = f"{most - kept}" if not (schedule.strip and schedule.tiers.rest and kept) else ""
    return some or f"{most - kept} to {most}"
