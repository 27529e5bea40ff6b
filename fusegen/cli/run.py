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

from fusegen import lang as fg
from fusegen.cli.inputs import add_made_arguments, inputs_of
from fusegen.cli.named import constants_of, find_pipeline
from fusegen.compare import compare
from fusegen.dispatch import Call, Choices
from fusegen.errors import ArgumentError
from fusegen.forms import FORMS, check_form
from fusegen.pipeline import pipeline
from fusegen.plan import Plan, counted, plan_of, traffic
from fusegen.runtime import arrays as ar
from fusegen.value import Value

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
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto",
                        help="auto: the GPU if one can be used")  # fmt: skip
    parser.add_argument("--form", choices=FORMS, default="auto", help="how it is executed")
    parser.add_argument(
        "--chunk",
        type=int,
        metavar="N",
        help="elements folded before two states merge; 1: one at a time",
    )
    parser.add_argument("--deterministic", action="store_true",
                        help="bits of a row that do not depend on the number of rows")  # fmt: skip
    parser.add_argument("--tune", action="store_true",
                        help="measure the best few schedules first (GPU); kept")  # fmt: skip
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
                      deterministic=args.deterministic)  # fmt: skip
    call = owner.prepare((), {**given, **constants}, axis=args.axis, choices=choices)
    if args.tune and call.rows.n_rows:
        progress.say("measuring schedules")
        call.tune()
    progress.say("compiling and running")
    first = _run_once(call, progress)
    _print_facts(owner.name, args, given, call)
    if call.rows.n_rows:
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
                            fix=f"--output {shown}")  # fmt: skip
    if not path.parent.is_dir():
        raise ArgumentError(f"--output {path}: there is no folder {path.parent}")


def _placed(given: dict[str, Any], device: str) -> dict[str, Any]:
    if device == "cpu":
        return given
    cuda = ar.cuda_runtime()
    if device == "auto" and cuda.available() is not None:
        return given
    ar.need_cuda()
    adopted = {n: ar.adopt(n, a) for n, a in given.items()}
    return {n: cuda.to_device(np.ascontiguousarray(a.array), a.dtype) for n, a in adopted.items()}


def _run_once(call: Call, progress: Progress) -> float:
    options = {"progress": progress.of("running")} if call.device == "cpu" else {}
    start = time.perf_counter()
    call.run(**options)
    _wait(call)
    return time.perf_counter() - start


def _wait(call: Call) -> None:
    if call.device == "cuda":
        ar.cuda_runtime().synchronize()


def _print_facts(name: str, args: argparse.Namespace, given: dict[str, Any], call: Call) -> None:
    plan = _plan(call)
    shapes = ", ".join(f"{n} {tuple(a.array.shape)} {a.dtype}" for n, a in call.adopted.items())
    form = plan.form if args.form != "auto" else f"{plan.form} (chosen by auto)"
    print(f"{name:<11} {shapes}")
    print(f"form        {form}: {counted(plan.reads_per_element, 'read')} and "
          f"{counted(plan.writes_per_element, 'write')} per element")  # fmt: skip
    print(f"algorithm   {plan.algorithm}")
    print(f"device      {_device(call)}")


def _plan(call: Call) -> Plan:
    if not call.rows.n_rows:
        return plan_of(call.front.program, call.front.choices.chunk)
    chosen = getattr(call.executable, "schedule", None)
    program = getattr(call.executable, "program", call.front.program)
    return plan_of(program, call.front.choices.chunk, getattr(chosen, "algorithm", None))


def _device(call: Call) -> str:
    if call.device == "cuda":
        return str(ar.cuda_runtime().device_name())
    schedule = getattr(call.executable, "schedule", None) if call.rows.n_rows else None
    return f"CPU, {schedule.target.name}" if schedule is not None else "CPU, NumPy path"


def _print_times(call: Call, first: float, repeat: int | None, progress: Progress) -> None:
    seconds = _median(call, first, repeat, progress)
    program = getattr(call.executable, "program", call.front.program)
    moved = traffic(program, call.rows.n_rows, call.rows.n_cols)
    rate = moved.total / seconds
    print(f"time        {_time(seconds)} (median; first run with compilation {_time(first)})")
    limit = _read_limit(call, repeat, progress)
    print(f"memory      {moved.total / 1e6:.1f} MB by the plan, {rate / 1e9:.1f} GB/s")
    share = f"{100 * rate / limit:.0f} % of it"
    if moved.total < _COMPARABLE:
        share = f"no limit for {moved.total / 1e6:.1f} MB, which caches hold"
    print(f"limit       {limit / 1e9:.1f} GB/s, a plain row sum in this run: {share}")


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def _median(call: Call, first: float, repeat: int | None, progress: Progress) -> float:
    call.run()
    _wait(call)
    start = time.perf_counter()
    call.run()
    _wait(call)
    once = time.perf_counter() - start
    n = repeat if repeat is not None else int(min(max(_ENOUGH / once, 3), 100))
    progress.say(f"timing {n} runs")
    if call.device == "cuda":
        return float(statistics.median(ar.cuda_runtime().time_calls(call.run, n)))
    found = []
    for _ in range(n):
        start = time.perf_counter()
        call.run()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def _read_limit(call: Call, repeat: int | None, progress: Progress) -> float:
    """Bytes per second of a generated row sum over the first element input."""
    graph = call.front.graph
    node = next(i for i in graph.inputs if graph.names[i] in {
        p.name for p in call.front.program.inputs if p.shape == "element"})  # fmt: skip
    source = call.adopted[node.name]
    sums = row_sum.prepare((source.given,), {}, axis=-1)
    first = _run_once(sums, progress)
    seconds = _median(sums, first, repeat, progress)
    return float(source.array.size * source.dtype.itemsize / seconds)


def _write(path: Path, call: Call) -> None:
    found = {}
    for param, result in zip(call.front.outputs, call.results, strict=True):
        array = result.shaped
        if call.device == "cuda":
            array = ar.cuda_runtime().to_host(array, param.dtype)
        found[param.name] = np.asarray(array)
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
          f"largest value ({time.perf_counter() - start:.1f} s)")  # fmt: skip
    return 0
