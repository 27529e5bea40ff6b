"""tune=True on a machine with fake GPUs: what is measured, chosen, kept, and refused."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np
import pytest
from support import fake_cupy, fake_gpu, fake_torch
from support.emulated import EMULATED
from support.fake_cupy import array

import fusegen as fg
from fusegen.backend.cuda.schedule.homes import Shared
from fusegen.compile import tuning
from fusegen.ir.errors import ArgumentError, BackendError

pytestmark = EMULATED


@pytest.fixture
def gpu(gpu: fake_gpu.Gpu, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> fake_gpu.Gpu:
    """With a cache of its own, and few launches of each schedule."""
    monkeypatch.setattr(tuning, "_TIMES", 3)
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "cache"))
    return gpu


def fresh(name: str = "softmax") -> fg.Pipeline:
    return fg.Pipeline(getattr(fg.library, name).fn)


def rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def favour(gpu: fake_gpu.Gpu, home: str) -> None:
    """Launches whose source says so take a tenth of the time."""
    gpu.takes = lambda seen: 1e-7 if f"row per block in {home}" in seen["source"] else 1e-6


def same(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.get().astype(float), want, rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [array, fake_torch.tensor])
def test_the_fastest_is_taken_and_used_for_its_shape(gpu, kind):
    p, x = fresh(), rows(6, 2400)
    usual = p.compile(kind(x)).schedule
    favour(gpu, "shared memory")
    compiled = p.compile(kind(x), tune=True)
    found = compiled.tuned
    assert found is not None
    assert found.device == "Fake 2"
    assert compiled.schedule == found.schedule != usual
    assert isinstance(found.schedule.home, Shared)
    times = [round(t.seconds, 12) for t in found.timings]
    assert times == sorted(times)
    assert usual in [t.schedule for t in found.timings]
    gpu.launched.clear()
    same(compiled(kind(x)), p.reference(x))
    assert gpu.launched[-1]["threads"] == found.schedule.threads
    assert "row per block in shared memory" in gpu.launched[-1]["source"]
    same(compiled(kind(x[:4])), p.reference(x[:4]))  # by price, as everywhere
    same(p(kind(x)), p.reference(x))
    assert gpu.launched[-1]["threads"] == usual.threads


@pytest.mark.long
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_numbers_of_the_call_reach_every_contestant(gpu, name):
    x = rows(6, 2400)
    weights = [rows(2400)] * (2 if name == "layer_norm" else 1)
    p = fresh(name)
    compiled = p.compile(*map(array, (x, *weights)), eps=0.5, tune=True)
    assert len([t for t in compiled.tuned.timings if t.seconds is not None]) > 2
    for eps in (0.5, 1e-5):
        got = p(*map(array, (x, *weights)), eps=eps).get()
        np.testing.assert_allclose(got, p.reference(x, *weights, eps=eps), rtol=3e-6, atol=3e-6)


@pytest.mark.long
def test_what_was_measured_is_kept_for_later_processes(gpu):
    x = array(rows(6, 2400))
    favour(gpu, "shared memory")
    first = fresh().compile(x, tune=True)
    gpu.launched.clear()
    favour(gpu, "registers")
    again = fresh().compile(x, tune=True)
    assert not gpu.launched
    assert again.tuned == first.tuned
    for other in (array(rows(7, 2400)), array(rows(6, 2404)), array(rows(6, 2400).astype("f8")),
                  array(rows(6, 2400), shift=1)):
        gpu.launched.clear()
        fresh().compile(other, tune=True)
        assert gpu.launched


def test_another_device_is_measured_anew(gpu, monkeypatch):
    x = array(rows(6, 2400))
    fresh().compile(x, tune=True)
    monkeypatch.setattr(fake_cupy, "NAME", b"Fake 3")
    fake_cupy.device._target.cache_clear()
    gpu.launched.clear()
    assert fresh().compile(x, tune=True).tuned.device == "Fake 3"
    assert gpu.launched


def test_near_ties_stay_with_the_choice_by_price(gpu):
    x = array(rows(6, 2400))
    usual = fresh().compile(x).schedule
    gpu.takes = lambda seen: 1e-6 if seen["threads"] == usual.threads else 0.995e-6
    assert fresh().compile(x, tune=True).schedule == usual


def test_what_ran_before_does_not_decide() -> None:
    """A launch behind a slow one takes twice as long, as where clocks fell meanwhile."""
    alone = {"first": 1.0, "second": 1.2, "third": 1.3, "slow": 400.0}
    last = [0.0]

    class Watch:
        def cold(self, launch: Any) -> float:
            seconds, before = launch(), last[0]
            last[0] = seconds
            return seconds * (2.0 if before > 100 else 1.0)

        def launcher(self, run: Any, trial: Any) -> Any: ...

        def poison(self, trial: Any) -> None: ...

    runs = {name: (lambda n=name: alone[n]) for name in alone}
    times = tuning._times(runs, Watch())
    assert {n: times[n] for n in ("first", "second")} == {"first": 1.0, "second": 1.2}


def test_every_launch_finds_a_cold_cache(gpu):
    x = array(rows(6, 2400))
    gpu.zeroed.clear()
    fresh().compile(x, tune=True)
    flushes = [z for z in gpu.zeroed if z[1] == 4 * fake_gpu.L2_BYTES]
    timed = len(flushes)
    assert len({z[0] for z in flushes}) == 1
    assert timed % (tuning._WARM + 3) == 0
    assert len(gpu.launched) == timed + timed // (tuning._WARM + 3)  # and once to compare


def test_what_the_host_queued_late_is_timed_again(gpu):
    x = array(rows(6, 2400))
    gpu.zeroed.clear()
    gpu.late = 2
    fresh().compile(x, tune=True)
    flushes = [z for z in gpu.zeroed if z[1] == 4 * fake_gpu.L2_BYTES]
    assert len(flushes) % (tuning._WARM + 3) == 2


def test_what_disagrees_is_left_out(gpu, monkeypatch):
    x = array(rows(6, 2400))
    favour(gpu, "shared memory")
    launch = gpu._run

    def wrong(seen: Any) -> None:
        launch(seen)
        if "row per block in shared memory" in seen["source"]:
            out = gpu._array(seen["words"][1], seen["module"]._parameters[seen["symbol"]][1], 0)
            out[0, 17] += 0.1  # of its two rows the one that begins at the pointer

    monkeypatch.setattr(gpu, "_run", wrong)
    found = fresh().compile(x, tune=True).tuned
    assert found is not None
    assert not isinstance(found.schedule.home, Shared)
    out = [t for t in found.timings if t.seconds is None]
    assert out
    assert all(isinstance(t.schedule.home, Shared) for t in out)
    assert all("differs" in t.note for t in out)


def test_what_the_device_refuses_is_left_out(gpu, monkeypatch):
    x = array(rows(6, 2400))
    made = tuning._executable
    usual = fresh().compile(x).schedule

    def refused(work: Any, schedule: Any) -> Any:
        if schedule != usual:
            raise BackendError("no room")
        return made(work, schedule)

    monkeypatch.setattr(tuning, "_executable", refused)
    found = fresh().compile(x, tune=True).tuned
    assert found is not None
    assert found.schedule == usual
    assert {t.note for t in found.timings[1:]} == {"no room"}
    monkeypatch.setattr(tuning, "_executable", lambda *_: refused(None, None))
    with pytest.raises(BackendError, match="no room"):
        fresh().compile(array(rows(5, 2400)), tune=True)


def test_not_during_a_capture(gpu):
    x = array(rows(6, 2400))
    with gpu.on_stream(0x51), gpu.capture(0x51), pytest.raises(BackendError, match="tune=True"):
        fresh().compile(x, tune=True)
    compiled = fresh().compile(x, tune=True)
    with gpu.on_stream(0x51), gpu.capture(0x51) as graph:
        compiled(x)
    assert len(graph) == 1


@pytest.mark.parametrize(("given", "why"), [(rows(3, 40), "are on (the CPU|cpu)"),
                                            (fg.Spec((3, 40)), "x is a Spec")])
def test_only_on_arrays_that_live_on_a_gpu(gpu, given, why):
    for target in (None, "sm_90"):
        with pytest.raises(ArgumentError, match=why):
            fresh().compile(given, tune=True, target=target)
    with pytest.raises(ArgumentError, match="compiled for"):
        fresh().compile(array(rows(3, 40)), tune=True, target="cpu")
    with pytest.raises(ArgumentError, match="compiled for sm_100, the device is sm_90"):
        fresh().compile(array(rows(3, 40)), tune=True, target="sm_100")


def test_arguments_that_make_no_sense(gpu):
    x = array(rows(3, 40))
    with pytest.raises(ArgumentError, match="exclude"):
        fresh().compile(x, tune=True, deterministic=True)
    with pytest.raises(ArgumentError, match="True or False"):
        fresh().compile(x, tune="yes")
    with pytest.raises(ArgumentError, match="argument of compile"):
        fresh()(x, tune=True)


def test_threads_that_ask_at_once_measure_once(gpu):
    x = array(rows(6, 2400))
    fresh().compile(x, tune=True)
    once = len(gpu.launched)
    y = array(rows(5, 2400))
    found: list[Any] = []

    def work() -> None:
        gpu.current = 0
        found.append(fresh().compile(y, tune=True).tuned)

    gpu.launched.clear()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found[0] is not None
    assert all(f == found[0] for f in found)
    assert len(found) == 4
    assert len(gpu.launched) <= once + 4


def test_no_rows_are_nothing_to_measure(gpu):
    compiled = fresh().compile(array(rows(0, 40)), tune=True)
    assert compiled.tuned is None
    assert compiled(array(rows(0, 40))).shape == (0, 40)


def test_the_command_line_measures_before_it_runs(gpu, monkeypatch, capsys):
    from fusegen.backend.cuda import run as cuda
    from fusegen.cli import main

    monkeypatch.setattr(cuda, "to_device", lambda a, dtype: array(a))
    monkeypatch.setattr(cuda, "synchronize", lambda: None)
    favour(gpu, "shared memory")
    line = ["run", "softmax", "--rows", "6", "--cols", "2400", "--repeat", "1"]
    shared = []
    for more in ([], ["--tune"], ["--tune"]):
        gpu.launched.clear()
        assert main([*line, *more]) == 0
        shared.append((sum("row per block in shared" in n["source"] for n in gpu.launched),
                       len(gpu.launched)))
    assert shared[0][0] == 0
    assert shared[1][0] > 0
    assert 0 < shared[2][0] < shared[1][0]  # the second time it is known
    assert "µs" in capsys.readouterr().out


@pytest.mark.long
def test_lists_of_short_rows_have_several_schedules(gpu):
    compiled = fresh("topk").compile(array(rows(3, 400)), tune=True, k=3)
    assert compiled.tuned is not None
    assert len({t.schedule.lists for t in compiled.tuned.timings}) > 1


def test_differences() -> None:
    from fusegen.ir.dtypes import FLOAT32, INT64

    one = np.array([1.0, -2.0, np.nan, np.inf, 0.0], np.float32)
    assert tuning._largest(one, one, FLOAT32) == 0.0
    assert tuning._largest(one * np.float32(1 + 1e-6), one, FLOAT32) < 0.1
    for i, wrong in enumerate((1.001, -2.01, 0.0, -np.inf, np.nan)):
        other = one.copy()
        other[i] = wrong
        assert tuning._largest(other, one, FLOAT32) > 1.0
    whole = np.array([3, 4])
    assert tuning._largest(whole, whole, INT64) == 0.0
    assert tuning._largest(whole + 1, whole, INT64) > 1.0
    zeros = np.zeros(3, np.float32)
    assert tuning._largest(zeros, zeros, FLOAT32) == 0.0
    assert tuning._largest(zeros + 1, zeros, FLOAT32) > 1.0


def test_notable_has_the_best_of_each_kind() -> None:
    from fusegen.backend.cuda.schedule.select import candidates

    work = fresh().work(target="sm_90", n_rows=4000, n_cols=25_000)
    found = candidates(work.result("lower"), work.problem, work.target)  # type: ignore[arg-type]
    shown = tuning.notable(found, 2)
    assert shown[:2] == found[:2]
    kinds = {c.schedule.kind for c in found}
    assert {c.schedule.kind for c in shown} == kinds
    assert list(shown) == sorted(shown, key=found.index)
    assert dataclasses.is_dataclass(shown[0])
