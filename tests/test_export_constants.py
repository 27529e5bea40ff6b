"""Constants that vary, in exported libraries: numbers that every call says, in C as in Python."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.exported import CLibrary, fake_driver, named_images
from support.tensors import called, of_array

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.target import host_cpu, runnable

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
BAD_CONSTANT = 6
USUAL = {"t": 1.0, "threads": 2.0, "é": 3.0, "t_stride": 0.5}


@fg.pipeline
def tempered(x, *, t: fg.Positive = 1.0, threads=2.0, é=3.0, t_stride=0.5, power=2.0):
    """Numbers as they are and computed with, questions, names that C has, and one that is settled.
    """
    e = fg.exp((x - fg.max(x)) / t)
    scale = 1 / (threads - 1) + abs(-é) ** 2 - t_stride / threads
    if é > 1 and t_stride <= threads:
        scale = scale * 2
    return e / fg.sum(e) * scale, fg.sum(x**power)


def hard() -> list[dict[str, float]]:
    """Constants that Python and C have to agree about."""
    sizes = (0.7, 1.0, 3.0, 2.0**-13, math.nextafter(2.0**-13, 0), 2.0**13, 8192.001, 1e-30, 1e30,
             0.0, -0.0, -1.0, -3.0, math.inf, -math.inf, math.nan, 5e-324, 1.7e308)
    alone = [{name: size} for name, size in itertools.product(USUAL, sizes)]
    rng = np.random.default_rng(0)
    return alone + [{n: float(rng.uniform(0.3, 5)) for n in USUAL} for _ in range(40)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tempered")
    tempered.export(made, targets=(runnable(host_cpu())[0].name,), dtypes=("float32", "float64"))
    return made


def arrays(dtype: Any = np.float32, n: tuple[int, int] = (4, 60)) -> tuple[np.ndarray, ...]:
    x = np.random.default_rng(1).normal(size=n).astype(dtype)
    return x, np.zeros_like(x), np.zeros(len(x), dtype)


@pytest.mark.long
def test_c_computes_what_python_computes(folder: Path) -> None:
    """The very bits; and the same numbers are refused, with the same words."""
    library, p = CLibrary(folder / "lib" / "libfusegen_tempered.so", "tempered"), fg.load(folder)
    served = 0
    for name, kind in (("float32", np.float32), ("float64", np.float64)):
        x, y, total = arrays(kind)
        for constants in hard():
            numbers = USUAL | constants
            status = library.status(f"{name}_cpu", x, 60, y, 60, total, *numbers.values(), 4, 60, 1)
            if status == BAD_CONSTANT:
                said = library.error().partition("; exported")[2]
                with pytest.raises(fg.ArgumentError, match=re.escape(f"Exported{said}.")):
                    p(x, **constants)
                continue
            want = p(x, **constants)
            assert status == 0, (constants, library.error())
            served += 1
            assert (y.tobytes(), total.tobytes()) == tuple(w.tobytes() for w in want), constants
    assert served > 80


def test_it_is_the_text_for_every_number(folder: Path) -> None:
    p, (x, *_) = fg.load(folder), arrays(np.float64)
    for constants in hard():
        try:
            found = p(x, **constants)
        except fg.ArgumentError:
            continue
        for got, want in zip(found, tempered.reference(x, **constants), strict=True):
            np.testing.assert_allclose(got, want, 1e-12)


def test_what_is_refused_is_said(folder: Path) -> None:
    p, (x, y, total) = fg.load(folder), arrays()
    library = CLibrary(p.path, "tempered")
    assert p.numbers == USUAL
    assert p.constants == {"power": "2.0"}
    for t, said in ((-1.0, "t is -1, "), (math.nan, "t is nan, "), (0.0, "t is 0, ")):
        status = library.status("float32_cpu", x, 60, y, 60, total, t, 2.0, 3.0, 0.5, 0, 60, 1)
        assert status == BAD_CONSTANT, "also where there are no rows"
        assert said in library.error()
        assert library.error().endswith("exported for 2^-13 ≤ t ≤ 2^13")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"t": True}, "t is True, no number that float64 holds"),
        ({"t": 2**60 + 1}, "no number that float64 holds"), ({"é": "1"}, "é is '1'"),
        ({"é": 0.5}, "é is 0.5\n.*Exported for é > 1"),
        ({"threads": 1.0}, "threads is 1.0, .*Exported for"),
        ({"power": 3.0}, "The library is for power=2.0"),
        ({"tt": 3.0}, "no parameter 'tt'"),
    ]
    for constants, message in wrong:
        with pytest.raises(fg.ArgumentError, match=f"(?s){message}"):
            p(x, **constants)
    header = (folder / "include" / "fusegen" / "tempered.h").read_text()
    assert "t: a number; 2^-13 ≤ t ≤ 2^13, 1.0 at the export" in header
    assert "double threads_," in header
    assert "power = 2.0" in header


def test_calls_are_remembered_for_every_number(folder: Path) -> None:
    p, (x, *_) = fg.load(folder), arrays()
    for t in (0.7, 2, np.float32(0.3), 0.7, 5.0):
        for _ in range(3):
            got, want = p(x, t=t)[0], tempered.reference(x.astype(np.float64), t=float(t))[0]
            np.testing.assert_allclose(got, want, 3e-6)
    with pytest.raises(fg.ArgumentError, match=r"t is -0\.7"):
        p(x, t=-0.7)


def test_by_the_abi_of_tvm_ffi(folder: Path) -> None:
    library, p = CLibrary(fg.load(folder).path, "tempered"), fg.load(folder)
    f, (x, y, total) = library.functions["__tvm_ffi_tempered"], arrays()
    tensors = [of_array(a) for a in (x, y, total)]
    for numbers in ((0.7, 2.5, 3.0, 0.5), (3, 2, 2, 1)):
        for rest in ((), (2,)):
            assert called(f, *tensors, *numbers, *rest) == 0, library.error()
            want, _ = p(x, **dict(zip(USUAL, numbers, strict=True)))
            assert y.tobytes() == want.tobytes()
    wrong: list[tuple[tuple[Any, ...], str]] = [
        ((), "it takes 3 tensors, results last, t, threads, é, t_stride, and a number of threads"),
        ((1.0, 2.0, 3.0), "called with 6 arguments"),
        ((1.0, 2.0, 3.0, 0.5, 1, 1), "called with 9 arguments"),
        ((1.0, 2.0, 3.0, 0.5, 1.0), "called with 8 arguments"),
        ((True, 2.0, 3.0, 0.5), "t is no number that a double holds"),
        ((2**60 + 1, 2.0, 3.0, 0.5), "t is no number that a double holds"),
        ((-1.0, 2.0, 3.0, 0.5), "t is -1"), ((tensors[0], 2.0, 3.0, 0.5), "t is no number"),
    ]
    for numbers, said in wrong:
        assert called(f, *tensors, *numbers) == -1, said
        assert said in library.error()


_ON_A_GPU = """
import ctypes, json, sys
library, fake = ctypes.CDLL(sys.argv[1]), ctypes.CDLL("libcuda.so.1")
fake.fake_noted.restype = library.logsumexp_over_error.restype = ctypes.c_char_p
found = []
for t in json.loads(sys.argv[2]):
    fake.fake_forget()
    status = library.logsumexp_over_float32_cuda(
        ctypes.c_void_p(1 << 57), ctypes.c_int64(64), ctypes.c_void_p(1 << 58), ctypes.c_double(t),
        ctypes.c_int64(8), ctypes.c_int64(64), ctypes.c_void_p(0))
    found.append([status, library.logsumexp_over_error().decode(), fake.fake_noted().decode()])
