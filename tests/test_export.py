"""Exported libraries: the C ABI against float64, what it refuses, programs in C++, `fg.load`."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.exported import CLibrary, string

import fusegen as fg
from fusegen.backend.cpu import run
from fusegen.backend.cpu.past import SHARE, last_cache
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.export import opened
from fusegen.backend.export.library import Library
from fusegen.backend.host.chunks import PIECE_COLUMNS
from fusegen.backend.target import CPU_TARGETS, host_cpu, runnable
from fusegen.cli import main
from fusegen.ir.dtypes import dtype_of
from fusegen.pipeline import export

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
K, BAD_ARGUMENT, BAD_SHAPE, NOT_HERE = 5, 1, 2, 3
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def best(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """softmax_topk of two types, as the command line writes it."""
    folder = tmp_path_factory.mktemp("best")
    assert main(["export", "softmax_topk", "--dtype", "float32, bfloat16", "--k", str(K),
                 "--target", _here(), "-o", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every shape of array, arrays between kernels, hard names, two levels."""
    levels = [t.name for t in runnable(host_cpu())]
    folder = tmp_path_factory.mktemp("every")
    string.export(folder, form="unfused", targets=(levels[-1], levels[0]))
    return folder


def _here() -> str:
    """What "cpu" means on x86, or a level that this machine has."""
    levels = [t.name for t in runnable(host_cpu())]
    return "cpu" if "x86-64-v3" in levels or host_cpu().name == "aarch64" else levels[0]


def _library(folder: Path, name: str) -> CLibrary:
    return CLibrary(folder / "lib" / f"libfusegen_{name}.so", name)


