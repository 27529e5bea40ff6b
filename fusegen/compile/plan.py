"""What a program does to memory, and what the field calls it."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.compile.unstored import Unstored
from fusegen.ir.expr import Call, ops_of
from fusegen.ir.kernel import Kernel, Program, Sweep
from fusegen.ir.monoid import KBest


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One sweep: its algorithm, the arrays it reads, what it folds, the arrays it stores."""

    number: int
    algorithm: str
    reads: tuple[str, ...]
    folds: tuple[str, ...]
    stores: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The sweeps of a program and what each element costs.

    `reads_per_element` and `writes_per_element` count accesses to arrays of the rows' size, as
    Milakov & Gimelshein do: their sum is the paper's "memory accesses per element".
    """

    form: str
    algorithm: str
    kernels: int
    reads_per_element: int
    writes_per_element: int
    stages: tuple[StagePlan, ...]
    unstored: Unstored | None = None  # of elements that are made of vectors

    @property
    def sweeps(self) -> int:
        return len(self.stages)

    @property
    def accesses_per_element(self) -> int:
        return self.reads_per_element + self.writes_per_element

    def __str__(self) -> str:
        head = (
            f"{self.form}: {self.algorithm}; {counted(self.sweeps, 'sweep')} in "
            f"{counted(self.kernels, 'kernel')}, per element "
            f"{counted(self.reads_per_element, 'read')} and "
            f"{counted(self.writes_per_element, 'write')}"
        )
        cells = [("sweep", "algorithm", "reads", "folds", "stores")]
        cells += [
            (
                str(s.number),
                s.algorithm,
                ", ".join(s.reads),
                ", ".join(s.folds),
                ", ".join(s.stores),
            )
            for s in self.stages
        ]
        widths = [max(len(row[i]) for row in cells) for i in range(5)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in cells]
        lines += [] if self.unstored is None else self.unstored.lines()
        return "\n".join([head, *(f"  {line.rstrip()}" for line in lines)])


def counted(n: int, what: str) -> str:
    """`1 read`, `2 reads`."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def plan_of(
    program: Program, chunk: int | None = None, schedule: str = "",
    unstored: Unstored | None = None,
) -> Plan:
    """The plan of a program; `schedule` names the tree that a backend chose, if one did."""
    stages = tuple(
        StagePlan(
            s.number, _sweep_algorithm(s, program.form, chunk), s.reads, _folds(s), _stores(s)
        )
        for s in program.sweeps
    )
    name = algorithm(program, chunk)
    return Plan(
        form="online" if program.form == "auto" else program.form,
        algorithm=_with_tree(name, schedule),
        kernels=len(program.kernels), reads_per_element=program.reads_per_element,
        writes_per_element=program.writes_per_element, stages=stages, unstored=unstored,
    )


def _with_tree(name: str, schedule: str) -> str:
    """The backend's own words for the tree of merges, where there is a tree."""
    if not schedule or "online" not in name:
        return name
    return schedule if "online" in schedule else f"{name}, {schedule}"


def algorithm(program: Program, chunk: int | None = None) -> str:
    """The program's name in the literature."""
    if program.role in ("merge", "finish"):
        return "states merged in order" if program.role == "merge" else "states read out"
    if program.form == "unfused":
        return "unfused, each reduction its own kernel"
    if any(s.monoid.moving for s in program.sweeps):
        return _online(chunk)
    folding = [s for s in program.sweeps if not s.monoid.is_empty]
    if any(_is_naive(s) for s in folding):
        return "naive, exp without its maximum as written"
    if len(folding) > 1:
        return "safe, the row read again per dependent level"
    own = " and your own" if any(s.monoid.own for s in folding) else ""
    return f"one fold of base monoids{own}" if folding else "elementwise"


def _online(chunk: int | None) -> str:
    return "online, one element at a time" if chunk == 1 else "block online"


def _is_naive(sweep: Sweep) -> bool:
    """Does it add up exponentials of plain inputs?"""
    inputs = set(sweep.reads)
    lets = {let.name: let.expr for let in sweep.lets}
    for part in sweep.monoid.folded:
        lift = lets.get(getattr(part.lift, "name", ""), part.lift)
        if isinstance(lift, Call) and part.fold == "sum" and "exp" in ops_of(lift):
            arg = lift.args[0]
            return lift.op == "exp" and getattr(arg, "name", None) in inputs
    return False


def _sweep_algorithm(sweep: Sweep, form: str, chunk: int | None) -> str:
    if sweep.monoid.moving:
        return _online(chunk)
    if sweep.monoid.is_empty:
        return "map"
    return "naive fold" if _is_naive(sweep) else "fold"


def _folds(sweep: Sweep) -> tuple[str, ...]:
    return tuple(f"top {c.k}" if isinstance(c, KBest) else c.name for c in sweep.monoid.components)


def _stores(sweep: Sweep) -> tuple[str, ...]:
    return tuple(s.param for s in sweep.stores)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of device memory that a program must move for arrays of a given size."""

    read: int
    written: int

    @property
    def total(self) -> int:
        return self.read + self.written


def traffic(program: Program, n_rows: int, n_cols: int) -> Traffic:
    """Bytes by the plan; gathers and cached re-reads of side inputs are not counted."""
    reads = sum(
        _size(k, name, n_rows, n_cols)
        for k in program.kernels for s in k.sweeps for name in s.reads
    )
    written = sum(
        _size(k, store.param, n_rows, n_cols)
        for k in program.kernels for s in k.sweeps
        for store in s.stores
    )
    return Traffic(reads, written)


def _size(kernel: Kernel, name: str, n_rows: int, n_cols: int) -> int:
    param = kernel.param(name)
    match param.shape:
        case "element":
            count = n_rows * n_cols
        case "per_column" | "columns":
            count = n_cols  # of one batch
        case "row":
            count = n_rows
        case "scalar":
            return 0
        case "list" | "states" | "row_vector":
            count = n_rows * param.k
        case "column_vector":
            count = n_cols * param.k  # of one batch
    return count * param.dtype.itemsize
