"""Settings every test shares."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from simt import built
from support import batches, c_driver, compilers, fake_cupy, fake_gpu, fake_torch, slices

from fusegen.backend.arrays import layout
from fusegen.backend.cpu import bound, toolchain
from fusegen.backend.cpu.helper import Helper
from fusegen.backend.cuda import run as cuda
from fusegen.backend.cuda.run import bound as cuda_bound
from fusegen.backend.cuda.run import chain as cuda_chain
from fusegen.ir.shared import Recent
from fusegen.pipeline import call as dispatch
from fusegen.pipeline import remembered as recall

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
"""Threads of torch's that spin where they wait take a processor from the other workers' tests: four
times the time of small training steps."""
os.environ.setdefault("XLA_FLAGS", compilers.XLA_LIGHTLY)
gc.set_threshold(20_000, 20, 20)  # of what sympy makes, hardly anything is a circle


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden from what is emitted now"
    )
    parser.addoption(
        "--update-names", action="store_true", help="rewrite fusegen/ir/own_names.py likewise"
    )
    slices.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    slices.decide(config)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    slices.say(config, terminalreporter)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    slices.tell(node)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `gpu` are skipped, with the reason, where no GPU can be used; of all others, a
    slice runs."""
    slices.leave_out(config, items)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    reason = cuda.available()
    if reason is not None:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {reason}"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Tests marked `batched` run side by side."""
    if not batches.takes(pyfuncitem):
        return None
    batches.call(pyfuncitem)
    return True


@pytest.fixture(scope="session", autouse=True)
def shared_bytecode() -> Iterator[None]:
    """Processes that tests start read each other's bytecode, wherever Python may write none."""
    kept = sys.pycache_prefix or str(built.folder() / "bytecode")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPYCACHEPREFIX", kept)
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_compiler() -> Iterator[None]:
    """Every text is compiled once, for all tests and all workers, and lightly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toolchain, "_attempt", compilers.shared)
        patch.setattr(toolchain, "FLAGS", compilers.LIGHT)
        yield


@pytest.fixture(scope="module")
def users_flags() -> Iterator[None]:
    """The module's C++ is compiled as for users, by pipelines that hold nothing else."""
    compilers.forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toolchain, "FLAGS", compilers.USERS)
        yield


@pytest.fixture
def plain_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler is asked again for everything, as it is for users."""
    monkeypatch.setattr(toolchain, "_attempt", compilers.plain)


@pytest.fixture
def lightly_optimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a module that has the users' flags: for what is computed of long lists, which -O3 compiles
    in the same module's tests without this."""
    monkeypatch.setattr(toolchain, "FLAGS", compilers.LIGHT)


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of the module's own, which is empty at first."""
    folder = tmp_path_factory.mktemp("cache")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSEGEN_CACHE_DIR", str(folder))
        yield


@pytest.fixture
def altered_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test emits with other figures than fusegen's own stays where nobody else finds it:
    kept sources are told apart by fusegen's files, which know nothing of patches."""
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="session", autouse=True)
def no_helper() -> Iterator[None]:
    """Calls are remembered in Python, but for tests with the fixture `served_by`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSEGEN_HELPER", "0")
        yield


@pytest.fixture(scope="session")
def compiled_helper(shared_compiler: None, no_helper: None) -> Helper:
    """The compiled helper, as a process has it that has made it."""
    found = Helper()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("FUSEGEN_HELPER", raising=False)
        found.make()
    return found


@pytest.fixture(params=["python", "helper"])
def served_by(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, compiled_helper: Helper
) -> str:
    """Who remembers calls on host arrays."""
    if request.param == "helper":
        if compiled_helper.module is None:
            pytest.skip(compiled_helper.why)
        monkeypatch.setattr(bound, "HELPER", compiled_helper)
    return str(request.param)


@pytest.fixture(params=["python", "helper"])
def gpu_served_by(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Who remembers calls on arrays on GPUs: those of `gpu`, or real ones."""
    if request.param == "python":
        yield "python"
        return
    helper = request.getfixturevalue("compiled_helper")
    if helper.module is None:
        pytest.skip(helper.why)
    for user in (cuda_bound, cuda_chain):
        monkeypatch.setattr(user, "HELPER", helper)
    if request.node.get_closest_marker("gpu"):
        yield "helper"
        return
    machine = c_driver.CDriver(request.getfixturevalue("gpu"), monkeypatch)
    yield "helper"
    assert not machine.failures


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One entry per call that was looked at in full."""
    found: list[Any] = []
    full = dispatch.lay_out

    def counted(*args: Any, **options: Any) -> Any:
        found.append(args)
        return full(*args, **options)

    monkeypatch.setattr(dispatch, "lay_out", counted)
    return found


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_gpu.Gpu]:
    """A machine with GPUs in host memory, its CuPy and its torch; nothing is recalled."""
    monkeypatch.setattr(recall, "_READERS", {})
    monkeypatch.setattr(layout, "_NUMBERS", Recent(16))  # in memory of the machine
    with fake_cupy.installed(monkeypatch) as found:
        monkeypatch.setitem(sys.modules, "torch", fake_torch.module(found))
        yield found
