"""Settings every test shares."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import fake_cupy
import fake_gpu
import fake_torch
import pytest

from fusegen import recall
from fusegen.runtime import cuda


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden from what is emitted now"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` are skipped, with the reason, where no GPU can be used."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    reason = cuda.available()
    if reason is not None:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {reason}"))


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of the module's own, so that everything is compiled afresh."""
    folder = tmp_path_factory.mktemp("cache")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSEGEN_CACHE_DIR", str(folder))
        yield


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_gpu.Gpu]:
    """A machine with GPUs in host memory, its CuPy and its torch; nothing is recalled."""
    monkeypatch.setattr(recall, "_READERS", {})
    with fake_cupy.installed(monkeypatch) as found:
        monkeypatch.setitem(sys.modules, "torch", fake_torch.module(found))
        yield found
