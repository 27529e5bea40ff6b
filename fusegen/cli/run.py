"""fusegen run: input, execution, timing against the measured limit, checking, output."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fusegen.backend.arrays.adopt import adopt_all
from fusegen.backend.registry import backend_of, best_memory, memories, memory_named
from fusegen.cli.choices import add_choices
from fusegen.cli.compare import compare
from fusegen.cli.inputs import add_made_arguments, inputs_of
from fusegen.cli.named import constants_of, find_pipeline
from fusegen.compile.plan import Plan, counted, plan_of, traffic
from fusegen.compile.unstored import Sizes, unstored
from fusegen.ir.errors import ArgumentError
from fusegen.ir.forms import check_form
from fusegen.lang import lang as fg
from fusegen.lang.value import Value
from fusegen.pipeline.call import Call
from fusegen.pipeline.decorator import pipeline
from fusegen.pipeline.variants import Choices

_ENOUGH = 1.0  # seconds of timing, unless --repeat says otherwise
_COMPARABLE = 64 << 20  # bytes: with less, calls and caches are timed, not memory


@pipeline
def row_sum(x: Value) -> Value:
    """The least that any reduction does: read every element once."""
    return fg.sum(x)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pipeline", metavar="PIPELINE")
    add_made_arguments(parser)
    parser.add_argument(
        "--input", type=Path, metavar="FILE", help=".npy, or .npz by parameter names"
    )
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="write results as .npz")
    parser.add_argument("--axis", type=int, default=-1, help="the axis that is reduced (-1)")
    parser.add_argument("--device", choices=("auto", *(m.name for m in memories())),
                        default="auto", help="auto: a GPU if one can be used")
    add_choices(parser)
    parser.add_argument("--tune", action="store_true",
                        help="measure the best few schedules first (GPU); kept")
    parser.add_argument(
        "--repeat", type=int, metavar="N", help="timed runs (about a second's worth)"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare with the text in float64; exit status 1 on a mismatch",
    )


class Progress:
    """One line on a terminal's stderr, rewritten; silent elsewhere."""

    def __init__(self) -> None:
        self.shown = sys.stderr.isatty()

    def say(self, text: str) -> None:
        if self.shown:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def of(self, what: str) -> Callable[[float], None]:
        return lambda share: self.say(f"{what}: {100 * share:.0f} %")


def run(args: argparse.Namespace) -> int:
    """The command; returns the exit status."""
    progress = Progress()
    owner, constants = find_pipeline(args.pipeline), constants_of(args)
    if args.repeat is not None and args.repeat < 1:
        raise ArgumentError("--repeat must be 1 or more")
    if args.output is not None:
        _check_output(args.output)
    progress.say("making input" if args.input is None else f"reading {args.input}")
    given = inputs_of(owner, args, constants)
    given = _placed(given, args.device)
    choices = Choices(form=check_form(args.form), chunk=args.chunk, tune=args.tune,
                      deterministic=args.deterministic)
    call = owner.prepare((), {**given, **constants}, axis=args.axis, choices=choices)
    if args.tune and call.layout.rows.n_rows:
        progress.say("measuring schedules")
        call.tune()
    progress.say("compiling and running")
    first = _run_once(call, progress)
    _print_facts(owner.name, args, call)
    if call.layout.rows.n_rows:
        _print_times(call, first, args.repeat, progress)
    progress.say("")
    if args.output is not None:
        _write(args.output, call)
    return _checked(call, progress) if args.check else 0


def _check_output(path: Path) -> None:
    """Known before the work is done. Raises ArgumentError."""
    if path.suffix != ".npz":
        shown = path.with_suffix(".npz") if path.name else path / "out.npz"
        raise ArgumentError(f"--output {path} does not end in .npz",
                            why="Results are written as NumPy's archive of named arrays.",
                            fix=f"--output {shown}")
    if not path.parent.is_dir():
        raise ArgumentError(f"--output {path}: there is no folder {path.parent}")


def _placed(given: dict[str, Any], device: str) -> dict[str, Any]:
    memory = best_memory() if device == "auto" else memory_named(device)
    adopted = adopt_all(given)
    return {n: a.given if a.memory == memory else memory.from_host(a.array, a.dtype)
            for n, a in adopted.items()}


def _run_once(call: Call, progress: Progress) -> float:
    start = time.perf_counter()
    call.run(progress=progress.of("running"))
    call.layout.memory.synchronize()
    return time.perf_counter() - start


