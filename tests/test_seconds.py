"""Everyday texts are planned in seconds, from nothing: derived once, repaired where that helps."""

from __future__ import annotations

import time
import warnings

import pytest
from support.pace import within

import fusegen as fg
from fusegen.compile.trials import first
from fusegen.compile.trials.floats import Alarm
from fusegen.ir.derivation import Dependent, RefusalKind, Refused
from fusegen.oracle.bank import bank_of

pytestmark = pytest.mark.usefixtures("own_cache")


def _shares(x, p):
    s = fg.sum(p)
    return fg.sum(p / s * x), fg.sum((p / s) ** 2)


def _concentration(x, p):
    s = fg.sum(p)
    share = p / s
    even = 1 - fg.sum(share**2)
    return fg.sum(share * x), fg.sum(fg.xlogy(share, share)), fg.sum(share**2), even


def _divergence(x, y):
    lx, ly = x - fg.logsumexp(x), y - fg.logsumexp(y)
    return fg.sum(fg.exp(lx) * (lx - ly)), fg.sum(fg.exp(lx) * ly)


def _cold(x):
    """A number that float32 does not hold stays in the text, and in its algebra."""
    m = fg.max(x)
    p = fg.exp((x - m) / 1e-40)
    return fg.sum(p), fg.sum(p * x) / fg.sum(p), fg.topk(p / fg.sum(p), 3)


def _cold_share(x):
    u = (x - fg.max(x)) / 1e-40
    return fg.sum(fg.exp(u)), fg.topk(u * fg.exp(u), 2)


# Processor seconds, some three times what they take.
BUDGETS = {_shares: 6, _concentration: 6, _divergence: 13, _cold: 3, _cold_share: 3}


@pytest.mark.parametrize("text", BUDGETS, ids=lambda text: text.__name__)
def test_an_everyday_text_is_planned_in_seconds(text):
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of what the trial leaves out
        fg.pipeline(text).plan()
    assert within(time.process_time() - start, BUDGETS[text])


def test_what_a_trial_found_wrong_stays_unused_beside_a_repair(monkeypatch):
    """A defect is found once: the text with its repairs knows it too."""
    def alarms(graph, derivation, dtypes):
        entry = next((e for e in derivation if e.name == "shares"), None)
        seen.append(entry)
        assert len(seen) < 5, "the same sum, tried again and again"
        if not isinstance(entry, Dependent):
            return []
        return [Alarm("shares", bank_of(graph, dtypes, 2).only(0), 0.0, 1.0, 1.0, 0.1, "float32")]

    @fg.pipeline
    def text(x, p, y):
        shares = fg.sum(p / fg.sum(p) * x)
        return shares, fg.sum(fg.exp(x - fg.max(y)))

    seen = []
    monkeypatch.setattr(first, "_alarms", alarms)
    with pytest.warns(RuntimeWarning, match="shares is not used"):
        plan = text.plan()
    assert plan
    assert isinstance(seen[-1], Refused)
    assert seen[-1].refusal.kind is RefusalKind.DEFECT
