"""Library pipelines on one GPU beside torch eager, each as a ratio to the measured read limit.

    python benchmarks/cuda_bench.py [--output benchmarks/results/NAME.json] [--quick]

Every time is the median over repetitions with the L2 cache flushed and inputs rotated; every result
is checked against float64 in the same run, on fresh random inputs, with poisoned outputs. The read
limit is the best of several launch shapes of a plain read kernel over the same bytes.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cupy
import torch
import torch.nn.functional as F
from streams.limits import Limits
from streams.timing import Timer

import fusegen as fg


def torch_softmax_topk(x: torch.Tensor, k: int) -> Any:
    return torch.topk(torch.softmax(x, -1), k)


CASES: tuple[tuple[str, dict[str, Any], Callable[..., Any]], ...] = (
    ("softmax_topk", {"k": 5}, lambda x: torch_softmax_topk(x, 5)),
    ("softmax_topk", {"k": 64}, lambda x: torch_softmax_topk(x, 64)),
    ("topk", {"k": 5}, lambda x: torch.topk(x, 5)),
    ("logsumexp", {}, lambda x: torch.logsumexp(x, -1)),
    ("var_mean", {}, lambda x: torch.var_mean(x, -1, correction=0)),
    ("entropy", {}, lambda x: torch.distributions.Categorical(logits=x).entropy()),
    ("norm2", {}, lambda x: torch.linalg.vector_norm(x, dim=-1)),
    ("argmax", {}, lambda x: torch.argmax(x, -1)),
    ("softmax", {}, lambda x: torch.softmax(x, -1)),
    ("layer_norm", {}, lambda x: F.layer_norm(x, x.shape[-1:])),
    ("rms_norm", {}, lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-6)),
)


def largest_error(got: Any, want: Any, tolerance: float) -> float:
    """Greatest error in units of 1 + |want|; indices must name values as good as the right ones."""
    got = got if isinstance(got, tuple) else (got,)
    want = tuple(want) if isinstance(want, tuple) else (want,)
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        if g.dtype == torch.int64:
            continue  # compared through the values they point at
        error = ((g.double() - w.double()).abs() / (w.double().abs() + tolerance)).max()
        worst = max(worst, float(error))
    return worst


def poison(shape_like: Any) -> Any:
    if isinstance(shape_like, tuple):
        return tuple(poison(s) for s in shape_like)
    return torch.full_like(shape_like, -7 if shape_like.dtype == torch.int64 else float("nan"))


def case(
    timer: Timer, limits: Limits, name: str, constants: dict[str, Any], peer: Callable[..., Any],
    rows: int, cols: int, dtype: torch.dtype, forms: tuple[str, ...],
) -> list[dict[str, Any]]:
    pipeline = getattr(fg.library, name)
    copies = max(2, min(4, (256 << 20) // (rows * cols * dtype.itemsize)))
    inputs = [(torch.randn(rows, cols, device="cuda") * 3).to(dtype) for _ in range(copies)]
    limit = limits.read(rows * cols * dtype.itemsize).us
    peer_us = timer.microseconds([partial(peer, x) for x in inputs])
    want = peer(inputs[0].double())
    found = []
    for form in forms:
        first = pipeline(inputs[0], form=form, **constants)
        out = poison(first)
        compiled = pipeline.compile(inputs[0], form=form, **constants)
        calls = [partial(compiled, x, out=out) for x in inputs]
        us = timer.microseconds(calls)
        out = poison(first)
        compiled(inputs[0], out=out)
        torch.cuda.synchronize()
        error = largest_error(out, want, 1e-3)
        found.append({
            "pipeline": name, **constants, "rows": rows, "cols": cols, "dtype": str(dtype)[6:],
            "form": form, "us": us, "read_limit_us": limit, "torch_us": peer_us,
            "share_of_read_limit": limit / us, "times_torch": peer_us / us, "error": error,
            "schedule": compiled.schedule.describe(),
            "reads": compiled.plan.reads_per_element, "writes": compiled.plan.writes_per_element,
        })
        print(f"{name:14s}{constants.get('k', ''):>4} {rows}x{cols} {str(dtype)[6:]:9s}{form:8s}"
              f"{us:9.1f} us  read {limit:7.1f}  share {limit / us:5.2f}  torch {peer_us:8.1f} "
              f"({peer_us / us:5.2f}x)  err {error:.1e}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--quick", action="store_true", help="the headline shape only")
    args = parser.parse_args()
    torch.manual_seed(0)
    timer = Timer(30 if args.quick else 40)
    limits = Limits(timer)
    shapes = [(4000, 25000, torch.float32)]
    if not args.quick:
        shapes += [(32768, 1024, torch.float32), (4000, 129024, torch.float32),
                   (32768, 4096, torch.bfloat16), (10, 129024, torch.float32)]
    results = []
    for rows, cols, dtype in shapes:
        for name, constants, peer in CASES:
            every = name in ("softmax_topk", "softmax") and constants.get("k", 5) == 5
            forms = ("online", "safe", "unfused") if every else ("online",)
            try:
                results += case(timer, limits, name, constants, peer, rows, cols, dtype, forms)
            except Exception as error:  # one cell must not lose the others
                print(f"{name} {rows}x{cols} {dtype}: {type(error).__name__}: {error}", flush=True)
                results.append({"pipeline": name, "rows": rows, "cols": cols, "failed": str(error)})
    report = {
        "date": datetime.date.today().isoformat(), "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__, "cupy": cupy.__version__,
        "cuda_runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "driver": cupy.cuda.runtime.driverGetVersion(), "fusegen": fg.__version__,
        "method": "median, L2 flushed, inputs rotated, results checked against float64",
        "results": results,
    }
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
