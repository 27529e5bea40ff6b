"""The command line, as a user types it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import rows

import fusegen as fg
from fusegen.cli import main


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
    assert all(name in out for name in fg.library.PIPELINES)


def test_run_makes_input_times_checks_and_writes(fusegen, tmp_path):
    path = tmp_path / "out.npz"
    status, out, err = fusegen(
        f"run softmax_topk --rows 40 --cols 250 --k 3 --device cpu --check --repeat 2 -o {path}"
    )
    assert status == 0
    for word in ("x (40, 250) float32", "form", "algorithm", "GB/s", "%", "check", "written"):
        assert word in out
    assert err == ""  # progress is for terminals
    assert np.load(path)["indices"].shape == (40, 3)


@pytest.mark.parametrize("name", fg.library.PIPELINES)
def test_run_makes_input_for_every_pipeline(fusegen, name):
    line = f"run {name} --rows 6 --cols 90 --check --repeat 1 --device cpu --axis 0"
    status, out, err = fusegen(line)
    assert status == 0, out + err


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_run_takes_every_type(fusegen, dtype):
    assert fusegen(f"run topk --rows 5 --cols 40 --dtype {dtype} --check --repeat 1")[0] == 0


def test_run_reads_files(fusegen, tmp_path):
    x, out = rows((5, 20)), tmp_path / "out.npz"
    np.save(tmp_path / "x.npy", x)
    assert fusegen(f"run softmax --input {tmp_path}/x.npy --device cpu --output {out}")[0] == 0
    np.testing.assert_allclose(next(iter(np.load(out).values())), fg.library.softmax.reference(x),
                               rtol=1e-5)  # fmt: skip
    np.savez(tmp_path / "x.npz", x=x, labels=np.arange(5))
    assert fusegen(f"run cross_entropy --input {tmp_path}/x.npz --check --device cpu")[0] == 0
    np.savez(tmp_path / "bad.npz", x=x, lables=np.arange(5))
    status, _, err = fusegen(f"run cross_entropy --input {tmp_path}/bad.npz")
    assert status == 2
    assert "Did you mean 'labels'" in err


def test_run_reports_the_worst_element(fusegen, monkeypatch):
    from fusegen import compare

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
                    "    return scale * (fg.max(x) - fg.min(x))\n")  # fmt: skip
    assert fusegen(f"run {path}:spread --scale 2.5 --rows 3 --cols 9 --check --repeat 1")[0] == 0
    assert fusegen(f"graph {path}:spread --scale 1")[0] == 0
    status, _, err = fusegen(f"run {path}:spred --scale 2")
    assert status == 2
    assert "Did you mean 'spread'" in err
    assert fusegen(f"run {path}:spread")[0] == 2  # scale is needed


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("run sofmax", "'softmax'"), ("rnu softmax", "'run'"), ("run softmax_topk --kk 3", "'--k'"),
        ("source softmax --target sm9", "sm_90"), ("explain softmax --dtype float23", "float32"),
        ("check softmx", "'softmax'"), ("graph softmax -o g.sgv", ".svg"),
        ("run topk --k 50 --cols 9 --rows 2", "k ≤ 9"),
        ("run softmax --input none.npy", "none.npy"),
        ("run softmax --rows 2 --cols 9 --device cpu --tune", "measures on a GPU"),
    ],
)  # fmt: skip
def test_mistakes_exit_with_2_and_a_hint(fusegen, line, hint):
    status, _, err = fusegen(line)
    assert status == 2
    assert hint in err
    assert "Traceback" not in err


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
                         text=True, check=True, cwd=Path(fg.__file__).parents[1])  # fmt: skip
    assert fg.__version__ in run.stdout
