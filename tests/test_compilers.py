"""Compilers that hang, fail, are missing, old or killed, or write garbage, under real calls."""

from __future__ import annotations

import ctypes
import os
import pickle
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from test_interrupts import Alarm, alarms

import fusegen as fg
from fusegen.backend import notices
from fusegen.backend.cache.folder import opened
from fusegen.backend.cache.form import packed
from fusegen.backend.cpu import compiled as cpu
from fusegen.backend.cpu import process, toolchain
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.target import host_cpu
from fusegen.ir.errors import ArgumentError, CompilerError, InternalError

X = np.linspace(0.5, 1.5, 120, dtype="f4").reshape(3, 40)
REAL = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), "")  # without $CXX
pytestmark = [
    pytest.mark.skipif(not REAL, reason="no C++ compiler"),
    pytest.mark.usefixtures("plain_compiler"),
]


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """Nothing is known of compilers, nothing is kept, and where temporary files go is seen."""
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(toolchain, "_UNUSABLE", {})
    monkeypatch.setattr(toolchain, "_PROVED", set())
    toolchain.version.cache_clear()
    notices.warn_once.cache_clear()
    yield
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not process._RUNNING


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """`fake(script)`: $CXX is a shell script; it answers for its version like a compiler."""

    def make(script, name="cxx"):
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\ncase "$*" in *-dumpmachine*) echo 99; exit 0;; esac\n'
                        f'for out do [ "$last" = -o ] && break; last=$out; done\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))
        return path

    return make


def pipeline(by=2.0):
    """One that is new to this process's tables; other factors have other code."""

    @fg.pipeline
    def fresh_sum(x):
        return fg.sum(x * by)

    return fresh_sum


def build():
    target = host_cpu()
    return cpu.compiled('extern "C" int answer_rows() { return 42; }', target, "answer",
                        ["answer_rows"])


# Known from what other processes of the machine may run: a fraction that is this process's number.
LONG = f"sleep 60.{os.getpid():07}"

FAILING = {
    "status": ("echo one wrong option >&2; exit 3", r"(?s)failed with status 3.*one wrong option"),
    "killed": ("kill -9 $$", r"(?s)ended by signal 9.*memory"),
    "nothing": ("exit 0", "unusable: it is empty"),
    "garbage": ('echo garbage > "$out"', "unusable: it breaks off"),
    "a script": ('head -c 5000 /dev/zero > "$out"', "unusable: it is no shared library"),
    "half": (f'{REAL} "$@" && truncate -s -100 "$out"', "unusable: it breaks off"),
    "an object": (f'{REAL} -c "$@"; true', "unusable"),
    "another file": (f'echo "int f;" | {REAL} -shared -fPIC -x c++ -o "$out" -',
                     "unusable: it lacks answer_rows"),
    "sparse": ('truncate -s 200G "$out"', "unusable: it has 214748364800 bytes"),
    "talks without end": ("exec yes garbage", r"(?s)said more than 64 MB.*garbage"),
    "hangs": (LONG, "stopped after"),
    "hangs in a child": (f"sh -c '{LONG}' & {LONG}", "stopped after"),
    "old": ('case "$*" in *-march=*|*c++17*) echo unrecognized option >&2; exit 1;; esac; '
            f'{REAL} "$@"', r"(?s)unrecognized option.*g\+\+ 11"),
}


@pytest.mark.parametrize(("script", "said"), FAILING.values(), ids=FAILING.keys())
def test_one_clear_error(fake, monkeypatch, script, said):
    """Which command, how it ended, what it said, what to do; nothing is kept, nothing runs on."""
    monkeypatch.setenv("FUSEGEN_COMPILE_SECONDS", "0.4" if "sleep" in script else "60")
    path = fake(script)
    with pytest.raises(CompilerError, match=said) as caught:
        build()
    assert str(path) in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert isinstance(caught.value, fg.BackendError)
    with opened() as folder:
        assert list(folder.files()) == []
    assert not _left_running(LONG)