def _hard(n_rows: int, n_cols: int) -> np.ndarray:
    """Random rows, and some with equal, falling, infinite and missing elements."""
    x = np.random.default_rng(n_cols).normal(0, 4, (n_rows, n_cols)).astype(np.float32)
    x[1::7] = 1.5
    x[2::7] = -np.arange(n_cols)
    x[3::7, 0], x[4::7, -1], x[5::7, n_cols // 2] = -np.inf, np.inf, np.nan
    return x


SHAPES = [(1, 5), (300, 7), (40, 1000), (1, 5 * PIECE_COLUMNS + 77), (0, 9)]


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_c_abi_gives_the_text(best: Path, dtype: str) -> None:
    library, kind = _library(best, "softmax_topk"), dtype_of(dtype).numpy
    for n_rows, n_cols in SHAPES:
        wide = np.zeros((n_rows, n_cols + 3), kind)  # rows are further apart than they are long
        x = wide[:, 1 : n_cols + 1]
        x[:] = _hard(n_rows, n_cols)
        found = []
        for threads in (1, 3):
            values, columns = np.full((n_rows, K), 7, kind), np.full((n_rows, K), -7, np.int64)
            status = library.status(f"{dtype}_cpu", x, n_cols + 3, values, columns, n_rows, n_cols,
                                    threads)
            assert status == 0, library.error()
            found.append((values.tobytes(), columns.tobytes()))
        assert found[0] == found[1], "a row's bits depend on the number of threads"
        want, where = fg.library.softmax_topk.reference(x.astype(np.float64), k=K)
        tolerance = {"float32": 2e-6, "bfloat16": 8e-3}[dtype]
        np.testing.assert_allclose(values.astype(np.float64), want, tolerance, 1e-30)
        plain = ~np.isnan(want).any(axis=1)  # of equal probabilities any may be meant
        np.testing.assert_array_equal(columns[plain], where[plain])


def test_every_shape_of_array(every: Path) -> None:
    library = _library(every, "string")
    past_caches = min(last_cache(), 1 << 28) // (SHARE * 4 * 999) + 1  # rows
    for n_rows, n_cols in ((9, 130), (1, 5 * PIECE_COLUMNS + 5), (past_caches, 999)):
        rng = np.random.default_rng(n_cols)
        x, per_column = _hard(n_rows, n_cols), rng.normal(size=n_cols).astype(np.float32)
        per_row = rng.uniform(0.5, 2, n_rows).astype(np.float32)
        y, total = np.zeros_like(x), np.zeros(n_rows, np.float32)
        values, columns = np.zeros((n_rows, 3), np.float32), np.zeros((n_rows, 3), np.int64)
        status = library.status("float32_cpu", x, n_cols, per_column, per_row, y, n_cols, total,
                                values, columns, n_rows, n_cols, 2)
        assert status == 0, library.error()
        want = string.reference(x, per_column, per_row)
        sums, (best_values, best_columns) = want["linux"]
        np.testing.assert_allclose(y, want["text_cpu"], 3e-5, 1e-30)
        np.testing.assert_allclose(total, sums, 3e-5)
        np.testing.assert_allclose(values, best_values, 1e-6)
        np.testing.assert_array_equal(columns, best_columns)


def test_what_is_refused_is_said(best: Path) -> None:
    library = _library(best, "softmax_topk")
    x, values = np.zeros((4, 8), np.float32), np.zeros((4, K), np.float32)
    columns = np.zeros((4, K), np.int64)
    odd = np.zeros(4 * 8 * 4 + 1, np.uint8)[1:]
    wrong: list[tuple[tuple[Any, ...], int, str]] = [
        ((None, 8, values, columns, 4, 8, 1), BAD_ARGUMENT, "x is null"),
        ((x, 8, values, None, 4, 8, 1), BAD_ARGUMENT, "indices is null"),
        ((odd, 8, values, columns, 4, 8, 1), BAD_ARGUMENT,
         "x does not begin on a multiple of 4 bytes"),
        ((x, 8, x, columns, 4, 8, 1), BAD_ARGUMENT, "x and values share memory"),
        ((x, 8, values, columns, 4, 8, -1), BAD_ARGUMENT, "threads is -1"),
        ((x, 8, values, columns, 4, 4, 1), BAD_SHAPE,
         "rows have 4 columns, but the text asks for at least 5"),
        ((x, 8, values, columns, -1, 8, 1), BAD_SHAPE, "-1 rows"),
        ((x, 8, values, columns, 4, 0, 1), BAD_SHAPE, "0 columns"),
        ((x, 2**60, values, columns, 2**40, 8, 1), BAD_SHAPE, "x is larger than memory"),
        ((x, 2**62, values, columns, 2**63 - 1, 8, 1), BAD_SHAPE, "are larger than memory"),
    ]
    for arguments, status, said in wrong:
        assert library.status("float32_cpu", *arguments) == status, said
        assert library.error().startswith("softmax_topk: ")
        assert said in library.error()
    # Rows that lie in turn share no memory; one row may stand for all.
    both = np.zeros((4, 16), np.float32)
    assert library.status("float32_cpu", both, 16, both[:, 8:], columns, 1, 8, 1) == 0
    assert library.status("float32_cpu", x, 0, values, columns, 4, 8, 1) == 0


def test_rows_of_results_that_overlap_are_refused(every: Path) -> None:
    library = _library(every, "string")
    x, w, t = np.zeros((3, 8), "f4"), np.zeros(8, "f4"), np.zeros(3, "f4")
    values, columns = np.zeros((3, 3), "f4"), np.zeros((3, 3), "i8")
    rest = (np.zeros(3, "f4"), values, columns, 3, 8, 1)
    assert library.status("float32_cpu", x, 8, w, t, np.zeros((3, 8), "f4"), 4, *rest) == 1
    assert "rows of text_cpu are 4 elements apart and have 8" in library.error()
    for huge in (2**63 - 1, -(2**63)):
        assert library.status("float32_cpu", x, 8, w, t, np.zeros((3, 8), "f4"), huge, *rest) == 2
        assert "text_cpu is larger than memory" in library.error()
    whole = np.zeros((3, 16), "f4")
    assert library.status("float32_cpu", whole, 16, w, t, whole[:, 8:], 16, *rest) == 0
    assert library.status("float32_cpu", whole, 16, w, t, whole[:, 7:], 16, *rest) == 1
    assert "text and text_cpu share memory" in library.error()


_THREADS = """
import ctypes, os, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
f = ctypes.CDLL(sys.argv[1]).softmax_topk_float32_cpu
x = np.random.default_rng(0).normal(size=(64, 5000)).astype(np.float32)
def call(threads):
    values, columns = np.zeros((64, 5), np.float32), np.zeros((64, 5), np.int64)
    arrays = [ctypes.c_void_p(a.ctypes.data) for a in (values, columns)]
    sizes = [ctypes.c_int64(n) for n in (64, 5000)]
    assert f(ctypes.c_void_p(x.ctypes.data), sizes[1], *arrays, *sizes, threads) == 0
    return values.tobytes() + columns.tobytes()
want = call(1)
with ThreadPoolExecutor(4) as pool:
    assert set(pool.map(call, [3] * 40)) == {want}, "calls are in each other's way"
child = os.fork()
if not child:
    os._exit(0 if call(3) == want else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the pool does not survive a fork"
assert call(3) == want
"""


def test_any_thread_calls_and_forks_are_survived(best: Path) -> None:
    _run(sys.executable, "-c", _THREADS, best / "lib" / "libfusegen_softmax_topk.so")


@pytest.mark.long
def test_programs_in_c_and_cpp_build_and_run(best: Path, every: Path, tmp_path: Path) -> None:
    """The example, by CMake where it is there, else with pkg-config's options; headers are C's."""
    source, folder = ROOT / "examples" / "exported", tmp_path / "build"
    package = (best / "lib" / "pkgconfig" / "fusegen_softmax_topk.pc").read_text()
    if shutil.which("cmake"):
        _run("cmake", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={best}")
        _run("cmake", "--build", folder)
    else:
        options = dict(line.split(": ", 1) for line in package.splitlines() if ": " in line)
        words = f"{options['Cflags']} {options['Libs']}".replace("${prefix}", str(best)).split()
        folder.mkdir()
        _run("c++", "-std=c++17", source / "main.cpp", *words, f"-Wl,-rpath,{best / 'lib'}", "-o",
             folder / "example")
    assert "greatest relative error" in _run(folder / "example", PATH="")
    assert "prefix=${pcfiledir}/../.." in package
    header = every / "include" / "fusegen" / "string.h"
    _run("c++", "-x", "c", "-std=gnu11", "-Wall", "-Werror", "-fsyntax-only", header)


def test_programs_in_rust_build_and_run(best: Path, tmp_path: Path) -> None:
    if shutil.which("rustc") is None:
        pytest.skip("rustc is not installed")
    lib = best / "lib"
    _run("rustc", ROOT / "examples" / "exported" / "main.rs", "-L", lib, "-l",
         "fusegen_softmax_topk", "-C", f"link-arg=-Wl,-rpath,{lib}", "-o", tmp_path / "main")
    assert "3 columns: softmax_topk: rows have 3 columns" in _run(tmp_path / "main")


def _run(*command: Any, **env: str) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True,
                          env={**os.environ, **env})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_library_needs_nothing_but_the_system(best: Path) -> None:
    """Neither Python nor CUDA nor a C++ runtime; and shows its own functions alone."""
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    file = best / "lib" / "libfusegen_softmax_topk.so"
    needed = [ln for ln in _run("readelf", "-d", file).splitlines() if "(NEEDED)" in ln]
    assert not [ln for ln in needed if "python" in ln or "cuda" in ln]
    symbols = _run("readelf", "--dyn-syms", "-W", file).splitlines()
    shown = [ln.split()[-1] for ln in symbols if " UND " not in ln and "GLOBAL" in ln]
    assert "softmax_topk_float32_cpu" in shown
    assert all(n.startswith("softmax_topk_") or n == "__tvm_ffi_softmax_topk" for n in shown)


def test_code_of_low_levels_is_linked_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else a function that two levels instantiate could be the one that a processor lacks."""
    levels = [t.name for t in runnable(host_cpu())]
    made: list[Library] = []
    monkeypatch.setattr(export, "write", lambda library, _: made.append(library))
    fg.library.argmax.export(tmp_path, targets=levels, dtypes=("float32", "float16"))
    linked = [u.name for u in made[0].units]
    assert len(linked) == 2 * len(levels)
    bytes_of = {t.name.replace("-", "_"): t.vector_bytes for t in CPU_TARGETS.values()}
    order = [next(b for n, b in bytes_of.items() if u.endswith(f"16_{n}.cpp") or
                  u.endswith(f"32_{n}.cpp")) for u in linked]
    assert order == sorted(order)
    # A call takes the best that the processor runs.
    entries = [p.entry for p in made[0].parts[: len(levels)]]
    assert [e.split("_runs")[0].split("float32_")[1] for e in entries] == [
        n.replace("-", "_") for n in levels]


# ---- in servers ----


_SERVER = """
import sys
import numpy as np, fusegen as fg
p = fg.load(sys.argv[1])
x = np.load(sys.argv[2])
np.savez(sys.argv[3], *p(x))
heavy = ("sympy", "networkx", "jinja2", "mpmath", "subprocess")
print(*(m for m in sys.modules if m in heavy or m.startswith(
    ("fusegen.algebra", "fusegen.rewrite", "fusegen.compile.lower", "fusegen.compile.trials",
     "fusegen.backend.cpu.emit", "fusegen.backend.cpu.compiled"))))
"""


def test_a_server_needs_no_compiler_and_no_proofs(best: Path, tmp_path: Path) -> None:
    x, given, made = _hard(20, 333), tmp_path / "x.npy", tmp_path / "found.npz"
    np.save(given, x)
    said = _run(sys.executable, "-c", _SERVER, best, given, made, PATH=str(tmp_path),
                FUSEGEN_CACHE_DIR=str(tmp_path / "cache"), PYTHONPATH=str(ROOT))
    assert said.split() == []
    assert not (tmp_path / "cache").exists()
    found = np.load(made)
    want, where = fg.library.softmax_topk.reference(x.astype(np.float64), k=K)
    np.testing.assert_allclose(found["arr_0"], want, 2e-6, 1e-30)
    plain = ~np.isnan(want).any(axis=1)
    np.testing.assert_array_equal(found["arr_1"][plain], where[plain])


def test_a_loaded_pipeline_is_called_as_the_pipeline(every: Path) -> None:
    p, rng = fg.load(every), np.random.default_rng(3)
    x, w, t = (rng.normal(size=n).astype(np.float32) for n in ((4, 60, 2), 60, (4, 2)))
    for _ in range(3):  # the first call, and calls remembered
        found, want = p(x, w, t, axis=1), string.reference(x, w, t, axis=1)
        np.testing.assert_allclose(found["text_cpu"], want["text_cpu"], 3e-5)
        np.testing.assert_array_equal(found["linux"][1][1], want["linux"][1][1])
    out = {"text_cpu": np.zeros((4, 60, 2), np.float32), "linux": (None, (None, None))}
    assert p(x, w, t, axis=1, out=out)["text_cpu"] is out["text_cpu"]
    assert p.constants == {}
    again = pickle.loads(pickle.dumps(p))
    np.testing.assert_array_equal(again(x, w, t, axis=1)["text_cpu"], out["text_cpu"])
    assert p.dtypes[0]["text"] == "float32"


def test_what_a_library_does_not_have_is_said(
    best: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = fg.load(best)
    with pytest.raises(fg.ArgumentError, match=r"(?s)called with x float64\n.*float32; x bfloat16"):
        p(np.zeros((2, 8)))
    with pytest.raises(fg.ShapeError, match="topk of 5 in rows with 3 columns"):
        p(np.zeros((2, 3), np.float32))
    with pytest.raises(fg.ArgumentError, match=r"The library is for k=5\."):
        p(np.zeros((2, 8), np.float32), k=3)
    with pytest.raises(fg.ArgumentError, match="no exported library"):
        fg.load(tmp_path)
    (tmp_path / "lib").mkdir()
    whole = (best / "lib" / "libfusegen_softmax_topk.so").read_bytes()
    part = tmp_path / "lib" / "libfusegen_softmax_topk.so"
    part.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(fg.BackendError, match=r"cannot be loaded: it breaks off\. Export it again"):
        fg.load(tmp_path)
    renamed = tmp_path / "renamed.so"
    renamed.write_bytes(whole)
    with pytest.raises(fg.ArgumentError, match="no library that fusegen exported under this name"):
        fg.load(renamed)
    with monkeypatch.context() as patch:
        patch.setattr(opened, "called", lambda: "of another checkout")
        with pytest.raises(fg.BackendError, match="to load it here export it again"):
            fg.load(best)
    monkeypatch.setattr(run, "host_cpu", lambda: CPU_TARGETS["generic"])
    with pytest.raises(fg.BackendError, match=r"has code for .*this machine is generic"):
        fg.load(best)(np.zeros((2, 8), np.float32))


@pytest.mark.long
def test_optional_inputs_are_those_of_the_export(tmp_path: Path) -> None:
    fg.library.layer_norm.export(tmp_path, targets=(_here(),), inputs=("weight",))
    p, x, w = fg.load(tmp_path), _hard(1, 9), np.full(9, 2, np.float32)
    np.testing.assert_allclose(p(x, w), fg.library.layer_norm.reference(x, w), 1e-5)
    with pytest.raises(fg.ArgumentError, match="misses weight"):
        p(x)
    with pytest.raises(fg.ArgumentError, match=r"(?s)without bias.*Export it for x, weight, bias"):
        p(x, w, bias=w)


@pytest.mark.long
def test_a_processor_that_lacks_something_is_told(best: Path, tmp_path: Path) -> None:
    """The same file, of which no level runs."""
    source = (best / "src" / "fusegen_softmax_topk.cpp").read_text()
    asked = source.replace('__builtin_cpu_supports("', '!__builtin_cpu_supports("')
    if asked == source:
        pytest.skip("code for this kind of processor asks for nothing")
    main_cpp = tmp_path / "none.cpp"
    kernels = (best / "src").glob("softmax_topk_*.cpp")
    names = {w for p in kernels for w in _entries(p.read_text())}
    stubs = "".join(f'extern "C" int64_t {n}() {{ return 0; }}\n' for n in sorted(names))
    main_cpp.write_text(asked)
    stubs_cpp = tmp_path / "stubs.cpp"
    stubs_cpp.write_text(f"#include <cstdint>\n{stubs}")
    _run("c++", "-std=c++17", "-shared", "-fPIC", "-pthread", main_cpp, stubs_cpp,
         f"-I{best / 'src'}", f"-I{best / 'include'}", "-o", tmp_path / "none.so")
    library = CLibrary(tmp_path / "none.so", "softmax_topk")
    x, values, columns = np.zeros(8, "f4"), np.zeros(K, "f4"), np.zeros(K, "i8")
    assert library.status("float32_cpu", x, 8, values, columns, 1, 8, 1) == NOT_HERE
    assert "exported for processors with x86-64" in library.error()


def _entries(text: str) -> list[str]:
    after = text.split('extern "C"', 1)[1]
    return [w.split("(")[0] for w in after.split() if w.startswith("softmax_topk_") and "(" in w]


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    p = fg.library.softmax_topk
    with pytest.raises(fg.ArgumentError, match="nothing that a library could hold"):
        p.export(tmp_path, targets=["numpy"])
    with pytest.raises(fg.ArgumentError, match="unknown target 'sparc'"):
        p.export(tmp_path, targets=["sparc"])
    other = "aarch64" if host_cpu().name.startswith("x86") else "x86-64-v3"
    with pytest.raises(fg.ArgumentError, match=f"a library for {other} cannot be made on"):
        p.export(tmp_path, targets=[other])
    with pytest.raises(SystemExit):
        main(["export", "softmax", "--row-lengths", "a,b", "-o", str(tmp_path)])
    with pytest.raises(fg.ArgumentError, match="targets must be names"):
        p.export(tmp_path, targets="cpu")
    with pytest.raises(fg.ArgumentError, match="nothing is to be exported"):
        p.export(tmp_path, dtypes=[])
    with pytest.raises(fg.ShapeError, match="topk of 5 in rows with 4 columns"):
        p.export(tmp_path, row_lengths=(4096, 4))
    assert list(tmp_path.iterdir()) == []
    file = tmp_path / "file"
    file.touch()
    for place in (file, file / "deeper"):
        with pytest.raises(fg.ArgumentError, match=f"{re.escape(str(file))} is a file"):
            p.export(place)
    no_path: tuple[Any, ...] = (3, None, b"folder", "", "a\0b", ["x"])
    for given in no_path:
        for take in (p.export, fg.load):
            with pytest.raises(fg.ArgumentError, match="must be a path"):
                take(given)
