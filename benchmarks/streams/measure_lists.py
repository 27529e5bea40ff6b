"""Lists on the device: checked, beside a plain read of the same bytes and torch."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

import fusegen as fg
from fusegen.backend.cuda.schedule import select
from streams.limits import Limits
from streams.lists import ALONE, FUSED, ListCell
from streams.texts import DTYPES, TOLERANCE
from streams.timing import Timer

_SAMPLED_ROWS = 8  # sorted whole in float64
_ELEMENTS = 1 << 27  # looked at at a time
SCORES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    FUSED: lambda x: torch.softmax(x, -1),
    ALONE: lambda x: x,
}
"""What a work lists the best of, as torch writes it."""
_ORDERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "ascending": lambda c: c / c.numel() * 8,
    "descending": lambda c: -c / c.numel() * 8,
    "equal": lambda c: torch.full_like(c, 1.5),
    "outlier": lambda c: torch.where(c == c.numel() // 2, 1e30, 1.5),
    "stairs": lambda c: (c // 4096) * 0.25,
}


class ListBench:
    """Measures cells on the current device; arrays and limits serve every K. `variants`: time so
    many of a cell's schedules, the cheapest by price first."""

    def __init__(self, repetitions: int, peers: bool, variants: int, seed: int) -> None:
        torch.manual_seed(seed)
        torch.set_grad_enabled(False)
        self._timer = Timer(repetitions)
        self._timer.warm_up()
        self._limits, self._peers, self._variants = Limits(self._timer), peers, variants
        self._x: dict[tuple[int, int, str, str], torch.Tensor] = {}
        self._reads: dict[int, float] = {}

    def measure(self, cell: ListCell) -> dict[str, Any]:
        """A record of the cell; status is "ok" or "WRONG". Raises what fusegen raises."""
        x, pipeline, out = self._input(cell), getattr(fg.library, cell.work), outputs_of(cell)
        options: dict[str, Any] = {"form": cell.form, "out": out}
        executable: Any = pipeline.prepare((x,), {"k": cell.k}, **options).executable
        if cell.input_bytes not in self._reads:
            self._reads[cell.input_bytes] = self._limits.over("read", [x], None).us
        times, wrong = self._timed(pipeline, cell, x, options)
        found = {
            **asdict(cell), "key": cell.key, "status": "WRONG" if wrong else "ok", "wrong": wrong,
            "limit_us": self._reads[cell.input_bytes], "us": statistics.median(times),
            "us_all": times, "shape": shape_of(executable.schedule),
            "schedule": executable.schedule.describe(),
        }
        if self._variants:
            found["variants"] = [self._variant(n, cell, x, options) for n in range(self._variants)]
            found["wrong"] = "; ".join(v[2] for v in found["variants"] if v[2]) or wrong
            found["status"] = "WRONG" if found["wrong"] else "ok"
        if self._peers and cell.beside_torch:
            found["torch_us"] = self._timer.microseconds(
                [lambda: torch.topk(SCORES[cell.work](x), cell.k)]
            )
        return found

    def _timed(
        self, pipeline: fg.Pipeline, cell: ListCell, x: torch.Tensor, options: dict[str, Any]
    ) -> tuple[list[float], str]:
        times = self._timer.times([partial(pipeline, x, k=cell.k, **options)])
        options["out"][0].fill_(float("nan"))
        options["out"][1].fill_(-1)
        values, columns = pipeline(x, k=cell.k, **options)
        return times, what_is_wrong(cell, x, values, columns)

    def _variant(
        self, number: int, cell: ListCell, x: torch.Tensor, options: dict[str, Any]
    ) -> tuple[str, float, str]:
        """Shape and microseconds of a schedule, and what is wrong with it."""
        with variant(number, cell.work) as pipeline:
            executable: Any = pipeline.prepare((x,), {"k": cell.k}, **options).executable
            times, wrong = self._timed(pipeline, cell, x, options)
        return shape_of(executable.schedule), statistics.median(times), wrong

    def _input(self, cell: ListCell) -> torch.Tensor:
        key = cell.rows, cell.cols, cell.dtype, cell.data
        if key not in self._x:
            self._x.clear()
            torch.cuda.empty_cache()
            self._x[key] = input_of(cell)
        return self._x[key]


