"""Which kernels over vectors mma.sync serves, and where their vectors lie in shared memory.

A stage is what is brought of a tile of columns at a time: vectors that scores are made of, all of
their numbers or a chunk of them, and vectors that are summed up. The vectors of a tile's rows stay
in registers; where these do not suffice, in shared memory; where that does not, they come with
every stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusegen.backend.emit.vector_sums import vector_sums
from fusegen.ir.errors import InternalError
from fusegen.ir.kernel import FromVectors, Kernel, Sweep

STEP = 16  # numbers that a product takes
WORD = 2  # bytes of a number
CHUNK = 128  # numbers of a stage's vectors, where they do not fit at once
MOST_AT_ONCE = 256  # numbers of vectors that do
PAD = 8  # numbers between vectors: an odd multiple of 16 bytes apart, neighbours lie in other banks
Role = Literal["rows", "columns", "summed"]
RESIDENT_BYTES = 72 << 10  # of rows' vectors that stay in shared memory, at most


def operand_of(kernel: Kernel) -> str | None:
    """The type of the vectors that the kernel multiplies: all of them of one, of 16 bits."""
    if kernel.compute.itemsize != 4:
        return None
    vectors = {p.name: p for p in kernel.params}
    met: list[str] = []
    for sweep in kernel.sweeps:
        for source in sources_of(sweep):
            if not source.is_dot:
                return None
            met += (*source.rows, *source.columns)
        for one in vector_sums(kernel, sweep):
            if not one.array:
                return None
            met.append(one.array)
    kinds = {vectors[n].dtype.name for n in met}
    return kinds.pop() if len(kinds) == 1 and kinds <= {"float16", "bfloat16"} else None


def sources_of(sweep: Sweep) -> tuple[FromVectors, ...]:
    """Elements that are made of vectors."""
    return tuple(s for s in sweep.loads if isinstance(s, FromVectors))


def serves_mma(kernel: Kernel) -> bool:
    """Can tensor cores make all products of the kernel's vectors?"""
    return operand_of(kernel) is not None


def has_products(kernel: Kernel) -> bool:
    """Does the kernel multiply vectors at all?"""
    return any(sources_of(w) or vector_sums(kernel, w) for w in kernel.sweeps)


# ---- shared memory ----


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a schedule: `rows` that warps of a team have together, `columns` of their tile."""

    rows: int
    row_tiles: int  # of 16 rows, of a warp
    columns: int
    stages: int
    teams: int  # of a block, each with stages and tiles of its own
    most_numbers: int  # of a sum of vectors

    def __post_init__(self) -> None:
        if self.columns % STEP:
            raise InternalError(
                f"tiles of {self.columns} columns: scores and weights are made {STEP} at a time")


@dataclass(frozen=True, slots=True)
class WordTable:
    """Vectors of an array in shared memory, `depth` numbers of each at a time."""

    array: str
    name: str
    role: Role
    count: int  # vectors
    length: int  # numbers of each
    depth: int
    at: int  # where it begins, in numbers: from the stage's beginning, or from the block's

    @property
    def end(self) -> int:
        return self.at + self.count * (self.depth + PAD)


@dataclass(frozen=True, slots=True)
class Plan:
    """Where one sweep has its vectors."""

    depth: int  # numbers of vectors that scores are made of, in a stage
    length: int  # of the longest of these
    held: bool  # are rows' vectors in registers?
    resident: tuple[WordTable, ...]  # of rows, for the whole sweep
    staged: tuple[WordTable, ...]

    @property
    def at_once(self) -> bool:
        """Has a stage all numbers of its vectors?"""
        return self.depth >= self.length

    @property
    def stage(self) -> int:
        """Numbers of a stage."""
        return max((t.end for t in self.staged), default=0)

    @property
    def stages_at(self) -> int:
        """Numbers before the first stage."""
        return max((t.end for t in self.resident), default=0)


def plan_of(kernel: Kernel, sweep: Sweep, shape: Shape) -> Plan:
    """Where a sweep of a kernel that mma.sync serves has its vectors."""
    lengths = {p.name: p.k for p in kernel.params}
    sources = sources_of(sweep)
    most = max((lengths[s.rows[0]] for s in sources), default=1)
    depth = padded(most) if padded(most) <= MOST_AT_ONCE else CHUNK
    stay = sum(shape.rows * (padded(lengths[s.rows[0]]) + PAD) * WORD for s in sources)
    held = depth >= most and registers(kernel, sweep, shape, rows=True) <= 170
    resident: list[WordTable] = []
    staged: list[WordTable] = []

    def put(found: list[WordTable], array: str, name: str, role: Role, depth: int) -> None:
        at = found[-1].end if found else 0
        count = shape.rows if role == "rows" else shape.columns
        found.append(WordTable(array, name, role, count, lengths[array], depth, at))

    for s in sources:
        (row,), (column,) = s.rows, s.columns
        whole = padded(lengths[row], STEP if depth >= most else depth)  # of a chunk all are read
        if not held:
            stays = stay <= RESIDENT_BYTES
            put(resident if stays else staged, row, f"{s.name}_{row}", "rows",
                whole if stays else min(depth, whole))
        put(staged, column, f"{s.name}_{column}", "columns", min(depth, whole))
    for array in dict.fromkeys(s.array for s in vector_sums(kernel, sweep)):
        numbers = min(padded(lengths[array], 8), shape.most_numbers)
        put(staged, array, f"{array}_summed", "summed", padded(numbers))
    return Plan(depth, most, held, tuple(resident), tuple(staged))


def registers(kernel: Kernel, sweep: Sweep, shape: Shape, *, rows: bool) -> int:
    """Of a lane: scores, sums of vectors and, perhaps, the rows' vectors."""
    lengths = {p.name: p.k for p in kernel.params}
    sources = sources_of(sweep)
    held = sum(min(s.length, shape.most_numbers) for s in vector_sums(kernel, sweep))
    found = (held + len(sources) * shape.columns) // 2
    if rows:
        found += sum(padded(lengths[s.rows[0]]) for s in sources) // 4
    return shape.row_tiles * found


def padded(length: int, step: int = STEP) -> int:
    """The next multiple of the step."""
    return -(-length // step) * step


def shared_bytes(kernel: Kernel, shape: Shape) -> int:
    """What the sweeps of a kernel that mma.sync serves need of a block's shared memory."""
    plans = [plan_of(kernel, sweep, shape) for sweep in kernel.sweeps]
    return max(WORD * (p.stages_at + shape.teams * shape.stages * p.stage) for p in plans)
