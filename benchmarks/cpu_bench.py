"""Library pipelines on the CPU beside torch eager, each as a share of the measured read limit.

    python benchmarks/cpu_bench.py [--output benchmarks/results/NAME.json]
    python benchmarks/cpu_bench.py --lists [--output benchmarks/results/NAME.json]

--lists: softmax + top K of several K and shapes instead, each K beside K = 5 too.
The limit is a plain hand-written read of the same array by as many threads, compiled with the same
flags. Minimum and median of repetitions, interleaved; results are checked against float64.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.target import host_cpu

READ = r"""
typedef float lanes __attribute__((vector_size(%d), aligned(4)));
extern "C" float read_all(const float* x, long long n)
{
    const long long width = sizeof(lanes) / 4;
    lanes a = {}, b = {}, c = {}, d = {};
    long long i = 0;
    for (; i + 4 * width <= n; i += 4 * width) {
        a += *(const lanes*)(x + i);
        b += *(const lanes*)(x + i + width);
        c += *(const lanes*)(x + i + 2 * width);
        d += *(const lanes*)(x + i + 3 * width);
    }
    a += b + c + d;
    float total = 0;
    for (int j = 0; j < width; ++j) total += a[j];
    return total;
}
"""


def reader(threads: int) -> Callable[[np.ndarray], None]:
    """A plain read of an array by this many threads."""
    target = host_cpu()
    folder = Path(tempfile.mkdtemp())
    source, library = folder / "read.cpp", folder / "read.so"
    source.write_text(READ % target.vector_bytes)
    found = find_compiler()
    assert found is not None
    subprocess.run([*found.words, "-O3", "-shared", "-fPIC", *target.flags,
                    "-o", str(library), str(source)], check=True)
    function = ctypes.CDLL(str(library)).read_all
    function.argtypes = [ctypes.c_void_p, ctypes.c_longlong]
    function.restype = ctypes.c_float
    pool = ThreadPoolExecutor(threads)

    def run(x: np.ndarray) -> None:
        parts = np.array_split(x.reshape(-1), threads)
        list(pool.map(lambda p: function(p.ctypes.data, p.size), parts))

    return run


def timed(calls: dict[str, Callable[[], Any]], repetitions: int) -> dict[str, list[float]]:
    """Milliseconds of each call, interleaved so that all meet the same machine."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repetitions):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - start) * 1e3)
    return times


def peers(x: np.ndarray, k: int = 5) -> dict[str, Callable[[], Any]]:
    """torch eager, where torch is installed."""
    try:
        import torch
    except ImportError:
        return {}
    t = torch.from_numpy(x)
    return {
        "softmax_topk": lambda: torch.topk(torch.softmax(t, -1), k),
        "logsumexp": lambda: torch.logsumexp(t, -1),
        "softmax": lambda: torch.softmax(t, -1),
        "var_mean": lambda: torch.var_mean(t, -1, correction=0),
        "layer_norm": lambda: torch.nn.functional.layer_norm(t, t.shape[-1:]),
    }


def largest_error(got: Any, want: Any) -> float:
    """Greatest relative error; outside top-K lists, what is below a thousandth of the greatest
    value counts as that much (means of noise about 0)."""
    got, want = (v if isinstance(v, tuple) else (v,) for v in (got, want))
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        size = np.abs(w)
        floor = 1e-30 if len(got) == 2 and g.ndim == 2 else 1e-3 * size.max()
        worst = max(worst, float((np.abs(g - w) / np.maximum(size, floor)).max()))
    return worst


CASES = (("softmax_topk", {"k": 5}, "online"), ("softmax_topk", {"k": 5}, "safe"),
         ("softmax_topk", {"k": 5}, "unfused"), ("logsumexp", {}, "online"),
         ("entropy", {}, "online"), ("var_mean", {}, "online"), ("argmax", {}, "online"),
         ("softmax", {}, "online"), ("layer_norm", {}, "online"))


def measured(
    name: str, constants: dict[str, Any], form: str, x: np.ndarray, read: Callable[..., None],
    eager: Callable[[], Any] | None, repetitions: int,
) -> dict[str, Any]:
    """One row of the table."""
    pipeline = getattr(fg.library, name)
    first = pipeline(x, form=form, **constants)
    out = tuple(map(np.empty_like, first)) if isinstance(first, tuple) else np.empty_like(first)
    calls: dict[str, Callable[[], Any]] = {
        "read": partial(read, x),
        "fusegen": partial(pipeline, x, out=out, form=form, **constants),
    }
    if eager is not None:
        calls["torch"] = eager
    times = timed(calls, repetitions)
    few = x[:64]
    row = {
        "pipeline": name, **constants, "form": form,
        "error": largest_error(pipeline(few, form=form, **constants),
                               pipeline.reference(few, **constants)),
        **{f"{n}_ms": statistics.median(t) for n, t in times.items()},
        **{f"{n}_min_ms": min(t) for n, t in times.items()},
    }
    row["share_of_read_limit"] = row["read_ms"] / row["fusegen_ms"]
    row["times_torch"] = row["torch_ms"] / row["fusegen_ms"] if eager else None
    return row