def _left_running(text):
    """What was killed and goes on for longer than it takes to die on a busy machine."""
    end = time.monotonic() + 30
    while _running(text) and time.monotonic() < end:
        time.sleep(0.01)
    return _running(text)


def _running(text):
    return [p for p in Path("/proc").glob("[0-9]*/cmdline")
            if text.encode() in _read(p).replace(b"\0", b" ")]


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("kind", ["status", "garbage", "sparse", "talks without end", "hangs",
                                  "old"])
def test_calls_go_on_without_it_and_say_so_once(fake, monkeypatch, kind):
    monkeypatch.setenv("FUSEGEN_COMPILE_SECONDS", "0.4" if kind == "hangs" else "60")
    path = fake(FAILING[kind][0])
    with pytest.warns(RuntimeWarning, match=r"(?s)runs on NumPy.*doctor.*cxx") as said:
        found = pipeline()(X)
    assert [w.filename for w in said] == [__file__]
    np.testing.assert_allclose(found, 2 * X.sum(1), rtol=1e-5)
    monkeypatch.setattr(toolchain, "run", lambda *_: pytest.fail("it is asked again"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline()(X)
    from fusegen.cli import doctor

    assert str(path) in doctor.text()


@pytest.mark.parametrize("cxx", ["/bin/false", "/bin/true", "/etc/passwd", "/bin"])
def test_what_is_no_compiler(monkeypatch, cxx):
    monkeypatch.setenv("CXX", cxx)
    with pytest.warns(RuntimeWarning):
        np.testing.assert_allclose(pipeline()(X), 2 * X.sum(1), rtol=1e-5)


def test_a_command_with_options(fake, tmp_path, monkeypatch):
    """Spaces, quotes and wrappers, as a shell reads them; ours come behind."""
    log = tmp_path / "log"
    fake(f'echo "$*" >> {log}; exec "$@"', name="my wrapper")
    wrapper = shlex.quote(str(tmp_path / "my wrapper"))
    monkeypatch.setenv("CXX", f"{wrapper} {REAL} -O0 -DX='a b'")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline()(X)
    (line,) = (one for one in log.read_text().splitlines() if " -o " in one)
    assert line.startswith(f"{REAL} -O0 -DX=a b -std=c++17")
    assert "-o /" in line
    for empty in ("", "  "):
        monkeypatch.setenv("CXX", empty)
        assert str(find_compiler()) == REAL
    for wrong, why in (('g++ "', "cannot be read"), ("g++ -ffast-math", "-ffast-math"),
                       ("g++ -Ofast", "-Ofast")):
        monkeypatch.setenv("CXX", wrong)
        with pytest.raises(ArgumentError, match=why):
            find_compiler()
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.warns(RuntimeWarning, match="names no program"):
        assert str(find_compiler()) == REAL
    monkeypatch.setenv("FUSEGEN_COMPILE_SECONDS", "soon")
    with pytest.raises(ArgumentError, match="FUSEGEN_COMPILE_SECONDS=soon"):
        build()


@pytest.mark.parametrize("option", ["-ffast-math", "-ffinite-math-only",
                                    "-funsafe-math-optimizations"])
@pytest.mark.parametrize("hidden", ["in a response file", "in a script"])
def test_arithmetic_of_its_own_is_found_wherever_it_is_asked_for(
    fake, tmp_path, monkeypatch, option, hidden
):
    if hidden == "in a script":
        fake("").write_text(f'#!/bin/sh\nexec {REAL} "$@" {option}\n')
    else:
        (tmp_path / "fast.rsp").write_text(option)
        monkeypatch.setenv("CXX", f"{REAL} @{tmp_path / 'fast.rsp'}")
    with pytest.raises(ArgumentError, match=r"(?s)compiles with __\w+_MATH.*proved"):
        build()
    with opened() as folder:
        assert list(folder.files()) == []


def test_a_kept_library_that_is_none_is_made_again(caplog):
    assert build().function("answer_rows", result=ctypes.c_int)() == 42
    with opened() as folder:
        (one,) = folder.files()
        for of_no_use in (b"", b"text", Path("/bin/true").read_bytes()):
            folder.write(one.name, packed(one.name, "library answer", of_no_use))
            assert build().function("answer_rows", result=ctypes.c_int)() == 42
    assert caplog.text.count("is made again") >= 3


def test_source_that_a_sound_compiler_refuses_is_our_defect():
    with pytest.raises(InternalError, match=r"(?s)failed_broken\.cpp.*error"):
        cpu.compiled("int broken(;\n", host_cpu(), "broken", [])


def test_without_room_for_temporary_files(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.warns(RuntimeWarning, match=r"(?s)NumPy.*TMPDIR"):
        np.testing.assert_allclose(pipeline()(X), 2 * X.sum(1), rtol=1e-5)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_a_folder_without_execution_and_one_that_is_full(tmp_path, monkeypatch):
    """Real ones: a small file system that allows no execution."""
    place = tmp_path / "small"
    place.mkdir(mode=0o700)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec,size=64k,mode=700", "none",
                              str(place)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(place))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                assert build().function("answer_rows", result=ctypes.c_int)() == 42
            (place / "filler").write_bytes(b"x" * os.statvfs(place).f_bavail * 4096)
            with pytest.raises(OSError, match="space"):
                (place / "more").write_bytes(bytes(1 << 17))
        with pytest.warns(RuntimeWarning, match=r"nothing can be written.*FUSEGEN_CACHE_DIR"):
            found = pipeline()(X)
        np.testing.assert_allclose(found, 2 * X.sum(1), rtol=1e-5)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


# ---- signals, threads and forks ----


def test_an_exception_ends_the_compiler(fake, tmp_path):
    """At many moments: nothing runs on, and neither part of a file nor a lock is left."""
    fake(f'sleep 0.05; exec {REAL} "$@"')
    left = 0
    for k in range(12):
        try:
            with alarms(0.004 * (k + 1)):
                build()
        except Alarm:
            left += 1
        assert not process._RUNNING
        assert list((tmp_path / "tmp").iterdir()) == []
        assert not list((tmp_path / "cache").glob(".*"))
    assert left > 6
    assert build().function("answer_rows", result=ctypes.c_int)() == 42


def test_an_exception_at_any_moment_of_a_first_call(tmp_path):
    """From tracing to loading: nothing is left, nothing is said, and the next call is right."""
    left = 0
    for scale in (2.0, 3.0):

        @fg.pipeline
        def weights(x, *, by=scale):
            return fg.sum(fg.exp(x * by - fg.max(x * by)))

        for k in range(9):
            try:
                with warnings.catch_warnings(), alarms(0.002 * 2.1**k):
                    warnings.simplefilter("error")
                    weights(X)
            except Alarm:
                left += 1
            assert not process._RUNNING
            assert list((tmp_path / "tmp").iterdir()) == []
            assert not list((tmp_path / "cache").glob(".*"))
        wanted = np.exp(X.astype("f8") * scale - (X * scale).max(1, keepdims=True)).sum(1)
        np.testing.assert_allclose(weights(X), wanted, rtol=1e-5)
    assert left > 6


@pytest.mark.long
@pytest.mark.parametrize("hanging", [lambda x: pipeline()(x), lambda x: pipeline().compile(x)])
def test_a_thread_that_waits_for_a_compiler_holds_up_no_other_pipeline(fake, monkeypatch, hanging):
    usual = pipeline()
    usual.compile(X)
    fake("sleep 600")
    monkeypatch.setenv("FUSEGEN_COMPILE_SECONDS", "300")
    started = threading.Event()

    def hang():
        started.set()
        with suppress(CompilerError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hanging(X)

    thread = threading.Thread(target=hang)
    thread.start()
    started.wait()
    while thread.is_alive() and not process._RUNNING:
        time.sleep(0.01)
    monkeypatch.delenv("CXX")
    usual(X)
    usual(X[:, :39])
    fg.library.logsumexp(X)
    assert thread.is_alive()
    for pid in list(process._RUNNING):
        os.killpg(pid, signal.SIGKILL)
    thread.join()


FORK = """
import os, sys, threading, time, warnings
import numpy as np, fusegen as fg
warnings.simplefilter("ignore")
x = np.linspace(0.5, 1.5, 120, dtype="f4").reshape(3, 40)

def pipeline():
    @fg.pipeline
    def fresh_sum(x):
        return fg.sum(x * {factor})
    return fresh_sum

done = []
def first():
    done.append(pipeline()(x))

thread = threading.Thread(target=first)
thread.start()
time.sleep({delay})
pid = os.fork()
if pid == 0:
    found = pipeline()(x)
    os._exit(0 if np.allclose(found, {factor} * x.sum(1), rtol=1e-5) else 1)
if {lives_on}:
    beside = os.fork()
    if beside == 0:
        time.sleep(60)
        os._exit(0)
thread.join()
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
if {lives_on}:
    os.kill(beside, 9)
assert len(done) == 1
sys.exit(status)
"""


@pytest.mark.long
def test_nothing_is_held_while_a_fork_waits():
    """A lock that a hook of ours, or of what we load, takes before ours waits for the thread that
    wants it: hooks are called in the reverse of the order in which they were registered."""
    code = (
        "import os, sys\n"
        "found, register = [], os.register_at_fork\n"
        "def spy(**hooks):\n"
        "    found.append((sys._getframe(1).f_globals['__name__'], 'before' in hooks))\n"
        "    register(**hooks)\n"
        "os.register_at_fork = spy\n"
        "import numpy as np, fusegen as fg\n"
        "fg.library.softmax(np.ones((3, 40), 'f4'))\n"
        "fg.grad, fg.check\n"
        "before = [name for name, is_before in found if is_before]\n"
        "assert before[-1] == 'fusegen.ir.shared', before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_other_peoples_locks_are_taken_where_forks_wait(fake, monkeypatch):
    """tempfile has one for the whole process, which a forked child would never see free again."""
    from fusegen.ir import shared

    class Watched:
        def __init__(self, lock):
            self.lock, self.seen = lock, []

        def acquire(self, *args):
            self.seen.append(threading.get_ident() in shared._STEADY)
            return self.lock.acquire(*args)

        def release(self):
            self.lock.release()

    watched = Watched(tempfile._once_lock)
    monkeypatch.setattr(tempfile, "_once_lock", watched)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_name_sequence", None)
    pipeline(by=9.25)(X)
    assert watched.seen
    assert all(watched.seen)


@pytest.mark.long
@pytest.mark.parametrize("delay", [0.01, 0.4])
def test_a_fork_while_another_thread_compiles(fake, delay, tmp_path):
    """The child neither hangs nor, if it lives on, keeps its parent waiting."""
    fake(f'sleep 0.4; exec {REAL} "$@"')
    code = FORK.format(delay=delay, lives_on=delay == 0.4, factor=f"{2 + delay}")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_process_that_ends_takes_its_compiler_with_it(fake, tmp_path):
    fake(LONG)
    code = (
        "import threading, time\n"
        "from fusegen.backend.cpu import process, compiled as cpu\n"
        "from fusegen.backend.target import host_cpu\n"
        "work = lambda: cpu.compiled('int f;', host_cpu(), 'f', [])\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "while not process._RUNNING: time.sleep(0.01)\n"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=env)
    assert not _left_running(LONG)  # and no temporary file is left: see `fresh`


def test_the_log_says_what_is_done(caplog, fake):
    p = pipeline(by=7.0)
    with caplog.at_level("DEBUG", "fusegen"):
        p(X)
        first = caplog.text
        caplog.clear()
        p(X)
        assert caplog.text == ""
        pipeline(by=7.0)(X)
    assert f"compiled with {REAL}" in first
    assert " s" in first
    assert "derive" in first
    assert "loaded fresh_sum" in first
    assert "compiled" not in caplog.text
    assert "kept from an earlier run" in caplog.text