def shape_of(schedule: Any) -> str:
    """Who owns a row, in a few words."""
    blocks = f"/{schedule.blocks}" if schedule.blocks > 1 else ""
    stages, team = schedule.home.stages, type(schedule.team).__name__.lower()
    ring = f" ring of {stages}" if stages else ""
    return f"{team}{blocks} {schedule.threads}×{schedule.vectors}×{schedule.width}{ring}"


@contextmanager
def variant(number: int, work: str) -> Iterator[fg.Pipeline]:
    """The work's pipeline with the schedule that is so far behind the cheapest by price."""

    def chosen(program: Any, problem: Any, target: Any, chunk: Any = None) -> Any:
        found = select.candidates(program, problem, target, chunk)
        return found[min(number, len(found) - 1)].schedule

    plain = select.select_cuda
    select.select_cuda = chosen
    try:
        yield fg.Pipeline(getattr(fg.library, work).fn)
    finally:
        select.select_cuda = plain


def input_of(cell: ListCell) -> torch.Tensor:
    """The cell's array on the device."""
    x = torch.empty((cell.rows, cell.cols), dtype=DTYPES[cell.dtype], device="cuda")
    step = max(1, _ELEMENTS // cell.cols)
    column = torch.arange(cell.cols, device="cuda", dtype=torch.float32)
    for start in range(0, cell.rows, step):
        part = x[start : start + step]
        match cell.data:
            case "random":
                made = torch.randn(part.shape, device="cuda")
            case "few values":
                made = torch.randint(0, 50, part.shape, device="cuda") / 8.0
            case "mostly -inf":
                made = torch.randn(part.shape, device="cuda")
                made[torch.rand(part.shape, device="cuda") < 0.9] = -torch.inf
            case order:
                made = _ORDERS[order](column).expand(part.shape)
        part.copy_(made)
    return x


def outputs_of(cell: ListCell) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory for values and columns."""
    shape = (cell.rows, cell.k)
    return (torch.empty(shape, dtype=DTYPES[cell.dtype], device="cuda"),
            torch.empty(shape, dtype=torch.int64, device="cuda"))


def what_is_wrong(
    cell: ListCell, x: torch.Tensor, values: torch.Tensor, columns: torch.Tensor
) -> str:
    """Every row's elements against torch's; columns and values of some rows against a stable sort
    in float64. "" if all is right."""
    if int(columns.min()) < 0 or int(columns.max()) >= cell.cols:
        return "a column out of range"
    step = max(1, _ELEMENTS // cell.cols)
    for start in range(0, cell.rows, step):
        part = x[start : start + step]
        want = torch.topk(part, cell.k).values
        if not _agree(cell, part.gather(1, columns[start : start + step]), want):
            return f"other elements than torch's in rows {start}…"
    rows = torch.linspace(0, cell.rows - 1, min(cell.rows, _SAMPLED_ROWS), device=x.device).long()
    exact = x[rows].double()
    order = torch.sort(exact, dim=1, descending=True, stable=True).indices[:, : cell.k]
    if cell.form == "unfused":
        order = columns[rows]  # looked at above
    if not torch.equal(order, columns[rows]):
        return "columns in another order than a stable sort's"
    want = SCORES[cell.work](exact).gather(1, order)
    error = _error(values[rows].double(), want)
    tolerance = 0.0 if cell.work == ALONE else TOLERANCE[cell.dtype]  # alone they are x's own
    return f"values off by {error:.1e}" if not error <= tolerance else ""


def _error(found: torch.Tensor, want: torch.Tensor) -> float:
    """Greatest relative error; equal infinities have none."""
    relative = (found - want).abs() / (want.abs() + 1e-30)
    return float(torch.where(found == want, 0.0, relative).max())


def _agree(cell: ListCell, found: torch.Tensor, want: torch.Tensor) -> bool:
    """Unfused, elements are told apart by probabilities that were rounded when they were stored."""
    if cell.form == "unfused":
        return torch.allclose(found, want, rtol=0, atol=4e-6)
    return torch.equal(found, want)


def compile_only(cell: ListCell, variants: int) -> None:
    """Bring the cell's kernels into the caches on disk, without running them."""
    x = torch.empty((cell.rows, cell.cols), dtype=DTYPES[cell.dtype], device="cuda")
    options: dict[str, Any] = {"form": cell.form, "out": outputs_of(cell)}
    for number in range(max(1, variants)):
        with variant(number, cell.work) as pipeline:
            assert pipeline.prepare((x,), {"k": cell.k}, **options).executable is not None
    del x
    torch.cuda.empty_cache()  # other processes compile beside this one