def _print_facts(name: str, args: argparse.Namespace, call: Call) -> None:
    plan = _plan(call)
    given = call.layout.adopted.items()
    shapes = ", ".join(f"{n} {tuple(a.array.shape)} {a.dtype}" for n, a in given)
    form = plan.form if args.form != "auto" else f"{plan.form} (chosen by auto)"
    print(f"{name:<11} {shapes}")
    print(f"form        {form}: {counted(plan.reads_per_element, 'read')} and "
          f"{counted(plan.writes_per_element, 'write')} per element")
    print(f"algorithm   {plan.algorithm}")
    for line in [] if plan.unstored is None else [*plan.unstored.lines()][1:]:
        print(f"            {line}")
    print(f"device      {_device(call)}")


def _plan(call: Call) -> Plan:
    chunk, rows = call.variants.choices.chunk, call.layout.rows
    program = call.executable.program if rows.n_rows else call.variants.program
    schedule = call.executable.schedule.algorithm if rows.n_rows else ""
    shapes = {n: tuple(a.array.shape) for n, a in call.layout.adopted.items()}
    sizes = Sizes(rows.lead, rows.n_cols, shapes)
    return plan_of(program, chunk, schedule, unstored(program, call.variants.graph, sizes))


def _device(call: Call) -> str:
    rows = call.layout.rows.n_rows
    target = call.executable.schedule.target if rows else call.variants.target(call.layout.memory)
    return backend_of(target).device(target)


def _print_times(call: Call, first: float, repeat: int | None, progress: Progress) -> None:
    seconds = _median(call, first, repeat, progress)
    moved = traffic(call.executable.program, call.layout.rows.n_rows, call.layout.rows.n_cols)
    rate = moved.total / seconds
    print(f"time        {_time(seconds)} (median; first run with compilation {_time(first)})")
    if all(p.shape != "element" for p in call.variants.program.inputs):
        made = call.layout.rows.n_rows * call.layout.rows.n_cols
        print(f"elements    {made / seconds / 1e6:.1f} million made of vectors in a second")
        return
    limit = _read_limit(call, repeat, progress)
    print(f"memory      {moved.total / 1e6:.1f} MB by the plan, {rate / 1e9:.1f} GB/s")
    share = f"{100 * rate / limit:.0f} % of it"
    if moved.total < _COMPARABLE:
        share = f"no limit for {moved.total / 1e6:.1f} MB, which caches hold"
    print(f"limit       {limit / 1e9:.1f} GB/s, a plain row sum in this run: {share}")


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def _median(call: Call, first: float, repeat: int | None, progress: Progress) -> float:
    memory = call.layout.memory
    call.run()
    memory.synchronize()
    start = time.perf_counter()
    call.run()
    memory.synchronize()
    once = time.perf_counter() - start
    n = repeat if repeat is not None else int(min(max(_ENOUGH / once, 3), 100))
    progress.say(f"timing {n} runs")
    return float(statistics.median(memory.seconds(call.run, n)))


def _read_limit(call: Call, repeat: int | None, progress: Progress) -> float:
    """Bytes per second of a generated row sum over the first element input."""
    graph = call.layout.graph
    node = next(i for i in graph.inputs if graph.names[i] in {
        p.name for p in call.variants.program.inputs if p.shape == "element"})
    source = call.layout.adopted[node.name]
    sums = row_sum.prepare((source.given,), {}, axis=-1)
    first = _run_once(sums, progress)
    seconds = _median(sums, first, repeat, progress)
    return float(source.array.size * source.dtype.itemsize / seconds)


def _write(path: Path, call: Call) -> None:
    found = {}
    for param, result in zip(call.layout.outputs, call.layout.results, strict=True):
        found[param.name] = np.asarray(call.layout.memory.to_host(result.shaped, param.dtype))
    with path.open("wb") as file:
        np.savez(file, **found)  # type: ignore[arg-type]
    print(f"written     {path}: {', '.join(f'{n} {a.shape}' for n, a in found.items())}")


def _checked(call: Call, progress: Progress) -> int:
    start = time.perf_counter()
    found = compare(call, progress.of("checking"))
    progress.say("")
    if found.worst is not None:
        print(f"check       FAILED: {found.worst}")
        return 1
    print(f"check       equal to the float64 reference, greatest error {found.relative:.1e} of the "
          f"largest value ({time.perf_counter() - start:.1f} s)")
    return 0
