"""Launches leave the process as it was, whatever the kernels did."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from simt import SimtError, SimtModule, available, compile_module
from simt.testing import iota, kernel, nans

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

# For other interpreters that are to find the same packages as this one.
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

SHARED_TEMPLATE = """
template <class T> __device__ T swap_neighbours(T v) {
    __shared__ T s[64];
    s[threadIdx.x] = v;
    __syncthreads();
    return SCALE * s[threadIdx.x ^ 1];
}"""


def test_two_modules_at_once_and_many_launches() -> None:
    body = "y[threadIdx.x] = swap_neighbours(x[threadIdx.x]);"

    def scaled(scale: int) -> SimtModule:
        return compile_module(kernel(body, prelude=SHARED_TEMPLATE.replace("SCALE", str(scale))))

    modules = {scale: scaled(scale) for scale in (1, 2)}
    broken = compile_module(kernel("y[threadIdx.x] = x[threadIdx.x + 1];"))
    swapped = iota(64).reshape(32, 2)[:, ::-1].reshape(64)
    for seed in range(100):
        for scale, module in modules.items():
            y = nans(64)
            module.launch("k", (1,), (64,), [iota(64), y], outputs={1}, seed=seed)
            np.testing.assert_array_equal(y, scale * swapped)
        with pytest.raises(SimtError):
            broken.launch("k", (1,), (64,), [iota(64), nans(64)], outputs={1}, seed=seed)


def test_memory_does_not_grow() -> None:
    module = compile_module(
        kernel(
            "__shared__ float s[1024]; s[threadIdx.x] = 0.f; __syncthreads();"
            # The first page of memory: no process has it, however large it has grown.
            "if (x[0] == 0.f) *reinterpret_cast<float*>(64) = s[0];"
        )
    )

    def resident_pages() -> int:
        with open("/proc/self/statm") as statm:  # noqa: PTH123
            return int(statm.read().split()[1])

    def launch_often() -> None:
        for _ in range(50):
            with pytest.raises(SimtError):
                module.launch("k", (1,), (1024,), [iota(64), nans(64)], outputs={1})

    launch_often()
    before = resident_pages()
    launch_often()
    assert resident_pages() - before < 1000  # one launch alone uses more


def test_fault_handlers_are_removed_after_a_launch() -> None:
    script = """
import ctypes, faulthandler, numpy as np
from simt import SimtError, compile_module
faulthandler.enable()
source = 'extern "C" __global__ void k(float* y) { y[threadIdx.x] = 0.f; }'
try:
    compile_module(source, check=False).launch("k", (1,), (64,), [np.zeros(1, "f4")], outputs={0})
except SimtError as error:
    print("caught", "memory fault" in str(error), flush=True)
ctypes.string_at(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.stdout == "caught True\n"
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert done.returncode == -11


def test_concurrent_builds_share_the_cache() -> None:
    script = f"""
import numpy as np
from simt import compile_module
y = np.zeros(1, "f4")
compile_module({kernel("y[0] = 42.f;", "float* y")!r}).launch("k", (1,), (1,), [y], outputs={{0}})
print(y[0])
"""
    command = [sys.executable, "-c", script]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        for _ in range(4)
    ]
    assert [process.communicate()[0] for process in running] == ["42.0\n"] * 4
