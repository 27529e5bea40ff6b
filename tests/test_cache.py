"""The cache folder: who may use it, what survives, what it may hold, and many users at once."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import fusegen as fg
from fusegen.backend import notices, own_files
from fusegen.backend.cache import locks, results, upkeep
from fusegen.backend.cache.entries import artifact, load, store
from fusegen.backend.cache.folder import Folder, chosen, opened
from fusegen.backend.cache.form import name_of
from fusegen.cli import main
from fusegen.ir.errors import ArgumentError, BackendError

ROOT = os.geteuid() == 0


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("FUSEGEN_CACHE_MB", raising=False)
    notices.warn_once.cache_clear()
    return tmp_path / "cache"


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def where():
    with opened() as found:
        return found.path


def built(text, log=None):
    def build(_):
        if log is not None:
            log.append(text)
        return text.encode()

    return build


# ---- the folder ----


def test_it_is_made_for_its_owner_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "a" / "b" / "cache"))
    before = os.umask(0)
    try:
        store(("k",), "label", b"data")
    finally:
        os.umask(before)
    for part in ("a", "a/b", "a/b/cache"):
        assert (tmp_path / part).stat().st_mode & 0o777 == 0o700
    (path,) = (tmp_path / "a/b/cache").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


def test_where_it_is(tmp_path, monkeypatch):
    monkeypatch.delenv("FUSEGEN_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert chosen() == tmp_path / "home" / ".cache" / "fusegen"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert chosen() == tmp_path / "home" / ".cache" / "fusegen"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert chosen() == tmp_path / "xdg" / "fusegen"
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "own"))
    assert chosen() == tmp_path / "own"
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", "~/own")
    assert chosen() == tmp_path / "home" / "own"


@pytest.mark.long
@pytest.mark.parametrize("relative", [".", "-o", "--output=x", "a/../b"])
def test_a_relative_folder_stays_where_it_was(relative, tmp_path):
    """Whatever it is called, and wherever the process goes afterwards."""
    code = (
        "import os\n"
        "from fusegen.backend.cache.entries import artifact, store\n"
        "from fusegen.backend.cache.folder import opened\n"
        "store(('one',), 'label', b'x')\n"
        "os.chdir('/')\n"
        "artifact(('two',), 'label', lambda _: b'x')\n"
        "with opened() as f: print(f.path, len(list(f.files())))\n"
    )
    tmp_path.chmod(0o700)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, text=True,
                          capture_output=True, check=True,
                          env={**os.environ, "FUSEGEN_CACHE_DIR": relative})
    path, count = done.stdout.split()
    assert Path(path) == tmp_path / relative
    assert count == "2"


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_can_write_is_refused(folder, mode):
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(BackendError, match="chmod 700"):
        where()


def test_a_parent_that_others_can_write_is_refused(tmp_path, monkeypatch):
    """Unless only owners may rename what is theirs; there, links of others are refused."""
    parent = tmp_path / "parent"
    parent.mkdir()
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(parent / "cache"))
    for mode, trusted in ((0o777, False), (0o770, False), (0o1777, True), (0o755, True)):
        parent.chmod(mode)
        if trusted:
            assert where() == parent / "cache"
        else:
            with pytest.raises(BackendError, match=r"chmod go-w .*parent"):
                where()


def test_folders_of_someone_else_are_refused(folder, monkeypatch):
    where()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(BackendError, match="another user"):
        where()
    with pytest.warns(RuntimeWarning, match="another user"):
        assert load(("k",)) is None


@pytest.mark.skipif(not ROOT, reason="only root gives files away")
def test_what_belongs_to_someone_else_is_refused(folder, tmp_path, monkeypatch):
    store(("k",), "label", b"data")
    assert load(("k",)) == b"data"
    (path,) = folder.iterdir()
    os.chown(path, 12345, -1)
    assert load(("k",)) is None
    os.chown(path, 0, -1)
    assert load(("k",)) == b"data"
    os.chown(tmp_path, 12345, -1)
    try:
        with pytest.raises(BackendError, match="belongs to another user"):
            where()
    finally:
        os.chown(tmp_path, 0, -1)
    link = tmp_path / "link"
    link.symlink_to(folder)
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(link))
    assert load(("k",)) == b"data"
    os.lchown(link, 12345, -1)
    with pytest.raises(BackendError, match="symbolic link of another user"):
        where()


def test_links_are_followed_and_loops_end(tmp_path, folder, monkeypatch):
    store(("k",), "label", b"data")
    (tmp_path / "there").symlink_to("./../" + tmp_path.name)
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "there" / "there" / "cache"))
    assert load(("k",)) == b"data"
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "loop" / "cache"))
    with pytest.raises(BackendError, match="symbolic links"):
        where()


def test_what_is_swapped_after_it_was_opened_is_not_used(folder, tmp_path):
    """The folder is known by its descriptor from its check on."""
    store(("k",), "label", b"ours")
    (name,) = names(folder)
    with opened() as held:
        folder.rename(tmp_path / "aside")
        folder.mkdir()
        (folder / name).write_bytes(b"planted")
        assert b"ours" in held.read(name)
        held.write("new.entry", b"x")
    assert names(folder) == [name]
    assert "new.entry" in names(tmp_path / "aside")


@pytest.mark.parametrize("plant", ["link", "pipe", "folder", "writable"])
def test_planted_files_are_not_read(folder, tmp_path, plant):
    store(("k",), "label", b"data")
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.unlink()
    if plant == "link":
        (tmp_path / "elsewhere").write_bytes(whole)
        path.symlink_to(tmp_path / "elsewhere")
    elif plant == "pipe":
        os.mkfifo(path)
    elif plant == "folder":
        path.mkdir()
    else:
        path.write_bytes(whole)
        path.chmod(0o666)
    assert load(("k",)) is None
    said = pytest.warns(RuntimeWarning, match="Is a directory") if plant == "folder" else \
        contextlib.nullcontext()
    with said:  # all else is written over
        assert artifact(("k",), "label", built("again")) == b"again"


# ---- a folder that is of no use ----


def useless(kind, tmp_path, monkeypatch, folder):
    """Make the cache folder one that nothing can be kept in."""
    if kind == "a file":
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "file" / "cache"))
    elif kind == "untrusted":
        folder.mkdir()
        folder.chmod(0o777)
    elif kind == "read-only":
        where()
        error = OSError(errno.EROFS, "Read-only file system")
        monkeypatch.setattr(Folder, "open_lock", raiser(error))
        monkeypatch.setattr(Folder, "write", raiser(error))
    else:
        where()
        monkeypatch.setattr(Folder, "write", raiser(OSError(errno.ENOSPC, "No space left")))


def raiser(error):
    def fail(*_):
        raise error

    return fail


@pytest.mark.parametrize("kind", ["a file", "untrusted", "read-only", "full"])
def test_the_cache_is_never_a_reason_to_fail(kind, folder, tmp_path, monkeypatch):
    """Everything is made anew, and said once."""
    useless(kind, tmp_path, monkeypatch, folder)

    def use(k):
        store((f"k{k}",), "label", b"data")
        assert load((f"k{k}",)) is None
        assert artifact((f"k{k}",), "label", built("made")) == b"made"

    with pytest.warns(RuntimeWarning, match="FUSEGEN_CACHE_DIR"):
        use(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        use(1)


def test_a_full_disk_leaves_no_part_of_a_file(folder):
    """Writes that the system cuts short, as it does where there is no room."""
    code = (
        "import resource, signal, warnings\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from fusegen.backend.cache.entries import load, store\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "warnings.simplefilter('ignore')\n"
        "store(('large',), 'label', bytes(1 << 20))\n"
        "store(('small',), 'label', b'x')\n"
        "assert load(('large',)) is None and load(('small',)) == b'x'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(names(folder)) == 1


# ---- entries ----


def test_bytes_survive():
    assert load(("a", b"b")) is None
    store(("a", b"b"), "label", b"payload")
    assert load(("a", b"b")) == b"payload"
    assert load(("a", "b", "c")) is None
    store(("a", b"b"), "two\nlines", b"")
    assert load(("a", b"b")) == b""


def test_parts_of_a_key_do_not_run_together():
    store(("ab", "c"), "label", b"1")
    assert load(("a", "bc")) is None
    assert load(("abc",)) is None
    assert load(("ab", "c", "")) is None


DAMAGE = [lambda b: b[:-1], lambda b: b"", lambda b: b[:60] + b"x" + b[61:], lambda b: b + b"x",
          lambda b: b"foreign", lambda b: b[:20],
          lambda b: b.replace(b"label", b"lable")]


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_damaged_is_absent_and_made_again(folder, damage):
    store(("key",), "label", b"a payload of some length")
    (path,) = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert load(("key",)) is None
    assert artifact(("key",), "label", built("again")) == b"again"
    assert load(("key",)) == b"again"


def test_an_entry_under_another_name_is_no_entry(folder, capsys):
    store(("one",), "label", b"1")
    (path,) = folder.iterdir()
    copy = folder / name_of(("two",))
    copy.write_bytes(path.read_bytes())
    copy.chmod(0o600)
    assert load(("two",)) is None
    assert main(["cache", "verify"]) == 1
    assert copy.name in capsys.readouterr().out
    assert artifact(("two",), "label", built("2")) == b"2"
    assert load(("one",)) == b"1"
    assert artifact(("two",), "label", built("3"), lambda d: d == b"3") == b"3"


def test_an_artifact_is_built_once(folder):
    log = []
    assert artifact(("k",), "label", built("one", log)) == b"one"
    assert artifact(("k",), "label", built("two", log)) == b"one"
    assert log == ["one"]
    assert len(names(folder)) == 1


def test_a_failed_build_leaves_nothing(folder):
    def build(_):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        artifact(("k",), "label", build)
    assert names(folder) == []
    assert artifact(("k",), "label", built("whole")) == b"whole"


def test_a_build_may_use_other_artifacts():
    inner = lambda _: artifact(("inner",), "label", built("in")) + b"out"  # noqa: E731
    assert artifact(("outer",), "label", inner) == b"inout"


# ---- many at once ----


def test_threads_wait_for_the_first():
    log, gate = [], threading.Barrier(8)

    def slowly(_):
        time.sleep(0.05)
        log.append(1)
        return b"x"

    def want(_):
        gate.wait()
        return artifact(("k",), "label", slowly)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(want, range(8))) == {b"x"}
    assert len(log) == 1


def _want(task):
    """One of many processes: are the bytes right, and how often did this process build them?"""
    log, key = [], f"key {task % 4}"
    data = artifact((key,), "label", built(key * 5000, log))
    store((key, "beside"), "label", data)
    return data == load((key, "beside")) == (key * 5000).encode(), len(log)


def test_processes_build_each_key_once(folder):
    where()
    with multiprocessing.get_context("fork").Pool(8) as pool:
        results = pool.map(_want, range(100), chunksize=1)
    assert all(sound for sound, _ in results)
    assert sum(count for _, count in results) == 4
    assert len(names(folder)) == 4 * 2


def test_who_hangs_with_a_lock_holds_nobody_up_for_long(monkeypatch):
    monkeypatch.setenv("FUSEGEN_COMPILE_SECONDS", "0.3")
    inside, leave = threading.Event(), threading.Event()

    def hang(_):
        inside.set()
        leave.wait(600)
        return b"late"

    hung = threading.Thread(target=lambda: artifact(("k",), "label", hang))
    hung.start()
    inside.wait()
    start = time.perf_counter()
    assert artifact(("k",), "label", built("own")) == b"own"
    assert time.perf_counter() - start > 0.2
    assert hung.is_alive()
    leave.set()
    hung.join()
    assert load(("k",)) == b"late"


def test_a_child_that_lives_on_keeps_no_lock(folder, monkeypatch, caplog):
    """Forked while the parent builds; the parent is killed, and others need not wait for long."""
    monkeypatch.setenv("FUSEGEN_COMPILE_SECONDS", "60")
    code = (
        "import os, sys, threading, time\n"
        "from fusegen.backend.cache.entries import artifact\n"
        "inside = threading.Event()\n"
        "def hang(_):\n"
        "    inside.set(); time.sleep(60)\n"
        "threading.Thread(target=lambda: artifact(('k',), 'label', hang), daemon=True).start()\n"
        "inside.wait()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.close(1); time.sleep(600); os._exit(0)\n"
        "print(pid, flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        child = int(run.stdout.readline())
        assert any(n.startswith(locks.LOCK) for n in names(folder))
        run.kill()
        run.wait()
        try:
            assert artifact(("k",), "label", built("own")) == b"own"
            assert "waited" not in caplog.text
        finally:
            os.kill(child, 9)


# ---- how much ----


def fill(count, n_bytes=10_000):
    for k in range(count):
        store((f"k{k}",), f"entry {k}", bytes(n_bytes))


def test_what_is_unused_for_longest_goes_first(folder, monkeypatch):
    fill(20)
    with opened() as held:
        for k, one in enumerate(sorted(held.files(), key=lambda f: f.used)):
            os.utime(folder / one.name, (k * 1e5, k * 1e5))
    kept = next(k for k in range(20) if load((f"k{k}",)))  # now it counts as used
    with opened() as held:
        gone = upkeep.prune(held, 100_000)
    left = sum(p.stat().st_size for p in folder.iterdir())
    assert 50_000 < left <= 75_000
    assert len(gone) + len(names(folder)) == 20
    assert load((f"k{kept}",)) is not None


def test_the_limit_holds_while_processes_write(folder, monkeypatch):
    monkeypatch.setenv("FUSEGEN_CACHE_MB", "0.2")
    fill(200)
    assert sum(p.stat().st_size for p in folder.iterdir()) < 220_000
    monkeypatch.setenv("FUSEGEN_CACHE_MB", "0")
    store(("none",), "label", b"x")
    assert load(("none",)) is None
    for wrong in ("much", "-1", "nan", "inf"):
        monkeypatch.setenv("FUSEGEN_CACHE_MB", wrong)
        with pytest.raises(ArgumentError, match=f"FUSEGEN_CACHE_MB={wrong}"):
            store(("k",), "label", b"x")


def test_leftovers_of_killed_writers_go(folder):
    store(("k",), "label", b"x")
    for name, age in ((".writing-1-a", 2 * 86400), (f"{locks.LOCK}b", 2 * 86400),
                      (".writing-2-c", 60), ("notes.txt", 9 * 86400)):
        (folder / name).write_text("")
        os.utime(folder / name, (time.time() - age,) * 2)
    with opened() as held:
        upkeep.prune(held, 1e9)
    assert {".writing-2-c", "notes.txt"} < set(names(folder))
    assert len(names(folder)) == 3


def test_the_command_lists_verifies_and_prunes(folder, capsys):
    fill(3)
    assert main(["cache", "list"]) == 0
    out = capsys.readouterr().out
    assert "entry 1" in out
    assert "3 entries" in out
    assert main(["cache", "verify"]) == 0
    assert "3 of 3 entries are sound" in capsys.readouterr().out
    damaged = sorted(folder.iterdir())[0]
    damaged.write_bytes(b"garbage")
    (folder / f"{'0' * 64}.pickle").write_bytes(b"of an earlier version")
    assert main(["cache", "verify"]) == 1
    out = capsys.readouterr().out
    assert damaged.name in out
    assert "2 of 4" in out
    assert main(["cache", "prune"]) == 0
    assert "2 files removed" in capsys.readouterr().out
    assert len(names(folder)) == 2
    assert main(["cache", "prune", "--all"]) == 0
    assert names(folder) == []
    folder.chmod(0o777)
    assert main(["cache", "list"]) == 2
    assert "chmod 700" in capsys.readouterr().err


def test_warnings_point_at_the_caller(folder):
    folder.mkdir()
    folder.chmod(0o777)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        load(("k",))
        notices.warn_once.cache_clear()
        store(("k",), "label", b"from a thread of its own")
        notices.warn_once.cache_clear()
        # below an __init__ that dataclasses wrote
        fg.pipeline(lambda x: fg.sum(x) * 1.625).compile([[1.0]], target="numpy")
    assert [s.filename for s in said] == [__file__] * 3


# ---- fusegen's own files ----


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Files of a version, written a while ago."""
    for name, text in (("fusegen/a.py", "a = 1"), ("fusegen/b/c.py", "c = 2"),
                       ("templates/d.hpp", "int d;")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(own_files, "package_root", lambda: tmp_path / "fusegen")
    monkeypatch.setattr(own_files, "template_root", lambda: tmp_path / "templates")
    monkeypatch.setattr(results, "_SETTLED", -1.0)
    read = []
    monkeypatch.setattr(results, "sources_digest",
                        lambda: read.append(1) or own_files.sources_digest.__wrapped__())
    ask = results._sources.__wrapped__
    return tmp_path, ask, read


def test_sources_that_lie_as_they_lay_are_not_read_again(own):
    _, ask, read = own
    assert ask() == ask() == own_files.sources_digest.__wrapped__()
    assert len(read) == 1


@pytest.mark.parametrize("name", ["fusegen/a.py", "fusegen/b/c.py", "templates/d.hpp"])
def test_sources_that_were_written_are_read_again(own, name):
    """Also where size and times are those of before: the system notes when a file was changed."""
    root, ask, read = own
    before, path = ask(), root / name
    seen = path.stat()
    while path.stat().st_ctime_ns == seen.st_ctime_ns:  # until a tick of its clock
        path.write_text("x" * seen.st_size)
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert path.stat().st_mtime_ns == seen.st_mtime_ns
    assert ask() != before
    assert len(read) == 2


def test_sources_just_written_are_read_every_time(own, monkeypatch):
    _, ask, read = own
    monkeypatch.setattr(results, "_SETTLED", 1e9)
    assert ask() == ask()
    assert len(read) == 2