SHAPES = ((4000, 25_000), (1000, 129_024), (4000, 1008))
DATA: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "normal": lambda x: x,
    "ascending": lambda x: np.sort(x, axis=1),
}


def measured_lists(
    x: np.ndarray, data: str, read: Callable[..., None], repetitions: int
) -> list[dict[str, Any]]:
    """A row of the table for every K, all interleaved; indices against a stable sort."""
    x = DATA[data](x)
    lengths = [k for k in (5, 64, 256, 1024) if k <= x.shape[1]]
    calls: dict[str, Callable[[], Any]] = {"read": partial(read, x)}
    for k in lengths:
        out = tuple(map(np.empty_like, fg.library.softmax_topk(x, k=k)))
        calls[f"fusegen {k}"] = partial(fg.library.softmax_topk, x, out=out, k=k)
        if eager := peers(x, k):
            calls[f"torch {k}"] = eager["softmax_topk"]
    times = timed(calls, repetitions)
    few = x[:64]
    best = np.argsort(-few, axis=1, kind="stable")
    rows = []
    for k in lengths:
        names = {"read": "read", "fusegen": f"fusegen {k}", "torch": f"torch {k}"}
        held = {name: times[call] for name, call in names.items() if call in times}
        got = fg.library.softmax_topk(few, k=k)
        row = {
            "pipeline": "softmax_topk", "k": k, "form": "auto", "data": data, "rows": x.shape[0],
            "cols": x.shape[1], "indices_right": bool((got[1] == best[:, :k]).all()),
            "error": largest_error(got[0], np.take_along_axis(softmax(few), best[:, :k], 1)),
            **{f"{name}_ms": statistics.median(t) for name, t in held.items()},
            **{f"{name}_min_ms": min(t) for name, t in held.items()},
        }
        row["share_of_read_limit"] = row["read_min_ms"] / row["fusegen_min_ms"]
        peer = row.get("torch_min_ms")
        row["times_torch"] = peer / row["fusegen_min_ms"] if peer else None
        row["times_k5"] = row["fusegen_min_ms"] / min(times["fusegen 5"])
        rows.append(row)
    return rows


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def show_list(row: dict[str, Any]) -> None:
    times = row["times_torch"]
    peer = f"torch {row['torch_min_ms']:7.1f} ({times:.1f}x)" if times else ""
    print(f"{row['data']:10s}{row['rows']:6d} x {row['cols']:<7d}K {row['k']:<6d}"
          f"{row['fusegen_min_ms']:8.1f} ms  {row['times_k5']:.2f} of K = 5  {peer}  "
          f"err {row['error']:.1e}{'' if row['indices_right'] else '  WRONG INDICES'}",
          flush=True)


def show(row: dict[str, Any]) -> None:
    peer = f"torch {row['torch_ms']:7.1f} ({row['times_torch']:.1f}x)" if row["times_torch"] else ""
    print(f"{row['pipeline']:14s}{row['form']:8s}{row['fusegen_ms']:8.1f} ms  read "
          f"{row['read_ms']:6.1f}  share {row['share_of_read_limit']:.2f}  "
          f"err {row['error']:.1e}  {peer}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--cols", type=int, default=25_000)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--lists", action="store_true", help="several K and shapes")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    read = reader(threads)
    results = every_list(args, read) if args.lists else every_case(args, read)
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(report(args, threads, results), indent=1) + "\n")


def numbers(rows: int, cols: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((rows, cols), dtype=np.float32) * 3


def every_case(args: argparse.Namespace, read: Callable[..., None]) -> list[dict[str, Any]]:
    x = numbers(args.rows, args.cols)
    eager, results = peers(x), []
    for name, constants, form in CASES:
        peer = eager.get(name) if form == "online" else None
        results.append(measured(name, constants, form, x, read, peer, args.repetitions))
        show(results[-1])
    return results


def every_list(args: argparse.Namespace, read: Callable[..., None]) -> list[dict[str, Any]]:
    results = []
    for rows, cols in SHAPES:
        for data in DATA:
            x = numbers(rows if data == "normal" else rows // 10, cols)
            for row in measured_lists(x, data, read, args.repetitions):
                results.append(row)
                show_list(row)
    return results


def report(args: argparse.Namespace, threads: int, results: list[Any]) -> dict[str, Any]:
    found = find_compiler()
    assert found is not None
    version = subprocess.run([*found.words, "--version"], capture_output=True, text=True,
                             check=True).stdout.splitlines()[0]
    shape = {} if args.lists else {"rows": args.rows, "cols": args.cols}
    return {
        "date": datetime.date.today().isoformat(), **shape,
        "cpu": cpu_name(), "target": host_cpu().name, "threads": threads,
        "fusegen": fg.__version__, "python": platform.python_version(), "compiler": version,
        "method": f"{'minimum' if args.lists else 'median'} of interleaved repetitions",
        "results": results,
    }


def cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((ln.split(":", 1)[1].strip() for ln in lines if ln.startswith("model name")), "")


if __name__ == "__main__":
    main()
