"""Generated CUDA as nvcc sees it, whose host compiler reads device code too."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support import state_cases
from support.cuda_cases import library_case

import fusegen as fg
from fusegen.backend.emit.comments import code

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.cu"))
NVCC = shutil.which("nvcc")

SLICE = {
    "sm_80": library_case("moe_gate", 1, 256, k=4),
    "sm_90": library_case("softmax_topk", 1, 25_000),
    "sm_100": library_case("layer_norm", 1, 4096, "bfloat16"),
}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.name)
def test_constructors_initialise_members_by_functions_of_the_file(path: Path) -> None:
    """nvcc leaves a constructor's initialisers to the host compiler, in templates as well: it looks
    names up where they stand, and knows none of CUDA's."""
    text = code(path.read_text(encoding="utf-8"))
    assert not re.findall(r"\)\s*:\s*\w+\([^;{]*__\w+\(", text)


@pytest.mark.long
@pytest.mark.skipif(NVCC is None, reason="nvcc is not here; NVRTC compiles the library elsewhere")
@pytest.mark.parametrize("arch", SLICE)
def test_files_compile_as_they_stand(arch: str, tmp_path: Path) -> None:
    """A slice of benchmarks/nvcc_campaign.py, without a word from the compiler."""
    _compile_quietly(SLICE[arch].work(arch=arch, n_rows=4000).source, arch, tmp_path)


@pytest.mark.long
@pytest.mark.skipif(NVCC is None, reason="nvcc is not here; NVRTC compiles the library elsewhere")
@pytest.mark.parametrize(("name", "role"), [
    ("many", "fold"), ("places", "merge"), ("ends", "finish")])
def test_programs_of_one_role_compile_as_they_stand(name: str, role: str, tmp_path: Path) -> None:
    """Those of every text and role are NVRTC's, in `test_states_cuda`."""
    text = {**state_cases.TEXTS, "ends": state_cases.ends}[name]
    _compile_quietly(fg.pipeline(text).source("sm_90", role=role, n_cols=99), "sm_90", tmp_path)


def _compile_quietly(source: str, arch: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(source, encoding="utf-8")
    command = [str(NVCC), "-c", f"-arch={arch}", "-Xcompiler", "-Wall", "-o", "kernel.o", path.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
