"""What a backend is: an object of the registry. A toy one, with arrays of its own, shows it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import fusegen as fg
from fusegen.backend import registry
from fusegen.backend.backend import Backend
from fusegen.backend.emit.source import Source
from fusegen.backend.memory import Adopted, Memory
from fusegen.backend.numpy import NUMPY
from fusegen.ir.dtypes import dtype_of
from fusegen.oracle.replay import RowReplay


class Wax:
    """An array of the toy's: nobody but its memory knows how to read it."""

    def __init__(self, pressed: np.ndarray) -> None:
        self.pressed = pressed


@dataclass(frozen=True)
class WaxMemory:
    name: str = "wax"
    single: bool = True

    def place(self, index: int) -> str:
        return self.name

    def takes(self, given: Any) -> bool:
        return isinstance(given, Wax)

    def adopt(self, name: str, given: Wax) -> Adopted:
        return Adopted(given.pressed, dtype_of(given.pressed.dtype), self, "foreign", given)

    def working(self, like: Adopted) -> Any:
        return contextlib.nullcontext()

    def maker(self, shape: Any, dtype: Any, like: Adopted, order: Any) -> Any:
        return lambda: np.full(shape, 77).astype(dtype.numpy)

    def view(self, own: Any) -> Any:
        return own

    def handed_back(self, shaped: Any, own: Any, dtype: Any, like: Adopted) -> Wax:
        return Wax(shaped)

    def to_host(self, array: Any, dtype: Any) -> Any:
        return array

    def from_host(self, array: Any, dtype: Any) -> Any:
        return Wax(array)

    def synchronize(self) -> None:
        pass

    def seconds(self, call: Any, repetitions: int) -> list[float]:
        return [1.0] * repetitions

    def reader(self, like: Adopted) -> None:
        return None


@dataclass(frozen=True)
class ToyTarget:
    name: str = "toy"
    backend: str = "toy"
    elsewhere: str = "toy"


@dataclass(frozen=True)
class ToySchedule:
    target: ToyTarget
    half: int  # columns of the first of two chunks
    algorithm: str = "two chunks, merged once"
    grouping: str = "rows"
    stored: str = ""
    crowded: bool = False

    def describe(self) -> str:
        return f"{self.half} columns, then the rest"


class ToyExecutable:
    """Kernel IR, walked: each row in two chunks that are merged."""

    def __init__(self, job: Any) -> None:
        self.program, self.schedule = job.program, job.schedule

    def __call__(self, arrays: Any, n_rows: int, n_cols: int, **options: Any) -> None:
        (kernel,) = self.program.kernels
        inputs = [p for p in kernel.params if not p.output]
        half = min(self.schedule.half, n_cols)
        for r in range(n_rows):
            row = {p.name: arrays[p.name][r] if p.shape in ("element", "row") else arrays[p.name]
                   for p in inputs}
            found = RowReplay(kernel, row, n_cols).run(lambda folder, n: folder.merge(
                folder.fold(range(half)), folder.fold(range(half, n))))
            for name, value in found.items():
                arrays[name][r] = value


