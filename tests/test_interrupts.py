"""Exceptions that signal handlers raise in the middle of calls: nothing runs on afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from support.cases import TARGETS
from support.forked import child

import fusegen as fg
from fusegen.backend import numpy as numpy_path
from fusegen.backend.host import threads
from fusegen.backend.host.threads import aside, share
from fusegen.ir.errors import BackendError

pytestmark = pytest.mark.usefixtures("served_by")


class Alarm(Exception):
    """What the handler raises."""


@contextmanager
def alarms(seconds):
    """A handler that raises, now and then, at any operation of the main thread but those that stop
    it: an alarm that outlived its block would hit whatever comes next, the test run itself at last.
    Where the operation is one of a finalizer's, Python drops the exception; pytest is not told,
    which would be hit itself."""
    own = sys._getframe()
    caller = own.f_back.f_back  # behind contextlib's frame
    looking = False  # alarms may come faster than they are looked at

    def stopping(frame):
        while frame is not None and frame is not own:
            if frame.f_back is caller:
                return frame.f_globals is vars(contextlib)
            frame = frame.f_back
        return frame is own

    def ring(_, frame):
        nonlocal looking
        if not looking:
            looking = True
            spared = stopping(frame)
            looking = False
            if not spared:
                raise Alarm

    before, told = signal.signal(signal.SIGALRM, ring), sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = told


def test_no_alarm_outlives_its_block():
    """However often it rings, also while it is being stopped.

    Every other block works about as long as the alarm takes to come, so that it may ring
    while it is being stopped; the others wait for it, however slow or fast the machine is.
    """
    before, left = signal.getsignal(signal.SIGALRM), 0
    for k in range(2000):
        try:
            with alarms(0.00004 + 0.000001 * (k % 50)):
                if k % 2:
                    sum(range(1000))
                else:
                    time.sleep(60)
        except Alarm:
            left += 1
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        assert signal.getsignal(signal.SIGALRM) is before
    assert left >= 1000


def test_no_helper_works_after_its_call():
    """Pieces that note when helpers run them; the call has ended when control is back."""
    main, inside, late = threading.get_ident(), [], []
    running = [False]

    def piece(number):
        if threading.get_ident() != main:
            inside.append(number)
            time.sleep(0.0002)
            if not running[0]:
                late.append(number)
            inside.remove(number)
        else:
            time.sleep(0.0002)

    left = 0
    for k in range(200):
        running[0] = True
        try:
            with alarms(0.0001 + 0.00001 * (k % 37)):
                share(40, piece, 4)
        except Alarm:
            left += 1
        assert not inside
        running[0] = False
    time.sleep(0.01)
    assert left > 50
    assert not inside
    assert not late
    assert threads._TEAM._size <= 8


def wide(form):
    rng = np.random.default_rng(0)
    shape = {"rows": (4096, 700), "pieces": (1, 3 << 18)}[form]
    return rng.standard_normal(shape).astype("f4")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", ["rows", "pieces"])
def test_memory_is_the_callers_again(target, form, monkeypatch):
    """After the exception nothing changes the caller's array, with real kernels.

    Alarms come ever sooner until enough of them have, however fast the machine is.
    """
    monkeypatch.setenv("FUSEGEN_THREADS", "4")
    x = wide(form)
    out = np.empty_like(x)
    compiled = fg.library.softmax.compile(x, target=target)
    compiled(x, out=out)
    wanted, left, tries, longest = out.copy(), 0, 0, 0.0014
    while left < 6 or tries < 30:
        tries += 1
        out[...] = -1.0
        try:
            with alarms(longest * (1 + tries % 11) / 11):
                compiled(x, out=out)
            longest *= 0.95
        except Alarm:
            left += 1
        out[...] = 7.0
        time.sleep(0.001)
        assert (out == 7.0).all()
    compiled(x, out=out)
    np.testing.assert_array_equal(out, wanted)


def test_a_long_call_ends_soon_after_a_signal(monkeypatch):
    """Before its last rows, of which there are as many as it takes; by processor time, whatever
    else the machine does."""
    monkeypatch.setenv("FUSEGEN_THREADS", "2")
    p, row = fg.Pipeline(fg.library.logsumexp.fn), wide("rows")[:1]

    def call(rows):
        out = np.full(rows, -1.0, "f4")
        return out, lambda: p(np.broadcast_to(row, (rows, 700)), out=out)

    def ring(*_):
        raise Alarm

    def ended_soon(rows):
        out, work = call(rows)
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.003)
            work()
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except Alarm:
            return out[-1] == -1.0
        return False  # it was done before

    for _ in range(2):
        call(1 << 17)[1]()
    before = signal.signal(signal.SIGVTALRM, ring)
    try:
        for _ in range(3):
            assert any(ended_soon(rows) for rows in (1 << 17, 1 << 19, 1 << 21, 1 << 23))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.fixture
def control_c():
    """Python's own handler, which is not there where a shell started the tests behind `&`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("control_c")
