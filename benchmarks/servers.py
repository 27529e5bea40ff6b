"""An exported library in fresh processes: what its first call waits for, in Python and without.

    python benchmarks/servers.py --output benchmarks/results/servers.json

softmax_topk of 16 × 256 floats, exported for processors. Milliseconds of the processor, of all
threads (a busy machine lengthens time more than these), the median of fresh processes: importing
NumPy, then fusegen, `fg.load`, the first call and the second; and, through ctypes alone, loading
the library and its first call, as a program in C has them. Files are in the page cache.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import fusegen as fg

PYTHON = """
import sys, time
t = [time.process_time()]
def step(): t.append(time.process_time())
import numpy as np; step()
import fusegen as fg; step()
p = fg.load(sys.argv[1]); step()
x = np.ones((16, 256), np.float32)
p(x); step()
p(x); step()
print(*(1e3 * (b - a) for a, b in zip(t, t[1:])))
"""
C = """
import ctypes, sys, time
x, values, indices = ((ctypes.c_char * n)() for n in (16 * 256 * 4, 16 * 5 * 4, 16 * 5 * 8))
n = ctypes.c_int64
t = [time.process_time()]
f = ctypes.CDLL(sys.argv[1]).softmax_topk_float32_cpu
t.append(time.process_time())
for _ in range(2):
    assert f(x, n(256), values, indices, n(16), n(256), 1) == 0
    t.append(time.process_time())
print(*(1e3 * (b - a) for a, b in zip(t, t[1:])))
"""
STEPS = {"python": ("import numpy", "import fusegen", "fg.load", "first call", "second call"),
         "c": ("load the library", "first call", "second call")}


def measured(program: str, steps: tuple[str, ...], library: Path, times: int) -> dict[str, float]:
    """The median of every step."""
    found = [[float(word) for word in subprocess.run(
        [sys.executable, "-c", program, str(library)], check=True, capture_output=True,
        text=True).stdout.split()] for _ in range(times)]
    medians = map(statistics.median, zip(*found, strict=True))
    return {step: round(ms, 3) for step, ms in zip(steps, medians, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=25, help="fresh processes")
    parser.add_argument("--output", type=Path, help="where results are written")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = fg.library.softmax_topk.export(folder, k=5)
        found = {name: measured(program, STEPS[name], library, args.times)
                 for name, program in (("python", PYTHON), ("c", C))}
    for name, steps in found.items():
        for step, ms in steps.items():
            print(f"{name:<8}{step:<20}{ms:9.3f} ms")
    if args.output is not None:
        told = {"machine": platform.processor() or platform.machine(),
                "python": platform.python_version(), "fusegen": fg.__version__,
                "processes": args.times, "processor_ms": found}
        args.output.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
