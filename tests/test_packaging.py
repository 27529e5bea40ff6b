"""The wheel holds everything: built, unpacked into a clean place, and used from there."""

from __future__ import annotations

import ast
import email
import inspect
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler

ROOT = Path(__file__).parents[1]


def built(out: Path, **more: str) -> Path:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True, env=os.environ | more)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


def test_wheel_ships_every_template(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    templates = {
        f"fusegen/{p.relative_to(ROOT).as_posix()}" for p in (ROOT / "templates").rglob("*.*")
    }
    assert {Path(name).suffix for name in templates} == {".j2", ".cuh", ".cpp", ".hpp"}
    assert templates <= inside
    assert not [n for n in inside if n.startswith(("tests/", "benchmarks/"))]
    assert "fusegen/py.typed" in inside
    assert [n for n in inside if n.endswith("/LICENSE")]


@pytest.mark.long
def test_installed_wheel_works_anywhere(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    program = (
        "import fusegen as fg, numpy as np; assert 'site' in fg.__file__, fg.__file__; "
        "assert '__shfl_xor_sync' in fg.library.softmax_topk.source(target='sm_90'); "
        "x = np.arange(12.0).reshape(3, 4); "
        "np.testing.assert_allclose(fg.library.softmax(x), fg.library.softmax.reference(x))"
    )
    environment = {**os.environ, "PYTHONPATH": str(site), "FUSEGEN_CACHE_DIR": str(tmp_path / "c")}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_an_index_shows_of_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as inside:
        (name,) = [n for n in inside.namelist() if n.endswith(".dist-info/METADATA")]
        said = email.message_from_bytes(inside.read(name))
    assert (said["Name"], said["Version"]) == ("fusegen", fg.__version__)
    assert said["License-Expression"] == "MIT"
    assert said["Requires-Python"] == ">=3.11"
    assert said["Description-Content-Type"] == "text/markdown"
    assert said.get_payload().startswith("# fusegen\n")
    assert "Typing :: Typed" in said.get_all("Classifier", [])
    assert {"cuda12", "cuda13", "dask", "jax", "torch"} <= {*said.get_all("Provides-Extra", [])}
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{fg.__version__}]" in changes, "a version says what is new in it"


def test_the_public_api_is_there_and_typed() -> None:
    """What the changelog calls public: every function, and every method of what they return."""
    bare = []
    for name in fg.__all__:
        found = getattr(fg, name)
        asked = {name: found} if inspect.isfunction(found) else {}
        if inspect.isclass(found):
            own = [one for one in found.__mro__ if one.__module__.startswith("fusegen")]
            asked = {f"{name}.{n}": m for one in own for n, m in vars(one).items()
                     if inspect.isfunction(m) and (n == "__call__" or not n.startswith("_"))}
        for where, function in asked.items():
            parameters = [*inspect.signature(function).parameters.values()]
            untyped = [p.name for p in parameters if p.annotation is p.empty and p.name != "self"]
            if untyped or inspect.signature(function).return_annotation is inspect.Signature.empty:
                bare.append(f"{where}: {', '.join(untyped) or 'result'}")
    assert not bare, "\n".join(bare)
    assert {*fg.__all__} <= {*dir(fg)}


@pytest.mark.long
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_a_wheel_for_a_platform_brings_the_helper(wheel: Path, tmp_path: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    own = built(tmp_path / "out", FUSEGEN_BUILD_HELPER="1")
    assert "-cp311-abi3-" in own.name
    site = tmp_path / "site"
    zipfile.ZipFile(own).extractall(site)
    program = (
        "import fusegen as fg, numpy as np; from fusegen.backend.cpu.helper import HELPER; "
        "assert 'site' in fg.__file__, fg.__file__; print(HELPER.finding().state); "
        "x = np.arange(12.0).reshape(3, 4); found = [fg.library.softmax(x) for _ in range(3)]; "
        "assert all(np.array_equal(f, found[0]) for f in found)"
    )
    environment = {n: v for n, v in os.environ.items() if n != "FUSEGEN_HELPER"}
    environment |= {"PYTHONPATH": str(site), "FUSEGEN_CACHE_DIR": str(tmp_path / "c")}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "served by compiled code, prebuilt"


OTHERWISE = {"cupy": "cupy-cuda12x", "tvm_ffi": "apache-tvm-ffi", "jax_tvm_ffi": "jax-tvm-ffi"}


@pytest.mark.long
def test_where_all_tests_run_nothing_is_missing() -> None:
    """What tests ask for by `importorskip` is installed by .ci/run: else they would run nowhere.
    What is pinned there lies in the ranges that users are promised."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = (ROOT / ".ci" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    ranges = [*project["dependencies"], *extras["test"], *extras["cuda12"]]
    installed = {re.split(r"[<>=]", r)[0] for r in ranges} | {*pins}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr="importorskip"),
                              args=[ast.Constant(value=str(name)), *_]):
                    library = name.split(".")[0]
                    assert OTHERWISE.get(library, library) in installed, f"{path.name}: {name}"
    for asked in [*extras["torch"], *extras["jax"], *extras["dask"], *extras["plot"]]:
        name, least = re.sub(r"\[.*\]", "", asked).split(">=")
        assert [*map(int, pins[name].split("."))] >= [*map(int, least.split("."))], asked
