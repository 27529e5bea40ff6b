"""The compiled helper: made in the background, done without where it cannot be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fusegen.backend.cpu import helper
from fusegen.backend.cpu.helper import Helper
from fusegen.backend.cpu.toolchain import find_compiler

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FUSEGEN_HELPER")


def python(code: str, **env: str) -> str:
    """What a process says in which it is made as it is for users."""
    plain = {n: v for n, v in os.environ.items() if n != "FUSEGEN_HELPER"}
    found = subprocess.run([sys.executable, "-c", code], env={**plain, **env}, text=True, cwd=ROOT,
                           capture_output=True)
    assert found.returncode == 0, found.stderr
    return found.stdout


CALLS = """
import os, sys, time, numpy as np, fusegen as fg
from fusegen.backend.cpu.helper import HELPER
p, x = fg.library.softmax, np.random.default_rng(0).standard_normal((9, 40)).astype("f4")
want = p(x)
def calls(n):
    for _ in range(n):
        assert np.array_equal(p(x), want)
calls(20)
assert HELPER.module is None and not HELPER.why, "a process that makes few calls compiles nothing"
"""


@pytest.mark.long
def test_it_is_made_in_the_background_and_serves_the_same(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    said = python(CALLS + """
calls(100)
end = time.monotonic() + 120
while HELPER.module is None and not HELPER.why and time.monotonic() < end:
    calls(5)
    time.sleep(0.01)
calls(5)
assert p.traces.recall.serve != p.traces.recall.find
pid = os.fork()
if not pid:
    calls(5)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(HELPER.how, HELPER.why)
""", FUSEGEN_CACHE_DIR=str(tmp_path / "cache"))
    assert said.strip() == "built here"


@pytest.mark.long
def test_a_child_forked_while_it_is_made_makes_its_own(tmp_path):
    said = python(CALLS + """
begun = []
from fusegen.backend.cpu import helper
helper.begun = begun.append  # it never ends in this process
calls(100)
assert len(begun) == 1
pid = os.fork()
if not pid:
    calls(100)
    os._exit(0 if len(begun) == 2 else 1)
print(os.waitpid(pid, 0)[1])
""")
    assert said.strip() == "0"


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(("name", "value", "match"), [
    ("find_compiler", lambda: None, r"no C\+\+ compiler"),
    ("source", lambda: "no C++", "failed with status"),
])
def test_without_it_python_serves_calls_and_the_doctor_says_why(monkeypatch, name, value, match):
    monkeypatch.setattr(helper, name, value)
    made = Helper()
    finding = made.finding()
    assert made.module is None
    assert made.ask() is None
    assert not finding.good
    assert re.search(match, finding.state)


@pytest.mark.usefixtures("allowed")
def test_a_prebuilt_one_that_cannot_be_loaded_is_made_again(monkeypatch):
    monkeypatch.setattr(helper, "PREBUILT", Path(__file__))
    made = Helper()
    assert made.finding().state == "served by compiled code, built here"


@pytest.mark.usefixtures("allowed")
def test_without_headers_of_python_it_is_not_made(monkeypatch, tmp_path):
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    made = Helper()
    made.make()
    assert made.module is None
    assert "python3-dev" in made.why


@pytest.mark.usefixtures("allowed")
def test_without_the_interpreters_lock_it_is_not_made(monkeypatch):
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: int(name == "Py_GIL_DISABLED"))
    made = Helper()
    made.make()
    assert made.module is None
    assert "without its lock" in made.why


def test_who_turned_it_off_is_told_so_and_nothing_is_missing():
    made = Helper()
    finding = made.finding()
    assert "FUSEGEN_HELPER is 0" in finding.state
    assert finding.good


def test_arrays_of_another_form_are_noticed(compiled_helper):
    class Other:
        """What a helper says where NumPy's array has other fields."""

        def __init__(self, place: int) -> None:
            self.place = place

        def setup(self, *_: Any) -> None:
            pass

        def seen(self, array: np.ndarray) -> Any:
            found = list(compiled_helper.module.seen(array))
            found[self.place:self.place + 1] = [None] if self.place < len(found) else []
            return tuple(found)

        def made(self, shape: Any, dtype: Any) -> np.ndarray:
            return np.empty(shape, dtype, order="F")

    with pytest.raises(ImportError, match="makes other arrays"):
        helper._verify(Other(6))
    for place in range(6):
        with pytest.raises(ImportError, match="of another form"):
            helper._verify(Other(place))
    helper._verify(compiled_helper.module)


@pytest.mark.parametrize("told", ["11111", "00000", "11101", "10111", "10001", "10100"])
def test_keys_that_do_not_change_with_what_torch_is_asked_for_are_not_read(told):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    asked: list[int] = []

    class Blind:
        def keys(self, library: int) -> bool:
            asked.append(library)
            return bool(library) and told[sum(map(bool, asked)) - 1] == "1"

    assert not helper._show_keys(Blind(), torch)
    assert not asked[-1]
    assert not torch.is_autocast_enabled("cpu")
