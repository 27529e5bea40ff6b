"""Generated CUDA as nvcc sees it, whose host compiler reads device code too."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cuda_cases import library_case

from fusegen.emit.comments import code

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


@pytest.mark.skipif(NVCC is None, reason="nvcc is not here; NVRTC compiles the library elsewhere")
@pytest.mark.parametrize("arch", SLICE)
def test_files_compile_as_they_stand(arch: str, tmp_path: Path) -> None:
    """A slice of benchmarks/nvcc_campaign.py, without a word from the compiler."""
    path = tmp_path / "kernel.cu"
    path.write_text(SLICE[arch].work(arch=arch, n_rows=4000).source, encoding="utf-8")
    command = [str(NVCC), "-c", f"-arch={arch}", "-Xcompiler", "-Wall", "-o", "kernel.o", path.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