print(json.dumps(found))
"""


@pytest.mark.long
def test_kernels_on_gpus_get_the_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @fg.pipeline
    def logsumexp_over(x, *, t: fg.Positive = 1.0):
        m = fg.max(x)
        return m / t + fg.log(fg.sum(fg.exp((x - m) / t)))

    named_images(monkeypatch)
    file = logsumexp_over.export(tmp_path, targets=("sm_90",), row_lengths=(64,))
    kernel = logsumexp_over.source(target="sm_90", n_cols=64).split("logsumexp_over_kernel(")[1]
    at = next(i for i, p in enumerate(kernel.split(")")[0].split(",")) if p.split()[-1] == "t")
    env = {**os.environ, "FAKE_NUMBER": str(at), "LD_LIBRARY_PATH": str(fake_driver())}
    done = subprocess.run([sys.executable, "-S", "-c", _ON_A_GPU, str(file), "[0.7, -1.0]"],
                          capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    served, refused = json.loads(done.stdout)
    assert served[0] == 0, served[1]
    (number,) = [ln.split()[1] for ln in served[2].splitlines() if ln.startswith("number")]
    assert float.fromhex(number) == np.float32(0.7)
    assert (refused[0], refused[2]) == (BAD_CONSTANT, "")


def test_a_function_takes_so_many(tmp_path: Path) -> None:
    names = [f"x{i}" for i in range(64)]
    space: dict[str, Any] = {"fg": fg}
    source = f"def wide({', '.join(names)}):\n    return fg.sum({' + '.join(names)})\n"
    exec(compile(source, str(tmp_path / "wide.py"), "exec"), space)
    with pytest.raises(fg.ArgumentError, match="the text has 65 arrays"):
        fg.pipeline(space["wide"]).export(tmp_path / "wide")
    assert not (tmp_path / "wide").exists()