def test_control_c_ends_a_call_and_the_next_one_is_whole(monkeypatch):
    monkeypatch.setenv("FUSEGEN_THREADS", "3")
    done = []

    def piece(number):
        done.append(number)
        if number == 5:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.001)

    with pytest.raises(KeyboardInterrupt):
        share(100_000, piece, 3)
    count = len(done)
    time.sleep(0.02)
    assert len(done) == count < 100_000
    done.clear()
    seen = []
    share(50, seen.append, 3)
    assert sorted(seen) == list(range(50))


def test_what_pieces_raise_is_raised_once_all_have_ended():
    running = []

    def piece(number):
        running.append(number)
        time.sleep(0.002)
        running.remove(number)
        if number == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        share(1000, piece, 4)
    assert not running


def test_work_aside_cleans_up_before_the_exception_goes_on():
    log = []

    def work(cancelled):
        log.append("begun")
        try:
            while not cancelled():
                time.sleep(0.0005)
        finally:
            time.sleep(0.002)
            log.append("clean")

    for _ in range(30):
        log.clear()
        with pytest.raises(Alarm), alarms(0.004):
            aside(work)
        assert log in ([], ["begun", "clean"])  # the alarm may come before it begins
    assert aside(lambda _: 7) == 7
    with pytest.raises(ValueError, match="no"):
        aside(lambda _: int("no"))


@pytest.mark.long
def test_who_waits_for_work_aside_may_be_interrupted_twice():
    """An exception while another is on its way out: neither becomes one about locks."""
    def work(cancelled):
        while not cancelled():
            time.sleep(0.0002)

    for _ in range(2000):
        with pytest.raises(Alarm), alarms(0.00005):
            aside(work)


def test_without_more_threads_the_caller_does_it_all(monkeypatch):
    def none(*_, **__):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_TEAM", threads._Team())
    monkeypatch.setattr(threads._thread, "start_new_thread", none)
    seen = []
    share(20, seen.append, 4)
    assert seen == list(range(20))
    assert aside(lambda _: 7) == 7


@pytest.mark.parametrize("asked", [1, 3])
def test_the_numpy_path_has_as_many_threads_as_it_is_given(monkeypatch, asked):
    monkeypatch.setenv("FUSEGEN_THREADS", str(asked))
    seen, usual, all_there = set(), numpy_path.evaluate, threading.Event()

    def evaluate(*args):
        """No thread goes on before as many have come as were asked for, and perhaps more."""
        seen.add(threading.get_ident())
        if len(seen) >= asked:
            all_there.set()
        assert all_there.wait(600)
        time.sleep(0.002)
        return usual(*args)

    monkeypatch.setattr(numpy_path, "evaluate", evaluate)
    x = np.ones((40, 1 << 16), "f4")
    fg.library.logsumexp.compile(x, target="numpy")(x)
    assert threading.get_ident() in seen
    assert len(seen) == asked


# ---- forks ----


def test_a_child_forked_between_calls_has_a_team_of_its_own():
    share(50, lambda _: time.sleep(0.0001), 4)
    seen = []

    def again():
        share(50, seen.append, 4)
        assert sorted(seen) == list(range(50))

    assert child(again) == 0


def test_a_child_forked_in_the_middle_of_a_call_is_told():
    """By what runs between pieces: the child lacks the helpers, and must not wait for them."""
    statuses = []

    def report(_):
        if not statuses:
            statuses.append(child(lambda: None))

    share(40, lambda _: time.sleep(0.001), 4, report)
    assert statuses == [0]

    parent, gone = os.getpid(), []

    def leave(_):
        if not gone and os.getpid() == parent:
            gone.append(os.fork())

    try:
        share(40, lambda _: time.sleep(0.001), 4, leave)
        told = False
    except BackendError as error:
        told = "forked" in str(error)
    if os.getpid() != parent:
        os._exit(0 if told else 1)
    assert not told
    assert os.waitstatus_to_exitcode(os.waitpid(gone[0], 0)[1]) == 0