@dataclass(frozen=True)
class Toy:
    name: str = "toy"
    title: str = "a toy"
    memory: Memory = WaxMemory()
    targets: tuple[str, ...] = ("toy",)
    hindered: str = ""
    instead: Backend | None = None
    loaded: list[Any] = field(default_factory=list, compare=False)

    def target(self, name: str) -> ToyTarget | None:
        return ToyTarget() if name == "toy" else None

    def here(self) -> ToyTarget:
        return ToyTarget()

    def placed(self, wanted: ToyTarget) -> ToyTarget:
        return wanted

    def device(self, target: ToyTarget) -> str:
        return "a shelf"

    def hindrance(self, target: ToyTarget, *, failed: bool = False) -> str:
        return self.hindered

    def takes_side_by_side(self, program: Any) -> bool:
        return False

    def select(self, program: Any, problem: Any, target: Any, chunk: int | None) -> ToySchedule:
        return ToySchedule(target, chunk or 3)

    def candidates(self, *_: Any) -> tuple[Any, ...]:
        return ()

    def considered_for(self, target: ToyTarget) -> str:
        return "nothing"

    def emit(self, program: Any, schedule: ToySchedule) -> Source:
        return Source(f"{program.name}: {schedule.describe()}\n")

    def load(self, job: Any) -> ToyExecutable:
        self.loaded.append(job.source)
        return ToyExecutable(job)

    def stopwatch(self) -> Any:
        raise fg.ArgumentError("there is nothing to choose from")

    def findings(self) -> Any:
        return iter(())


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    found = Toy()
    monkeypatch.setattr(registry, "BACKENDS", (found, *registry.BACKENDS))
    return found


X = np.random.default_rng(3).normal(0, 3, (4, 11)).astype("f4")


@pytest.mark.parametrize("name", ["softmax", "var_mean", "softmax_topk", "argmax", "rms_norm"])
def test_a_toy_backend_runs_pipelines_through_the_public_call(toy: Toy, name: str) -> None:
    p = fg.Pipeline(getattr(fg.library, name).fn)
    got, want = p(Wax(X)), p.reference(X)
    for g, w in zip(*[v if isinstance(v, tuple) else (v,) for v in (got, want)], strict=True):
        assert isinstance(g, Wax)
        np.testing.assert_allclose(g.pressed, w, rtol=2e-6)
    assert toy.loaded == [f"{p.name}: 3 columns, then the rest\n"]


def test_devices_targets_and_pages_come_from_the_registry(toy: Toy) -> None:
    p = fg.Pipeline(fg.library.softmax.fn)
    assert isinstance(p(Wax(X), device="wax"), Wax)
    with pytest.raises(fg.ArgumentError, match="the arrays live on wax"):
        p(Wax(X), device="cpu")
    with pytest.raises(fg.ArgumentError, match="auto, cpu, cuda, wax"):
        p(Wax(X), device="clay")
    with pytest.raises(fg.ArgumentError, match="unknown target"):
        p.source("clay")
    assert p.source("toy") == "softmax: 3 columns, then the rest\n"
    page = p.explain(target="toy")
    assert "for toy" in page.title
    assert ("Schedule", ["3 columns, then the rest"]) in list(page.sections())
    assert "two chunks" in p.plan(target="toy").algorithm
    compiled = p.compile(Wax(X), chunk=5)
    assert compiled.schedule == ToySchedule(ToyTarget(), 5)
    np.testing.assert_allclose(compiled(Wax(X)).pressed, p.reference(X), rtol=2e-6)
    with pytest.raises(fg.ArgumentError, match="compiled for toy, the arrays are on cpu"):
        compiled(X)
    with pytest.raises(fg.ArgumentError, match="nothing to choose from"):
        p.compile(Wax(X), tune=True)


def test_what_is_hindered_has_another_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Toy(hindered="no hammer", instead=NUMPY)
    monkeypatch.setattr(registry, "BACKENDS", (found, *registry.BACKENDS))
    p = fg.Pipeline(fg.library.softmax.fn)
    with pytest.warns(RuntimeWarning, match=r"runs on NumPy.*no hammer"):
        np.testing.assert_allclose(p(Wax(X)).pressed, p.reference(X), rtol=2e-6)
    assert not found.loaded


def test_the_numpy_path_is_a_backend_like_any_other() -> None:
    p = fg.library.softmax
    compiled = p.compile(X, target="numpy")
    np.testing.assert_allclose(compiled(X), p.reference(X), rtol=2e-6)
    assert compiled.schedule.describe().startswith("the text as written")
    for ask in (lambda: compiled.source, lambda: p.source("numpy")):
        with pytest.raises(fg.BackendError, match="has no source"):
            ask()
