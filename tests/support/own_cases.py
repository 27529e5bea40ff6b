"""Monoids of one's own, and pipelines with them, that several test files use."""

from __future__ import annotations

import math

import fusegen as fg

NAN, INF = math.nan, math.inf


def chan(a, b):
    n = a["n"] + b["n"]
    delta = b["mu"] - a["mu"]
    share = fg.where(n > 0, b["n"] / n, 0)
    return {"n": n, "mu": a["mu"] + delta * share,
            "m2": a["m2"] + b["m2"] + delta**2 * a["n"] * share}


welford = fg.monoid(
    name="welford",
    identity={"n": 0, "mu": 0.0, "m2": 0.0},
    lift=lambda x: {"n": 1, "mu": x, "m2": 0.0},
    merge=chan,
    project=lambda s: {"mean": s["mu"], "variance": s["m2"] / s["n"]},
)

recurrence = fg.monoid(
    name="recurrence",
    identity={"slope": 1.0, "offset": 0.0},
    lift=lambda a, b: {"slope": a, "offset": b},
    merge=lambda p, q: {"slope": p["slope"] * q["slope"],
                        "offset": q["slope"] * p["offset"] + q["offset"]},
    project=lambda s: s["offset"],
)

max_count = fg.monoid(
    name="max_count",
    identity=(-INF, 0),
    lift=lambda x: (x, 1),
    merge=lambda a, b: (
        fg.maximum(a[0], b[0]),
        fg.where(a[0] > b[0], a[1], fg.where(b[0] > a[0], b[1], a[1] + b[1])),
    ),
)

last_number = fg.monoid(
    name="last_number", identity=NAN, lift=lambda x: x,
    merge=lambda a, b: fg.where(fg.isnan(b), a, b),
)

first_number = fg.monoid(
    name="first_number",
    identity={"found": False, "value": 0.0},
    lift=lambda x: {"found": ~fg.isnan(x), "value": fg.where(fg.isnan(x), 0, x)},
    merge=lambda a, b: {"found": a["found"] | b["found"],
                        "value": fg.where(a["found"], a["value"], b["value"])},
    project=lambda s: fg.where(s["found"], s["value"], NAN),
)

depth = fg.monoid(
    name="depth",
    identity={"low": 0, "total": 0},
    lift=lambda x: {"low": fg.minimum(x, 0), "total": x},
    merge=lambda a, b: {"low": fg.minimum(a["low"], a["total"] + b["low"]),
                        "total": a["total"] + b["total"]},
)

argmin = fg.monoid(
    name="argmin_with_payload",
    identity={"value": INF, "payload": 0.0},
    lift=lambda x, y: {"value": x, "payload": y},
    merge=lambda a, b: {"value": fg.minimum(a["value"], b["value"]),
                        "payload": fg.where(b["value"] < a["value"], b["payload"], a["payload"])},
    project=lambda s: s["payload"],
)

online_softmax = fg.monoid(
    name="online_softmax",
    identity={"m": -INF, "d": 0.0},
    lift=lambda x: {"m": x, "d": 1.0},
    merge=lambda a, b: _softmax_merge(a, b),
    project=lambda s: s["m"] + fg.log(s["d"]),
)


def _softmax_merge(a, b):
    m = fg.maximum(a["m"], b["m"])
    parts = [s["d"] * fg.where(s["m"] == m, 1, fg.exp(s["m"] - m)) for s in (a, b)]
    return {"m": m, "d": parts[0] + parts[1]}


log_add_exp = fg.monoid(
    name="log_add_exp", identity=-INF, lift=lambda x: x, merge=lambda a, b: _log_add_exp(a, b)
)


def _log_add_exp(a, b):
    m = fg.maximum(a, b)
    base = fg.where(fg.isinf(m), 0, m)
    return base + fg.log(fg.exp(a - base) + fg.exp(b - base))


complex_product = fg.monoid(
    name="complex_product", identity=(1.0, 0.0), lift=lambda re, im: (re, im),
    merge=lambda a, b: (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]),
)

matrix_product = fg.monoid(
    name="matrix_product", identity=(1.0, 0.0, 0.0, 1.0), lift=lambda x: (x, 1.0, 1.0, 0.0),
    merge=lambda a, b: (a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                        a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]),
)

moments = fg.monoid(
    name="moments", identity={"powers": (0.0, 0.0), "decay": 0.0},
    lift=lambda x: {"powers": (x, x * x), "decay": fg.exp(-x)},
    merge=lambda a, b: {"powers": (a["powers"][0] + b["powers"][0],
                                   a["powers"][1] + b["powers"][1]),
                        "decay": a["decay"] + b["decay"]},
)

