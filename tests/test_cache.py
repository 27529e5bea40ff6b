"""The cache folder: who may use it, what survives, and many processes at once."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fusegen.errors import BackendError
from fusegen.runtime.cache import artifact, cache_dir, load_bytes, store_bytes


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def names(folder):
    return sorted(p.name for p in folder.iterdir())


# ---- the folder ----


def test_it_is_made_for_its_owner_alone(folder):
    assert cache_dir() == folder
    assert folder.stat().st_mode & 0o777 == 0o700


def test_where_it_is(tmp_path, monkeypatch):
    monkeypatch.delenv("FUSEGEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_dir() == tmp_path / "home" / ".cache" / "fusegen"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "fusegen"
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_can_write_is_refused(folder, mode):
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(BackendError, match="chmod 700"):
        cache_dir()


def test_a_folder_of_someone_else_is_refused(folder, monkeypatch):
    cache_dir()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(BackendError, match="another user"):
        cache_dir()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(BackendError, match="FUSEGEN_CACHE_DIR"):
        cache_dir()


# ---- bytes ----


def test_bytes_survive(folder):
    assert load_bytes(("a", b"b"), ".bin") is None
    store_bytes(("a", b"b"), ".bin", b"payload")
    assert load_bytes(("a", b"b"), ".bin") == b"payload"
    assert load_bytes(("a", b"b"), ".txt") is None
    store_bytes(("a", b"b"), ".bin", b"")
    assert load_bytes(("a", b"b"), ".bin") == b""


def test_parts_of_a_key_do_not_run_together(folder):
    store_bytes(("ab", "c"), ".bin", b"1")
    assert load_bytes(("a", "bc"), ".bin") is None
    assert load_bytes(("abc",), ".bin") is None
    assert load_bytes(("ab", "c", ""), ".bin") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[:-1],
        lambda b: b"",
        lambda b: b[:40] + b"x" + b[41:],
        lambda b: b + b"x",
        lambda b: b"foreign",
    ],
)
def test_damaged_bytes_are_absent(folder, damage):
    store_bytes(("key",), ".bin", b"a payload of some length")
    (path,) = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert load_bytes(("key",), ".bin") is None
    store_bytes(("key",), ".bin", b"again")
    assert load_bytes(("key",), ".bin") == b"again"


# ---- artifacts ----


def write(text, log=None):
    def build(path):
        if log is not None:
            log.append(text)
        path.write_text(text)

    return build


def test_an_artifact_is_built_once(folder):
    log = []
    first = artifact(("k",), ".so", write("one", log))
    assert first.read_text() == "one"
    assert artifact(("k",), ".so", write("two", log)) == first
    assert log == ["one"]
    assert names(folder) == [first.name, f"{first.name}.sha256"]


@pytest.mark.parametrize("damage", [b"on", b"", b"two"])
def test_a_damaged_artifact_is_built_again(folder, damage):
    path = artifact(("k",), ".so", write("one"))
    path.write_bytes(damage)
    assert artifact(("k",), ".so", write("new")).read_text() == "new"


def test_an_artifact_without_its_checksum_is_built_again(folder):
    path = artifact(("k",), ".so", write("one"))
    Path(f"{path}.sha256").unlink()
    assert artifact(("k",), ".so", write("new")).read_text() == "new"


def test_a_failed_build_leaves_nothing(folder):
    def build(path):
        path.write_text("half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        artifact(("k",), ".so", build)
    assert names(folder) == []
    assert artifact(("k",), ".so", write("whole")).read_text() == "whole"


def test_a_build_may_use_other_artifacts(folder):
    def build(path):
        path.write_text(artifact(("inner",), ".so", write("in")).read_text() + "out")

    assert artifact(("outer",), ".so", build).read_text() == "inout"


def test_threads_wait_for_the_first(folder):
    log = []
    gate = threading.Barrier(8)

    def want(i):
        gate.wait()
        return artifact(("k",), ".so", write("x" * 1000, log)).read_text()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(want, range(8))) == {"x" * 1000}
    assert len(log) == 1


def _want(task):
    """One of many processes: the built file's text, and whether this process built it."""
    log = []
    key = f"key {task % 4}"
    text = artifact((key,), ".so", write(key * 5000, log)).read_text()
    store_bytes((key,), ".bin", text.encode())
    return text == key * 5000, load_bytes((key,), ".bin") == text.encode(), len(log)


def test_processes_build_each_key_once(folder):
    cache_dir()
    with multiprocessing.get_context("fork").Pool(8) as pool:
        results = pool.map(_want, range(200), chunksize=1)
    assert all(sound and stored for sound, stored, _ in results)
    assert sum(built for _, _, built in results) == 4
    assert len(names(folder)) == 4 * 3
