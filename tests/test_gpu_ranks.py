"""Ranks with a GPU each, which write to one another's memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch", reason="torch is not installed")
TESTS = Path(__file__).parent


def test_ranks_meet_through_memory(tmp_path: Path) -> None:
    """In processes of their own: one that hangs is killed."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    done = subprocess.run(
        [sys.executable, "-m", "support.gpu_ranks", str(tmp_path)], check=True, timeout=150,
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"}, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines
    assert all(line.endswith(": ok") for line in lines), done.stdout + done.stderr
