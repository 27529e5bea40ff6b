"""What a call on GPU arrays costs the host, beside a bare kernel launch and torch.

    python benchmarks/host_bench.py [--output benchmarks/results/NAME.json]

Microseconds per call: the median over groups of calls, the device awaited between groups so that
its queue stays short; all cases in turns. Rows are few: the device is done before the host.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cupy

import fusegen as fg
from fusegen.backend.cpu.helper import HELPER

ROWS, COLS = 16, 1024
GROUP, GROUPS, WARM_UP, TURNS = 100, 200, 20, 20

KERNEL = r"""
extern "C" __global__ void copy(const float* __restrict__ x, float* out, long long n)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i];
}
"""


def microseconds(
    call: Callable[[], Any], groups: int = GROUPS,
    of: Callable[[list[float]], float] = statistics.median,
) -> float:
    """Of the host, per call; of: which of the groups' times."""
    return of(_groups(call, groups, WARM_UP)) / GROUP * 1e6


def _groups(call: Callable[[], Any], groups: int, warm_up: int) -> list[float]:
    """Seconds of each group."""
    times = []
    for group in range(warm_up + groups):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        for _ in range(GROUP):
            call()
        if group >= warm_up:
            times.append(time.perf_counter() - start)
    cupy.cuda.Device().synchronize()
    return times


def bare_launch() -> Callable[[], Any]:
    """A kernel by CuPy's own launcher, nothing allocated."""
    kernel = cupy.RawKernel(KERNEL, "copy")
    x = cupy.zeros((ROWS, COLS), "float32")
    out, n = cupy.empty_like(x), x.size
    return lambda: kernel((ROWS,), (COLS,), (x, out, n))


def calls_of(pipeline: Any, x: Any, constants: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The ways to call a pipeline on one array."""
    out = pipeline(x, **constants)
    compiled = pipeline.compile(x, **constants)
    yield "pipeline", partial(pipeline, x, **constants)
    yield "pipeline, out=", partial(pipeline, x, out=out, **constants)
    yield "compiled", partial(compiled, x)
    yield "compiled, out=", partial(compiled, x, out=out)


def fusegen_calls(x: Any) -> Iterator[tuple[str, Any]]:
    for name, constants in (("softmax", {}), ("logsumexp", {}), ("softmax_topk", {"k": 5})):
        for way, call in calls_of(getattr(fg.library, name), x, constants):
            yield f"{name}, {way}", call


def torch_calls() -> Iterator[tuple[str, Any]]:
    """fusegen's and torch's own, on a tensor; nothing where torch is not installed."""
    try:
        import torch
    except ImportError:
        return
    x = torch.randn(ROWS, COLS, device="cuda")
    out = torch.empty_like(x)
    for name, call in fusegen_calls(x):
        yield f"torch tensor: {name}", call
    yield "torch.softmax", partial(torch.softmax, x, -1)
    yield "torch.softmax, out=", partial(torch.softmax, x, -1, out=out)
    yield "torch.logsumexp", partial(torch.logsumexp, x, -1)


def measure() -> dict[str, float]:
    """Every case's microseconds."""
    x = cupy.random.standard_normal((ROWS, COLS), dtype=cupy.float32)
    cases = [("bare CuPy launch", bare_launch())]
    cases += [(f"CuPy array: {name}", call) for name, call in fusegen_calls(x)]
    cases += torch_calls()
    times: dict[str, list[float]] = {name: [] for name, _ in cases}
    for turn in range(TURNS):
        for name, call in cases:
            times[name] += _groups(call, GROUPS // TURNS, 1 if turn else WARM_UP)
    found = {name: statistics.median(spent) / GROUP * 1e6 for name, spent in times.items()}
    for name, one in found.items():
        ratio = one / found["bare CuPy launch"]
        print(f"{name:48s}{one:8.2f} us {ratio:6.2f} × a bare launch")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    print(HELPER.finding())
    found = measure()
    report = {
        "date": datetime.date.today().isoformat(), "fusegen": fg.__version__,
        "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "cpu": platform.processor() or platform.machine(), "python": platform.python_version(),
        "cupy": cupy.__version__, "driver": cupy.cuda.runtime.driverGetVersion(),
        "helper": HELPER.how or HELPER.why, "rows": ROWS, "cols": COLS,
        "method": f"median of {GROUPS} groups of {GROUP} calls",
        "microseconds": found,
    }
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
