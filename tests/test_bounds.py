"""What a process remembers stays small, and what it loaded is closed when nobody uses it."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import fusegen as fg
from fusegen.backend.cpu import loaded
from fusegen.backend.cpu.loaded import library
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.ir.shared import Recent

X = np.linspace(0.5, 1.5, 120, dtype="f4").reshape(3, 40)


def scaled(monkeypatch, most):
    """A pipeline of one constant that remembers few values of it."""
    monkeypatch.setattr(sys.modules["fusegen.pipeline.traces"], "MOST", most)

    @fg.pipeline
    def scaled_sum(x, *, by=1.0):
        return fg.sum(x * by)

    return scaled_sum


def test_a_table_keeps_what_was_asked_for_last():
    table: Recent[int, int] = Recent(3)
    for k in range(3):
        table.put(k, -k)
    assert table.get(0) == 0
    table.put(3, -3)
    assert [table.get(k) for k in range(4)] == [0, None, -2, -3]
    assert len(table) == 3
    table.pop(0)
    assert table.get(0) is None


def test_a_table_is_for_many_threads():
    table: Recent[int, int] = Recent(5)
    failed = []

    def work(seed):
        try:
            for k in range(3000):
                key = (k * seed) % 11
                found = table.get(key)
                assert found is None or found == key
                table.put(key, key)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(s,)) for s in (1, 3, 7, 9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    assert len(table) <= 5


def test_constants_do_not_pile_up(monkeypatch):
    """40 values, of which four are remembered; each is right, also once it was put out."""
    p = scaled(monkeypatch, 4)
    for by in [*range(1, 41), 1, 2]:
        found = p.compile(X, by=float(by), target="numpy")(X)
        np.testing.assert_allclose(found, by * X.sum(1), rtol=1e-5)
    assert len(p.traces.variants) <= 4
    assert len(p.traces.graphs) <= 4


def test_proofs_of_gradients_come_back(monkeypatch):
    for module in ("fusegen.pipeline.traces", "fusegen.library.grad"):
        monkeypatch.setattr(import_module(module), "MOST", 2)

    @fg.pipeline
    def tempered(x, *, t=1.0):
        return fg.logsumexp(x * t)

    backward = fg.grad(tempered, t=1.0)
    first = [o.status for o in backward.proofs(t=1.0)]
    for t in (2.0, 3.0, 4.0):
        backward.graph(t=t)
    assert [o.status for o in backward.proofs(t=1.0)] == first


def compiled(folder, name):
    """A library whose one function returns 7; more bytes behind it make it another one."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C++ compiler")
    source, made = folder / "one.cpp", folder / "one.so"
    source.write_text(f'extern "C" int {name}() {{ return 7; }}\n')
    subprocess.run([*compiler.words, "-shared", "-fPIC", "-o", str(made), str(source)], check=True)
    return made.read_bytes()


@pytest.fixture(scope="module")
def bytes_of(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("library"), "number")


def mapped():
    return sum("memfd:fusegen" in line for line in Path("/proc/self/maps").read_text().splitlines())


def number(held):
    return held.function("number", result=ctypes.c_int)()


def test_libraries_are_closed_and_loaded_once(bytes_of):
    gc.collect()
    before = mapped()
    for k in range(200):
        assert number(library(bytes_of + bytes([k]), "one")) == 7
        assert mapped() <= before + 10
    assert mapped() == before
    first, again = library(bytes_of, "one"), library(bytes(bytes_of), "one")
    assert first is again
    assert mapped() > before
    del first, again
    assert mapped() == before


def test_libraries_never_take_one_anothers_place(bytes_of, tmp_path):
    """Though descriptors come again."""
    other = compiled(tmp_path, "reward")
    for k in range(30):
        one = library(bytes_of + bytes([k]), "one")
        two = library(other + bytes([k]), "two")
        assert one.function("reward") is None
        assert two.function("number") is None
        assert two.function("reward", result=ctypes.c_int)() == number(one) == 7


def test_where_files_in_memory_are_forbidden(bytes_of, monkeypatch):
    def forbidden(*_):
        raise PermissionError

    monkeypatch.setattr(loaded.os, "memfd_create", forbidden)
    assert number(library(bytes_of + b"file", "one")) == 7
    with pytest.raises(OSError, match="kernel"):
        library(b"garbage", "garbage")


def test_a_pipeline_of_many_constants_closes_its_libraries(monkeypatch, bytes_of):
    """Compiled for real: four values, two remembered; the others' code is gone, and comes back."""
    p = scaled(monkeypatch, 2)
    gc.collect()
    before = len(loaded._LIBRARIES)
    for by in (2.0, 3.0, 4.0, 5.0, 2.0):
        np.testing.assert_allclose(p(X, by=by), by * X.sum(1), rtol=1e-5)
        gc.collect()
        assert len(loaded._LIBRARIES) - before <= 2
