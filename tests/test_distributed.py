"""Rows sharded over ranks: the results of whole rows, on every rank, or an error on every rank."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
torch = pytest.importorskip("torch", reason="torch is not installed")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

from support.shard_worlds import WORLDS  # noqa: E402
from support.worlds import outcomes  # noqa: E402

PARTS = [(w, case) for w in WORLDS for case in w.cases]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all worlds left: they are started once, together."""
    found = tmp_path_factory.mktemp("worlds")
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"}
    subprocess.run([sys.executable, "-m", "support.worlds", str(found)], check=True, timeout=240,
                   env=environment)
    return found


@pytest.mark.long
@pytest.mark.parametrize(("world", "case"), PARTS,
                         ids=[f"{w.name}: {case}" for w, case in PARTS])
def test_ranks(world: Any, case: str, folder: Path) -> None:
    found = outcomes(folder, world.name, world.size)
    lost = {1} if world.name == "killed" else set()
    for rank, one in enumerate(found):
        if rank not in lost:
            assert case in one, f"rank {rank} did not come to {case!r}: see the case before it"
            assert not one[case], f"rank {rank}: {one[case]}"
