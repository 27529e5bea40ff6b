"""The same text has the same answer: on busy machines, in any order, in every process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support import own_cases as own
from sympy.core.cache import clear_cache

import fusegen as fg
from fusegen.algebra.limits import within
from fusegen.algebra.own import proof, refute
from fusegen.algebra.own.laws import Laws

LAWS = ("associative", "identity", "commutative")
CASES = ("both", "depth", "longest_run", "log_add_exp")

ASKED = """
import sys, time
slower, order, *folders = sys.argv[1:]
sys.path += folders
def slow(clock):
    return lambda *of: float(slower) * clock(*of)
for name in ("clock_gettime", "monotonic", "perf_counter", "process_time", "thread_time", "time"):
    setattr(time, name, slow(getattr(time, name)))
import test_same_answer as asked
asked.proof._STEPS = 1_000
for name in asked.CASES[:: int(order)]:
    print(*asked.answers(name), sep="\\n")
print(asked.derived())
print(*asked.sources())
"""


def monoid(name):
    if name == "both":
        return fg.product(own.welford, own.max_count, name="both")
    every = {**own.PROVED, **own.REFUTED, "longest_run": own.longest_run}
    return every[name]


def answers(name):
    """All that is found, but for how long it took."""
    laws = Laws(monoid(name).operator)
    for found in map(laws.finding, LAWS):
        shown = found.counterexample.text if found.counterexample else None
        yield name, found.law, found.proved, found.tried, found.statement, shown


def derived():
    """Statements and their status for what fusegen merges by itself."""
    found = fg.library.softmax_topk.derivation()
    return [(o.name, o.statement, o.status) for e in found for o in getattr(e, "obligations", ())]


def sources():
    """Digests of the programs of a gradient over vectors: another order of its arrays would be
    another program, to be compiled again."""
    numbers = {"scale": 0.125, "causal": True}
    stages = fg.grad(fg.library.attention, wrt=("q", "k", "v"), **numbers).stages(**numbers)
    for stage in stages:
        own = {n: numbers[n] for n in stage.signature.constants if n in numbers}
        yield hashlib.sha256(stage.source(target="cpu", **own).encode()).hexdigest()


def in_another_process(hash_seed, slower, order):
    folders = [str(Path(__file__).parent), *filter(None, sys.path)]
    run = subprocess.run([sys.executable, "-c", ASKED, str(slower), str(order), *folders],
                         env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
                         capture_output=True, text=True, check=True)
    return sorted(run.stdout.splitlines())


@pytest.mark.long
def test_clocks_hashes_and_order_change_no_answer():
    """A thousand times slower is slower than any machine; sympy's own random numbers and the hashes
    of its symbols differ between processes anyhow."""
    first = in_another_process(hash_seed=0, slower=1, order=1)
    assert len(first) == len(CASES) * len(LAWS) + 2
    assert any("stopped after" in line for line in first)  # where a bound decides
    assert in_another_process(hash_seed=1, slower=1000, order=-1) == first


@pytest.mark.long
@pytest.mark.parametrize("steps", [500, 2000])
def test_a_proof_stops_at_the_same_case(steps, monkeypatch):
    """Whatever sympy remembers."""
    monkeypatch.setattr(proof, "_STEPS", steps)
    clear_cache()
    cold = list(answers("both"))
    assert "stopped after" in str(cold)
    assert list(answers("both")) == cold


def test_a_search_stops_at_the_same_example():
    first, second = (refute.Search(monoid("welford").operator, 1000) for _ in range(2))
    for search in (first, second):
        assert search.counterexample("associative") is None
        assert 1000 < search.computed < 2000
    assert first.tried == second.tried


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="no clock of a thread")
def test_limits_count_the_work_of_their_thread_alone():
    assert within(0.05, lambda: time.sleep(0.2) or "done", "late") == "done"

    def hang():
        time.sleep(0.1)  # the watchdog looks, and waits again
        while True:
            pass

    assert within(0.05, hang, "late") == "late"
    others = [threading.Thread(target=lambda: sum(range(2_000_000))) for _ in range(4)]
    for thread in others:
        thread.start()
    assert within(0.2, lambda: [t.join() for t in others] and "done", "late") == "done"