parity = fg.monoid(
    name="parity", identity=False, lift=lambda x: x > 0, merge=lambda a, b: (a | b) & ~(a & b)
)

whole_sum = fg.monoid(name="whole_sum", identity=0, lift=lambda x: x, merge=lambda a, b: a + b)


def join_runs(a, b):
    return {
        "all": a["all"] & b["all"], "n": a["n"] + b["n"],
        "prefix": fg.where(a["all"], a["n"] + b["prefix"], a["prefix"]),
        "suffix": fg.where(b["all"], b["n"] + a["suffix"], b["suffix"]),
        "best": fg.maximum(fg.maximum(a["best"], b["best"]), a["suffix"] + b["prefix"]),
    }


def one_run(x):
    one = fg.where(x > 0, 1, 0)
    return {"all": x > 0, "n": 1, "prefix": one, "suffix": one, "best": one}


EMPTY_RUN = {"all": True, "n": 0, "prefix": 0, "suffix": 0, "best": 0}

longest_run = fg.monoid(
    name="longest_run", identity=EMPTY_RUN,
    lift=one_run, merge=join_runs,
    project=lambda s: s["best"],
)

PROVED = {
    m.name: m for m in (
        welford, recurrence, max_count, last_number, first_number, depth, argmin, online_softmax,
        log_add_exp, complex_product, matrix_product, moments, parity, whole_sum,
    )
}
COMMUTATIVE = {"welford", "max_count", "online_softmax", "log_add_exp", "complex_product",
               "moments", "parity", "whole_sum"}


# ---- what is no monoid ----

mean_of_means = fg.monoid(
    name="mean_of_means", identity=0.0, lift=lambda x: x, merge=lambda a, b: (a + b) / 2
)
subtraction = fg.monoid(
    name="subtraction", identity=0.0, lift=lambda x: x, merge=lambda a, b: a - b
)
median_of_medians = fg.monoid(
    name="median_of_medians",
    identity={"n": 0, "median": 0.0},
    lift=lambda x: {"n": 1, "median": x},
    merge=lambda a, b: {
        "n": a["n"] + b["n"],
        "median": fg.where(
            a["n"] > b["n"], a["median"],
            fg.where(b["n"] > a["n"], b["median"], (a["median"] + b["median"]) / 2),
        ),
    },
)
unscaled_softmax = fg.monoid(
    name="unscaled_softmax", identity={"m": -INF, "d": 0.0}, lift=lambda x: {"m": x, "d": 1.0},
    merge=lambda a, b: {"m": fg.maximum(a["m"], b["m"]),
                        "d": a["d"] + b["d"] * fg.exp(fg.minimum(a["m"] - b["m"], 0))},
)
unguarded_mean = fg.monoid(
    name="unguarded_mean", identity={"n": 0, "mu": 0.0}, lift=lambda x: {"n": 1, "mu": x},
    merge=lambda a, b: {"n": a["n"] + b["n"],
                        "mu": (a["n"] * a["mu"] + b["n"] * b["mu"]) / (a["n"] + b["n"])},
)
REFUTED = {
    m.name: m for m in (mean_of_means, subtraction, median_of_medians, unscaled_softmax,
                        unguarded_mean)
}


# ---- pipelines ----


@fg.pipeline
def statistics(x):
    """A commutative monoid beside what fusegen derives by itself."""
    own = fg.reduce(welford, x)
    greatest, ties = fg.reduce(max_count, x)
    spread = fg.max(x) - fg.min(x)
    derived = fg.var(x)
    return {**own, "ties": ties, "greatest": greatest, "spread": spread, "derived": derived}


@fg.pipeline
def scan(a, b):
    """h = a·h + b along the row, which keeps its order."""
    return fg.reduce(recurrence, a, b)


@fg.pipeline
def in_order(x, y):
    """Several monoids that keep the order, a list and base monoids, in one sweep."""
    values, columns = fg.topk(x, 2)
    return {
        "h": fg.reduce(recurrence, fg.sign(x), y), "payload": fg.reduce(argmin, x, y),
        "last": fg.reduce(last_number, fg.where(x > 1, x, NAN)),
        "run": fg.reduce(longest_run, x), "top": values, "at": columns, "sum": fg.sum(x),
    }


# ---- what is right, but not proved ----


def centred(n):
    """n modulo 7, from −3 to 3; round has no model in the algebra."""
    return n - 7 * fg.cast(fg.round(fg.cast(n, "float64") / 7), "int64")


unproved = fg.monoid(name="centred_modulo", identity=0, lift=lambda x: centred(x),
                     merge=lambda a, b: centred(a + b))
assumed = fg.monoid(name="centred_modulo", identity=0, lift=lambda x: centred(x),
                    merge=lambda a, b: centred(a + b),
                    assume=("associative", "identity"))
