"""What a small call costs on the CPU: arrays of NumPy and tensors, beside their own functions.

    python benchmarks/calls.py [--threads 1] [--output benchmarks/results/calls.json]

Microseconds per call. Every round times a group of calls of each candidate, one after the other, so
that whatever else the machine does meets all of them; a figure is the median over rounds. Results
are checked against float64 before anything is timed.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fusegen as fg
from fusegen.backend.cpu.helper import HELPER
from fusegen.backend.target import host_cpu

SHAPES = ((1, 4), (16, 256), (64, 1024), (347, 2265))
GROUP_SECONDS, ROUNDS, WARM_UP = 3e-4, 501, 5  # groups far shorter than a turn of the system's
TOLERANCE = 2e-5

Call = Callable[[], Any]


def softmax(x: np.ndarray) -> np.ndarray:
    """As one writes it in NumPy."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + eps)


def logsumexp(x: np.ndarray) -> np.ndarray:
    m = x.max(-1, keepdims=True)
    return np.log(np.exp(x - m).sum(-1)) + m[..., 0]


def topk(x: np.ndarray, k: int = 5) -> np.ndarray:
    return -np.sort(-x, axis=-1)[..., :k]


NUMPYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "softmax": softmax, "layer_norm": layer_norm, "logsumexp": logsumexp, "topk": topk,
}


def torchs(torch: Any, name: str, t: Any) -> Call:
    """torch's own."""
    norm = torch.nn.functional.layer_norm
    return {
        "softmax": lambda: torch.softmax(t, -1), "logsumexp": lambda: torch.logsumexp(t, -1),
        "layer_norm": lambda: norm(t, t.shape[-1:]), "topk": lambda: torch.topk(t, 5),
    }[name]


def in_python(pipeline: fg.Pipeline) -> fg.Pipeline:
    """The same pipeline, whose calls Python serves: the helper is told of none."""
    found = fg.Pipeline(pipeline.fn)
    found.traces.recall._teach = lambda *_: None  # type: ignore[method-assign]
    return found


def candidates(name: str, x: np.ndarray, torch: Any) -> Iterator[tuple[str, Call]]:
    """(what is called, a call of it)."""
    pipeline = getattr(fg.library, name)
    constants = {"k": 5} if name == "topk" else {}
    served, plain = fg.Pipeline(pipeline.fn), in_python(pipeline)
    out = served(x, **constants)
    yield "NumPy arrays", lambda: served(x, **constants)
    yield "NumPy arrays, out=", lambda: served(x, out=out, **constants)
    yield "NumPy arrays, without the helper", lambda: plain(x, **constants)
    yield "NumPy's own", lambda: NUMPYS[name](x)
    if torch is not None:
        t = torch.from_numpy(x)
        yield "tensors", lambda: served(t, **constants)
        yield "tensors, without the helper", lambda: plain(t, **constants)
        yield "torch's own", torchs(torch, name, t)


def check(name: str, x: np.ndarray, call: Call) -> None:
    """Raises AssertionError for a wrong result."""
    found = call()
    first = found[0] if isinstance(found, tuple) else found
    want = NUMPYS[name](x.astype("f8"))
    np.testing.assert_allclose(np.asarray(first), want, rtol=TOLERANCE, atol=TOLERANCE)


def medians(calls: dict[str, Call]) -> dict[str, float]:
    """Microseconds of each; candidates take turns."""
    counts, times = {}, {name: list[float]() for name in calls}
    for name, call in calls.items():
        one = min(seconds(call, 10) for _ in range(5)) / 10
        counts[name] = max(1, int(GROUP_SECONDS / one))
    for turn in range(WARM_UP + ROUNDS):
        for name, call in calls.items():
            spent = seconds(call, counts[name]) / counts[name]
            if turn >= WARM_UP:
                times[name].append(spent)
    return {name: 1e6 * statistics.median(found) for name, found in times.items()}


def seconds(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def measure(torch: Any) -> dict[str, dict[str, float]]:
    found = {}
    for n_rows, n_cols in SHAPES:
        x = np.random.default_rng(0).standard_normal((n_rows, n_cols)).astype("f4")
        for name in NUMPYS:
            if name == "topk" and n_cols < 5:
                continue
            calls = dict(candidates(name, x, torch))
            for call in calls.values():
                check(name, x, call)
            key = f"{name} of {n_rows} × {n_cols}"
            found[key] = medians(calls)
            print(key, *(f"{what} {us:.2f}" for what, us in found[key].items()), sep="; ",
                  flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    os.environ["FUSEGEN_THREADS"] = str(args.threads)
    try:
        import torch
    except ImportError:
        torch = None  # type: ignore[assignment]
    else:
        torch.set_num_threads(args.threads)
    print(HELPER.finding())
    report = {
        "date": datetime.date.today().isoformat(), "fusegen": fg.__version__,
        "cpu": host_cpu().name, "threads": args.threads, "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": importlib.metadata.version("torch") if torch is not None else None,
        "helper": HELPER.how or HELPER.why,
        "method": f"medians of {ROUNDS} rounds; candidates take turns of 0.3 ms",
        "microseconds": measure(torch),
    }
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
