"""The command line, as a user types it."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
import simt
from support.cases import rows

import fusegen as fg
from fusegen.cli import main
from fusegen.library.vectors import EVERY


@pytest.fixture
def fusegen(capsys):
    def call(line):
        try:
            status = main(line.split())
        except SystemExit as stop:
            status = stop.code
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return call


def test_list_names_the_library(fusegen):
    status, out, _ = fusegen("list")
    assert status == 0
    assert all(name in out for name in fg.library.EVERY)


def test_run_makes_input_times_checks_and_writes(fusegen, tmp_path):
    path = tmp_path / "out.npz"
    status, out, err = fusegen(
        f"run softmax_topk --rows 40 --cols 250 --k 3 --device cpu --check --repeat 2 -o {path}"
    )
    assert status == 0
    for word in ("x (40, 250) float32", "form", "algorithm", "GB/s", "check", "written"):
        assert word in out
    assert "%" not in out  # so small an input says nothing about the limit
    assert err == ""  # progress is for terminals
    assert np.load(path)["indices"].shape == (40, 3)


@pytest.mark.parametrize("name", fg.library.PIPELINES)
def test_run_makes_input_for_every_pipeline(fusegen, name):
    line = f"run {name} --rows 6 --cols 90 --check --repeat 1 --device cpu --axis 0"
    status, out, err = fusegen(line)
    assert status == 0, out + err


@pytest.mark.parametrize("name", fg.library.OVER_VECTORS)
def test_run_makes_vectors(fusegen, name):
    scale = " --scale 0.125" if name == "attention" else ""
    line = f"run {name}{scale} --rows 6 --cols 90 --check --repeat 1 --device cpu"
    status, out, err = fusegen(line)
    assert status == 0, out + err


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_run_takes_every_type(fusegen, dtype):
    assert fusegen(f"run topk --rows 5 --cols 40 --dtype {dtype} --check --repeat 1")[0] == 0


def test_run_checks_masks_batches_and_long_sums(fusegen):
    """Numbers per column are those of the rows' batch; sums of both signs may be off by a digit of
    their terms, which are vectors here."""
    inputs = "".join(f" --with {name}" for name in ("mask", "valid", "bias", "lengths"))
    for more in (f"--rows 20 --cols 30{inputs} --causal true", "--rows 200 --cols 500"):
        status, out, err = fusegen(f"run attention --scale 0.1 {more} --check --device cpu")
        assert "equal to the float64" in out, out + err
        assert status == 0


@pytest.mark.usefixtures("gpu", "own_cache")
@pytest.mark.skipif(simt.available() is not None, reason=str(simt.available()))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_run_takes_every_type_on_a_gpu(fusegen, monkeypatch, tmp_path, dtype):
    """The second time types come from the disk: equal to the ones that the code names, but not
    the same objects."""
    line = f"run topk --rows 5 --cols 40 --dtype {dtype} --check --repeat 1 --device cuda"
    for _ in range(2):
        monkeypatch.setitem(EVERY, "topk", fg.Pipeline(fg.library.topk.fn))
        status, out, err = fusegen(f"{line} --output {tmp_path}/out.npz")
        assert status == 0, out + err
    assert "values (5, 5)" in out


def test_source_of_one_role(fusegen):
    status, out, _ = fusegen("source softmax_topk --role merge --k 3")
    assert status == 0
    assert out.startswith("// softmax_topk, merge: states → states")
    status, out, _ = fusegen("source softmax --role map")
    assert status == 0
    assert out.startswith("// softmax, map: states and rows → results")
    status, _, err = fusegen("source softmax --role finish")
    assert status == 2
    assert "softmax has full rows for results" in err


def test_run_reads_files(fusegen, tmp_path):
    x, out = rows((5, 20)), tmp_path / "out.npz"
    np.save(tmp_path / "x.npy", x)
    assert fusegen(f"run softmax --input {tmp_path}/x.npy --device cpu --output {out}")[0] == 0
    np.testing.assert_allclose(next(iter(np.load(out).values())), fg.library.softmax.reference(x),
                               rtol=1e-5)
    np.savez(tmp_path / "x.npz", x=x, labels=np.arange(5))
    assert fusegen(f"run cross_entropy --input {tmp_path}/x.npz --check --device cpu")[0] == 0
    np.savez(tmp_path / "bad.npz", x=x, lables=np.arange(5))
    status, _, err = fusegen(f"run cross_entropy --input {tmp_path}/bad.npz")
    assert status == 2
    assert "Did you mean 'labels'" in err


def test_run_reports_the_worst_element(fusegen, monkeypatch):
    from fusegen.cli import compare

    honest = compare.evaluate

    def off_by_some(*args, **kwargs):
        (found,) = honest(*args, **kwargs)
        return (found + (found == found.max()),)

    monkeypatch.setattr(compare, "evaluate", off_by_some)
    status, out, _ = fusegen("run softmax --rows 3 --cols 20 --check --repeat 1 --device cpu")
    assert status == 1
    assert "FAILED" in out
    assert "row" in out
    assert "column" in out


def test_own_pipelines_are_files(fusegen, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import fusegen as fg\n\n@fg.pipeline\ndef spread(x, *, scale):\n"
                    "    return scale * (fg.max(x) - fg.min(x))\n")
    assert fusegen(f"run {path}:spread --scale 2.5 --rows 3 --cols 9 --check --repeat 1")[0] == 0
    assert fusegen(f"graph {path}:spread --scale 1")[0] == 0
    status, _, err = fusegen(f"run {path}:spred --scale 2")
    assert status == 2
    assert "Did you mean 'spread'" in err
    assert fusegen(f"run {path}:spread")[0] == 2  # scale is needed
    status, _, err = fusegen(f"run {path}")
    assert status == 2
    assert f"Name one: {path}:spread" in err


def test_without_a_gpu_there_is_advice(fusegen, monkeypatch):
    monkeypatch.setattr("fusegen.backend.cuda.run.device.available", lambda: "as the test asked")
    status, _, err = fusegen("run softmax --rows 2 --cols 9 --device cuda")
    assert status == 2
    assert "no GPU can be used here: as the test asked. fusegen doctor" in err


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("run sofmax", "'softmax'"), ("rnu softmax", "'run'"), ("run softmax_topk --kk 3", "'--k'"),
        ("source softmax --target sm9", "sm_90"), ("explain softmax --dtype float23", "float32"),
        ("check softmx", "'softmax'"), ("graph softmax -o g.sgv", ".svg"),
        ("run topk --k 50 --cols 9 --rows 2", "k ≤ 9"),
        ("run softmax --input none.npy", "none.npy"),
        ("run softmax --rows 2 --cols 9 --device cpu --tune", "measures on a GPU"),
        ("run softmax --rows 1000000000 --cols 100000", "372,529 GiB"),
        ("run softmax --rows 2 --cols 9 --axis 5", "two axes"),
        ("run softmax --rows 2 --cols 9 --seed -1", "--seed must not"),
        ("run softmax --rows 2 --cols 9 -o o.txt", "o.npz"),
        ("run softmax --rows 2 --cols 9 -o nowhere/o.npz", "no folder nowhere"),
        ("source softmax -o nowhere/a.cu", "nowhere/a.cu: No such file or directory"),
        ("run softmax --rows 2 --cols 9 --output=", "--output out.npz"),
        ("run softmax --rows 2 --cols 9 --device cpu --chunk 100000000000000000000", "or less"),
        ("run softmax --input x.npy --rows 3", "--rows is of made input"),
        ("run softmax --input x.npy --dtype float64", "--dtype is of made input"),
        ("run softmax --input x.npy --with w", "--with is of made input"),
        ("run softmax --input x.npy --seed 0", "--seed is of made input"),
        ("cache prune --mb -1", "number ≥ 0"), ("cache prune --mb nan", "number ≥ 0"),
        ("cache prune --mb 1e400", "number ≥ 0"), ("cache prune --mb x", "number ≥ 0"),
        ("cache prune --all --mb 3", "not allowed with"), ("cache list --all", "are prune's"),
        ("explain softmax --n-cols -5", "n_cols must be"), ("run topk --k 2.5", "'2.5'"),
        ("source topk --k 2000 --n-cols 100", "k ≤ 100"), ("run nowhere/a.py", "no file nowhere"),
        ("explain topk --k 9 --n-cols 8", "k ≤ 8"), ("export softmax -o /dev/null", "is a file"),
        ("source nearest --host --target sm_90", "no launcher in C++"),
        ("source softmax --precision tf32", "multiplies no vectors"),
        ("source softmax --dtype float32[8]", "no input of softmax holds vectors"),
        ("export nearest --target sm_90 -o nowhere", "no code for GPUs of nearest"),
    ],
)
def test_mistakes_exit_with_2_and_a_hint(fusegen, line, hint):
    status, _, err = fusegen(line)
    assert status == 2
    assert hint in err
    assert "Traceback" not in err


def test_a_number_that_is_none_gets_no_hint_about_options(fusegen):
    status, _, err = fusegen("run softmax --rows 1e3")
    assert status == 2
    assert "'1e3'" in err
    assert "Did you mean" not in err


USERS_FILES = {
    "import fusegen as fg\ndef f(x:\n": ":2: ", "import fusegen as fg\nimport not_there\n": ":2: ",
    "raise SystemExit(3)\n": ":1: ", "import json\njson.loads('{')\n": ":2: ",
    "class Stop(BaseException): pass\nraise Stop\n": ":2: ", "x = 1\0\n": ":1: ",
    "import fusegen as fg, json\n@fg.pipeline\ndef p(x):\n    return x * json.loads('{')\n":
        ":4: JSONDecodeError",
    "import fusegen as fg\n@fg.pipeline\ndef p(x):\n    raise GeneratorExit\n": ":4: GeneratorExit",
    "import fusegen as fg\n@fg.pipeline\ndef p(x):\n    raise SystemExit(0)\n": ":4: SystemExit",
    "import fusegen as fg\n@fg.pipeline\ndef p(x):\n    return x * unknown\n": ":4: NameError",
    "import fusegen as fg\n@fg.pipeline\ndef p(x):\n    return x.sum()\n": ":4: a pipeline value",
}


@pytest.mark.parametrize("text", USERS_FILES)
def test_what_a_users_file_raises_stands_at_its_line(fusegen, tmp_path, text):
    path = tmp_path / "mine.py"
    path.write_text(text)
    status, _, err = fusegen(f"explain {path}:p")
    assert status == 2
    assert f"{path}{USERS_FILES[text]}" in err
    assert "Traceback" not in err


def damaged():
    """{file name: bytes} of files that are no whole arrays."""
    whole, several = io.BytesIO(), io.BytesIO()
    np.save(whole, np.ones((3, 4), "f4"))
    np.savez(several, x=np.ones((3, 4)))
    npy, npz = whole.getvalue(), several.getvalue()
    shape = npy.replace(b"(3, 4)", b"(1000000000, 100000)").replace(b" " * 14, b"", 1)
    return {
        "empty.npy": b"", "empty.npz": b"", "head.npy": npy[:20], "short.npy": npy[:-8],
        "short.npz": npz[: len(npz) // 2],
        "flipped.npz": npz[:200] + bytes([npz[200] ^ 255]) + npz[201:],
        "text.npz": b"hello", "large.npy": shape, "large.npz": archive(shape),
    }


def archive(member):
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w") as file:
        file.writestr("x.npy", member)
    return found.getvalue()


DAMAGED = damaged()


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_said_to_be(fusegen, tmp_path, name):
    (tmp_path / name).write_bytes(DAMAGED[name])
    status, _, err = fusegen(f"run softmax --input {tmp_path / name}")
    assert status == 2
    assert name in err
    assert "Traceback" not in err


def test_archives_that_unpack_to_more_than_memory_are_not_unpacked(fusegen, tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros((100, 1000)))
    monkeypatch.setattr(os, "sysconf", lambda name: 500)
    status, _, err = fusegen(f"run softmax --input {tmp_path / 'zeros.npz'}")
    assert status == 2
    assert "unpacks to would take" in err


@pytest.mark.long
def test_an_ascii_terminal_shows_what_it_can():
    done = subprocess.run([sys.executable, "-m", "fusegen", "explain", "softmax"], timeout=300,
                          env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert b"sum_exp" in done.stdout
    assert done.stdout.isascii()
    assert b"?" not in done.stdout


@pytest.mark.parametrize(
    "command", ["", *["list", "run", "explain", "source", "graph", "check", "doctor"]]
)
def test_every_command_has_help(fusegen, command):
    status, out, _ = fusegen(f"{command} --help")
    assert status == 0
    assert "usage" in out
    if command == "run":
        assert "--k" in fusegen("run topk --help")[1]


def test_explain_shows_text_operator_proof_and_plan(fusegen, tmp_path):
    status, out, _ = fusegen("explain softmax_topk --k 3")
    assert status == 0
    for word in ("def softmax_topk", "a ⊕ b", "identity", "proved", "cocycle", "sweeps", "unfused"):
        assert word in out
    html = tmp_path / "page.html"
    assert fusegen(f"explain softmax --html {html}")[0] == 0
    assert "<pre>" in html.read_text()


def test_explain_shows_refusals():
    @fg.pipeline
    def spread(x):
        return fg.sum(fg.abs(x - fg.mean(x)))

    page = str(spread.explain())
    assert "moving kink" in page
    assert "test_cli.py" in page
    assert "<h4>" in spread.explain()._repr_html_()


@pytest.mark.parametrize("ending", ["dot", "mmd", "svg", "png"])
def test_graph_writes_drawings(fusegen, tmp_path, ending):
    if ending in ("svg", "png"):
        pytest.importorskip("matplotlib")
    path = tmp_path / f"graph.{ending}"
    assert fusegen(f"graph softmax -o {path}")[0] == 0
    assert path.stat().st_size > 100


def test_source_is_written_or_shown(fusegen, tmp_path):
    status, out, _ = fusegen("source softmax --target sm_80 --n-cols 1000")
    assert status == 0
    assert "__global__" in out
    path = tmp_path / "softmax.cu"
    assert fusegen(f"source softmax --target sm_80 --n-cols 1000 -o {path}")[0] == 0
    assert path.read_text() == out


def test_check_and_doctor(fusegen):
    status, out, _ = fusegen("check entropy")
    assert status == 0
    assert "homomorphism" in out
    status, out, _ = fusegen("doctor")
    assert status == 0
    assert all(word in out for word in ("CPU kernels", "GPU kernels", "cache", "numpy"))


@pytest.mark.parametrize("extra", ["cuda12", "cuda13"])
def test_the_doctor_names_the_packages_of_the_extras(extra, monkeypatch):
    """Those that pip finds: what an index does not have helps nobody."""
    from fusegen.backend.cuda import backend

    monkeypatch.setattr(backend, "version_of", lambda name: None)
    monkeypatch.setattr(backend.shutil, "which", lambda name: f"/usr/bin/{name}")
    project = tomllib.loads((Path(fg.__file__).parents[1] / "pyproject.toml").read_text())
    wanted = {re.match(r"[\w-]+", p)[0] for p in project["project"]["optional-dependencies"][extra]}
    lists = [set(found.split()) for found in backend._fix().partition(": ")[2].split(", or ")]
    assert wanted in [found - {"pip", "install"} for found in lists]


def test_the_doctor_counts_the_cache_while_others_use_it(fusegen, tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path))
    (tmp_path / "kernel.so").write_bytes(bytes(2_000_000))
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")  # listed, and not there when looked at
    status, out, _ = fusegen("doctor")
    assert status == 0
    assert f"{tmp_path}: 1 files, 2.0 of 1024 MB" in out


def test_the_module_runs():
    run = subprocess.run([sys.executable, "-m", "fusegen", "--version"], capture_output=True,
                         text=True, check=True, cwd=Path(fg.__file__).parents[1])
    assert fg.__version__ in run.stdout


@pytest.mark.long
def test_closed_streams_get_nothing(tmp_path):
    line = f"{sys.executable} -m fusegen"
    script = "\n".join(f"{line} {rest} || exit" for rest in (
        "list >&-", "source softmax >&-", f"explain softmax --html {tmp_path}/p.html >&- 2>&-",
        "run softmax --rows 3 --cols 5 --repeat 1 --device cpu 2>&-", "--version >&-",
    )) + f"\n{line} lst 2>&-\n"
    found = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False,
                           cwd=Path(fg.__file__).parents[1])
    assert found.returncode == 2  # of lst alone
    assert found.stderr == ""
    assert found.stdout.startswith("softmax     x (3, 5)")
    assert "lst" not in found.stdout
    assert "<pre>" in (tmp_path / "p.html").read_text()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_files_that_are_no_python_are_named(fusegen, tmp_path, encoding):
    path = tmp_path / "mine.py"
    path.write_text("import fusegen\n", encoding=encoding)
    status, _, err = fusegen(f"explain {path}:p")
    assert status == 2
    assert f"{path}:1: " in err
    assert "frozen" not in err
    (tmp_path / "folder.py").mkdir()
    status, _, err = fusegen(f"explain {tmp_path}/folder.py:p")
    assert status == 2
    assert "folder.py is a folder" in err
    assert "Did you mean" not in err
