"""The wheel holds everything: built, unpacked into a clean place, and used from there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (found,) = out.glob("*.whl")
    return found


def test_wheel_ships_every_template(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    templates = {
        f"fusegen/{p.relative_to(ROOT).as_posix()}" for p in (ROOT / "templates").rglob("*.j2")
    }
    assert templates
    assert templates <= inside
    assert not [n for n in inside if n.startswith(("tests/", "benchmarks/"))]
    assert "fusegen/py.typed" in inside
    assert [n for n in inside if n.endswith("/LICENSE")]


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
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
