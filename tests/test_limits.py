"""How many threads a call may have, whoever limits them; and the pool that they come from."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fusegen as fg
from fusegen.backend.cpu import bound
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.host import limits, threads
from fusegen.backend.host.threads import thread_count
from fusegen.backend.own_files import template_root

POOL = Path(__file__).parent / "support" / "host" / "pool.cpp"


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Sixteen processors, and nobody has said anything."""
    for name in ("FUSEGEN_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(limits, "sources", lambda: ((), ()))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr(limits, "_OWN_GROUPS", Path("/nowhere"))
    limits.quota.cache_clear()
    yield
    limits.quota.cache_clear()


def test_the_least_that_was_said_counts(monkeypatch):
    assert thread_count() == 16
    monkeypatch.setenv("OMP_NUM_THREADS", "9,2")
    assert thread_count() == 9
    monkeypatch.setattr(limits, "sources", lambda: ((), (lambda: 7, lambda: 11)))
    assert thread_count() == 7
    six = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 6)
    address = ctypes.cast(six, ctypes.c_void_p).value
    monkeypatch.setattr(limits, "sources", lambda: ((address,), (lambda: 7,)))
    assert thread_count() == 6
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    assert thread_count() == 2
    monkeypatch.setenv("FUSEGEN_THREADS", "12")  # which speaks of fusegen alone
    assert thread_count() == 12
    assert thread_count(3) == 3


@pytest.mark.parametrize(("said", "count"), [("", 16), ("0", 1), ("x", 16), (" 3 ", 3)])
def test_what_openmp_is_told_is_read_as_it_reads_it(monkeypatch, said, count):
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert thread_count() == count


def groups(monkeypatch, tmp_path, own, files):
    (tmp_path / "own").write_text(own)
    monkeypatch.setattr(limits, "_OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(limits, "_GROUPS", tmp_path / "groups")
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(("own", "files", "count"), [
    ("0::/a/b\n", {"a/b/cpu.max": "250000 100000\n"}, 3),
    ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "400000 100000\n"}, 4),
    ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "cpu.max": "20000 100000\n"}, 1),
    ("0::/../../elsewhere\n", {"cpu.max": "500000 100000\n"}, 5),
    ("0::/\n", {}, 16),
    ("3:cpu,cpuacct:/d\n1:name=systemd:/d\n",
     {"cpu,cpuacct/d/cpu.cfs_quota_us": "150000", "cpu,cpuacct/d/cpu.cfs_period_us": "100000"}, 2),
    ("3:cpu:/gone\n", {"cpu/cpu.cfs_quota_us": "700000", "cpu/cpu.cfs_period_us": "100000"}, 7),
    ("3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 16),
    ("nonsense\n", {}, 16),
])
def test_quotas_of_control_groups_count(monkeypatch, tmp_path, own, files, count):
    groups(monkeypatch, tmp_path, own, files)
    assert thread_count() == count


def said_by(code: str, **env: str) -> list[int]:
    plain = {n: v for n, v in os.environ.items() if not n.endswith("_NUM_THREADS")}
    code = "from fusegen.backend.host.threads import thread_count as n\n" + code
    done = subprocess.run([sys.executable, "-c", code], env={**plain, **env}, check=True,
                          capture_output=True, text=True, cwd=POOL.parents[3])
    return [int(line) for line in done.stdout.split()]


needs_two = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor")


@pytest.mark.long
@needs_two
def test_limits_of_blas_hold():
    openblas = "import numpy; from fusegen.backend.host import limits; " \
               "print(len(limits._loaded())); print(n())"
    loaded, free = said_by(openblas)
    if not loaded:
        pytest.skip("this NumPy has no OpenBLAS")
    assert free > 1
    assert said_by(openblas, OPENBLAS_NUM_THREADS="1")[1] == 1


@pytest.mark.long
@needs_two
def test_limits_of_torch_hold():
    pytest.importorskip("torch", reason="torch is not installed")
    assert said_by("import torch\ntorch.set_num_threads(2); print(n())\n"
                   "torch.set_num_threads(1); print(n())") == [2, 1]


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinities")
def test_the_helper_asks_again_when_something_changed(monkeypatch, compiled_helper):
    """Whatever `team` depends on; and only then, for it takes as long as a small call."""
    module, asked = compiled_helper.module, []
    if module is None:
        pytest.skip(compiled_helper.why)
    told = [4]

    def team():
        asked.append(None)
        return thread_count(), (), (told.__getitem__(0).__index__, lambda: told[0])

    monkeypatch.undo()
    within = np.core if np.__version__.startswith("1.") else sys.modules["numpy._core"]
    api = within.multiarray._ARRAY_API
    module.setup(np.ndarray, api, team)
    try:
        monkeypatch.setattr(bound, "HELPER", compiled_helper)
        p, x = fg.Pipeline(fg.library.softmax.fn), np.ones((300, 700), "f4")
        for _ in range(3):
            p(x)
        assert asked, "a call of that size asks"
        before = os.sched_getaffinity(0)
        for change in (lambda: monkeypatch.setenv("FUSEGEN_THREADS", "2"),
                       lambda: monkeypatch.setenv("OMP_NUM_THREADS", "2"),
                       lambda: monkeypatch.delenv("FUSEGEN_THREADS"),
                       lambda: told.__setitem__(0, 2),
                       lambda: monkeypatch.setitem(sys.modules, "fusegen_new", os),
                       lambda: os.sched_setaffinity(0, {min(before)})):
            asked.clear()
            p(x)
            assert not asked
            change()
            for _ in range(3):
                p(x)
            if len(before) > 1 or "sched" not in change.__code__.co_names:
                assert len(asked) == 1
    finally:
        os.sched_setaffinity(0, before)
        module.setup(np.ndarray, api, threads.team)


# ---- the pool ----


@pytest.mark.long
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("checks", [(), ("-fsanitize=thread",), ("-fsanitize=address,undefined",)],
                         ids=["plain", "races", "memory"])
def test_every_part_is_done_once(tmp_path, checks):
    """Under the compiler's own checks of races and of memory as well, where it has them."""
    program = tmp_path / "pool"
    command = [*find_compiler().words, "-std=c++17", "-O1", "-g", *checks, "-pthread",
               f"-I{template_root() / 'cpu' / 'calls'}", str(POOL), "-o", str(program)]
    made = subprocess.run(command, capture_output=True, text=True)
    if checks and made.returncode:
        pytest.skip(f"no {checks[0]} here")
    assert made.returncode == 0, made.stderr
    forks = [] if checks else ["forks"]
    done = subprocess.run([str(program), *forks], capture_output=True, text=True, timeout=120)
    if checks and "unexpected memory mapping" in done.stderr:
        pytest.skip("this kernel places memory where the checks cannot have it")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
