"""Monoids that people write, right and wrong: the right ones are proved, the wrong ones refuted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import fusegen as fg
from support.own_cases import EMPTY_RUN, join_runs, one_run

NAN, INF = math.nan, math.inf

RIGHT: dict[str, Any] = {}
WRONG: dict[str, Any] = {}


def right(name: str, *given: Any, **more: Any) -> None:
    RIGHT[name] = fg.monoid(*given, name=_called(name), **more)


def wrong(name: str, *given: Any, **more: Any) -> None:
    WRONG[name] = fg.monoid(*given, name=_called(name), **more)


def _called(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def same(x):
    return x


def plus(a, b):
    return a + b


def mod(x, m):
    return x - m * fg.floor(x / m)


def whole_mod(x, m):
    return x - m * fg.cast(fg.floor(fg.cast(x, "float64") / m), "int64")


def clamp(x, low, high):
    return fg.maximum(low, fg.minimum(x, high))


# ---- runs and segments ----


def segments(a, b):
    return {"total": a["total"] + b["total"],
            "prefix": fg.maximum(a["prefix"], a["total"] + b["prefix"]),
            "suffix": fg.maximum(b["suffix"], b["total"] + a["suffix"]),
            "best": fg.maximum(fg.maximum(a["best"], b["best"]),
                               a["suffix"] + b["prefix"])}


def one_segment(x, least=None):
    top = x if least is None else fg.maximum(x, least)
    return {"total": x, "prefix": top, "suffix": top, "best": top}


NO_SEGMENT = {"total": 0.0, "prefix": -INF, "suffix": -INF, "best": -INF}
EMPTY_SEGMENT = {"total": 0.0, "prefix": 0.0, "suffix": 0.0, "best": 0.0}


def swing(a, b):
    return {"hi": fg.maximum(a["hi"], b["hi"]), "lo": fg.minimum(a["lo"], b["lo"]),
            "fall": fg.maximum(fg.maximum(a["fall"], b["fall"]), a["hi"] - b["lo"])}


right("longest run", EMPTY_RUN, one_run, join_runs)
right("longest run of floats", {**EMPTY_RUN, "n": 0.0, "prefix": 0.0, "suffix": 0.0, "best": 0.0},
      one_run, join_runs)
right("maximum subarray", NO_SEGMENT, one_segment, segments)
right("maximum subarray, empty ones too", EMPTY_SEGMENT, lambda x: one_segment(x, 0), segments)
right("maximum drawdown", {"hi": -INF, "lo": INF, "fall": 0.0},
      lambda x: {"hi": x, "lo": x, "fall": 0.0}, swing)
right("number of runs", {"any": False, "first": False, "last": False, "runs": 0},
      lambda x: {"any": True, "first": x > 0, "last": x > 0, "runs": fg.where(x > 0, 1, 0)},
      lambda a, b: {"any": a["any"] | b["any"],
                    "first": fg.where(a["any"], a["first"], b["first"]),
                    "last": fg.where(b["any"], b["last"], a["last"]),
                    "runs": a["runs"] + b["runs"] - fg.where(a["last"] & b["first"], 1, 0)})
right("is it sorted", {"any": False, "ok": True, "first": 0.0, "last": 0.0},
      lambda x: {"any": True, "ok": True, "first": x, "last": x},
      lambda a, b: {"any": a["any"] | b["any"],
                    "ok": a["ok"] & b["ok"] & (~a["any"] | ~b["any"] | (a["last"] <= b["first"])),
                    "first": fg.where(a["any"], a["first"], b["first"]),
                    "last": fg.where(b["any"], b["last"], a["last"])})
right("total variation", {"any": False, "first": 0.0, "last": 0.0, "sum": 0.0},
      lambda x: {"any": True, "first": x, "last": x, "sum": 0.0},
      lambda a, b: {"any": a["any"] | b["any"],
                    "first": fg.where(a["any"], a["first"], b["first"]),
                    "last": fg.where(b["any"], b["last"], a["last"]),
                    "sum": a["sum"] + b["sum"]
                    + fg.where(a["any"] & b["any"], fg.abs(b["first"] - a["last"]), 0)})
right("balanced brackets", {"open": 0, "shut": 0},
      lambda x: {"open": fg.where(x > 0, 1, 0), "shut": fg.where(x < 0, 1, 0)},
      lambda a, b: {"open": b["open"] + fg.maximum(a["open"] - b["shut"], 0),
                    "shut": a["shut"] + fg.maximum(b["shut"] - a["open"], 0)})
right("lowest prefix", {"low": 0, "total": 0},
      lambda x: {"low": fg.minimum(x, 0), "total": x},
      lambda a, b: {"low": fg.minimum(a["low"], a["total"] + b["low"]),
                    "total": a["total"] + b["total"]})

# ---- orders ----

right("second largest", (-INF, -INF), lambda x: (x, -INF),
      lambda a, b: (fg.maximum(a[0], b[0]),
                    fg.maximum(fg.minimum(a[0], b[0]), fg.maximum(a[1], b[1]))))
right("second least", (INF, INF), lambda x: (x, INF),
      lambda a, b: (fg.minimum(a[0], b[0]),
                    fg.minimum(fg.maximum(a[0], b[0]), fg.minimum(a[1], b[1]))))
right("range", (-INF, INF), lambda x: (x, x),
      lambda a, b: (fg.maximum(a[0], b[0]), fg.minimum(a[1], b[1])),
      lambda s: s[0] - s[1])
right("maximum and how often", (-INF, 0), lambda x: (x, 1),
      lambda a, b: (fg.maximum(a[0], b[0]),
                    fg.where(a[0] > b[0], a[1], fg.where(b[0] > a[0], b[1], a[1] + b[1]))))
right("greatest magnitude, with its sign", 0.0, same,
      lambda a, b: fg.where(fg.abs(b) > fg.abs(a), b, a))
right("first positive", {"found": False, "value": 0.0},
      lambda x: {"found": x > 0, "value": fg.maximum(x, 0)},
      lambda a, b: {"found": a["found"] | b["found"],
                    "value": fg.where(a["found"], a["value"], b["value"])})
right("last wins", {"any": False, "value": 0.0}, lambda x: {"any": True, "value": x},
      lambda a, b: {"any": a["any"] | b["any"],
                    "value": fg.where(b["any"], b["value"], a["value"])})
right("last number", NAN, same, lambda a, b: fg.where(fg.isnan(b), a, b))
right("argmax, the later of ties", {"v": -INF, "j": -1}, lambda x, j: {"v": x, "j": j},
      lambda a, b: {"v": fg.maximum(a["v"], b["v"]),
                    "j": fg.where(b["v"] >= a["v"], b["j"], a["j"])})
right("intersection of intervals", (-INF, INF), lambda low, high: (low, high),
      lambda a, b: (fg.maximum(a[0], b[0]), fg.minimum(a[1], b[1])))

# ---- bounded numbers ----

right("min of a sum and 3", 0, lambda x: fg.where(x > 0, 1, 0), lambda a, b: fg.minimum(a + b, 3))
right("min of a sum and 3, of floats", 0.0, lambda x: fg.minimum(fg.abs(x), 3),
      lambda a, b: fg.minimum(a + b, 3))
right("saturating addition", 0, lambda x: clamp(x, 0, 255), lambda a, b: fg.minimum(a + b, 255))
right("modulo 7", 0.0, lambda x: mod(x, 7), lambda a, b: mod(a + b, 7))
right("modulo 7, whole", 0, lambda x: whole_mod(x, 7), lambda a, b: whole_mod(a + b, 7))
right("modulo 5 by a comparison", 0, lambda x: whole_mod(x, 5),
      lambda a, b: fg.where(a + b >= 5, a + b - 5, a + b))
right("angle in degrees", 0.0, lambda x: mod(x, 360), lambda a, b: mod(a + b, 360))
right("product of signs", 1, lambda x: fg.where(x < 0, -1, 1),
      lambda a, b: fg.where(a == b, 1, -1))
right("parity", False, lambda x: x > 0, lambda a, b: (a | b) & ~(a & b))
right("all and any", (True, False), lambda x: (x > 0, x < 0),
      lambda a, b: (a[0] & b[0], a[1] | b[1]))
right("clamping maps", (-INF, INF), lambda low: (low, low + 1),
      lambda a, b: (fg.minimum(fg.maximum(a[0], b[0]), b[1]),
                    fg.minimum(fg.maximum(a[1], b[0]), b[1])))
right("max-plus line", (0.0, -INF), lambda a, b: (a, b),
      lambda p, q: (p[0] + q[0], fg.maximum(p[1] + q[0], q[1])))
right("queue: work left", {"net": 0.0, "left": 0.0},
      lambda x: {"net": x, "left": fg.maximum(x, 0)},
      lambda a, b: {"net": a["net"] + b["net"],
                    "left": fg.maximum(b["left"], a["left"] + b["net"])})
right("count above 3.7", 0, lambda x: fg.where(x > 3.7, 1, 0), plus)
right("sum of what is below 1e6", 0.0, lambda x: fg.where(x < 1e6, x, 0), plus)
right("line", (1.0, 0.0), lambda a, b: (a, b),
      lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]))
right("mean with its count", {"n": 0, "sum": 0.0}, lambda x: {"n": 1, "sum": x},
      lambda a, b: {"n": a["n"] + b["n"], "sum": a["sum"] + b["sum"]}, lambda s: s["sum"] / s["n"])
RIGHT["runs beside a line"] = fg.product(
    RIGHT["longest run"], RIGHT["mean with its count"], name="runs_and_mean")

# ---- what is no monoid ----

wrong("min of a sum and 10, with signs", 0.0, same, lambda a, b: fg.minimum(a + b, 10))
wrong("max of a sum and -10", 0.0, same, lambda a, b: fg.maximum(a + b, -10))
wrong("clamped addition, with signs", 0.0, lambda x: clamp(x, -8, 8),
      lambda a, b: clamp(a + b, -8, 8))
wrong("floor of a sum", 0.0, same, lambda a, b: fg.floor(a + b))
wrong("ceiling of a sum", 0.0, same, lambda a, b: fg.ceil(a + b))
wrong("rounded sum", 0.0, same, lambda a, b: fg.round(a + b))
wrong("a step at 3.7", 0.0, same, lambda a, b: fg.where(a + b > 3.7, a + b + 1, a + b))
wrong("a step beyond a million", 0.0, same, lambda a, b: fg.where(a + b > 1e6, 0, a + b))
wrong("a step below minus a million", 0.0, same,
      lambda a, b: fg.where(a + b < -1e6, -1e6, a + b))
wrong("a defect at 3.7 alone", 0.0, same, lambda a, b: fg.where(a == 3.7, b, a + b))
wrong("a defect at 1e9", 0.0, same, lambda a, b: fg.where(b == 1e9, a, a + b))
wrong("a defect between 41 and 43", 0.0, same,
      lambda a, b: fg.where((a > 41) & (a < 43), a, a + b))
wrong("a defect at one hundredth", 0.0, same,
      lambda a, b: fg.where(fg.abs(a) < 0.01, b, a + b))
wrong("a defect of whole numbers at 77", 0, same, lambda a, b: fg.where(a == 77, a, a + b))
wrong("max, but not beyond 500", -INF, same,
      lambda a, b: fg.where(fg.maximum(a, b) > 500, fg.minimum(a, b), fg.maximum(a, b)))
wrong("a sum that forgets below 1e-6", 0.0, same,
      lambda a, b: fg.where(fg.abs(a + b) < 1e-6, 0, a + b))
wrong("mean of means", 0.0, same, lambda a, b: (a + b) / 2)
wrong("difference", 0.0, same, lambda a, b: a - b)
wrong("absolute difference", 0.0, same, lambda a, b: fg.abs(a - b))
wrong("sum of squares of sums", 0.0, same, lambda a, b: a * a + b * b)
wrong("product and sum", 0.0, same, lambda a, b: a + b + 2 * a * b * b)
wrong("sum and one", 0.0, same, lambda a, b: a + b + 1)
wrong("decaying sum", 0.0, same, lambda a, b: 0.9 * a + b)
wrong("identity of a product", 0.0, same, lambda a, b: a * b)
wrong("identity of a maximum", 0.0, same, fg.maximum)
wrong("identity of a maximum, far away", -1e6, same, fg.maximum)
wrong("identity of a minimum", 100.0, same, fg.minimum)
wrong("identity of a conjunction", False, lambda x: x > 0, lambda a, b: a & b)
wrong("modulo 7 of what is not lifted", 0.0, same, lambda a, b: mod(a + b, 7))
wrong("modulo 7 and 5", 0, lambda x: whole_mod(x, 7),
      lambda a, b: whole_mod(whole_mod(a + b, 7), 5))
wrong("runs that forget their prefix", EMPTY_RUN, one_run,
      lambda a, b: {**join_runs(a, b), "prefix": a["prefix"]})
wrong("runs that forget the middle", EMPTY_RUN, one_run, lambda a, b: {
    **join_runs(a, b), "suffix": fg.where(b["all"], b["n"], b["suffix"])})
wrong("maximum subarray without its total", EMPTY_SEGMENT, lambda x: one_segment(x, 0),
      lambda a, b: {**segments(a, b), "total": a["total"]})
wrong("maximum subarray with the wrong end", EMPTY_SEGMENT, lambda x: one_segment(x, 0),
      lambda a, b: {**segments(a, b), "suffix": fg.maximum(b["suffix"], a["suffix"])})
wrong("drawdown the other way in one piece", {"hi": -INF, "lo": INF, "fall": 0.0},
      lambda x: {"hi": x, "lo": x, "fall": 0.0},
      lambda a, b: {**swing(a, b), "hi": fg.where(b["fall"] > 2.5, b["hi"],
                                                  fg.maximum(a["hi"], b["hi"]))})
wrong("second largest of the leader's piece", (-INF, -INF), lambda x: (x, -INF),
      lambda a, b: (fg.maximum(a[0], b[0]),
                    fg.where(a[0] > b[0], fg.maximum(a[1], b[0]), fg.minimum(a[0], b[0]))))
wrong("argmax with a payload of the loser", {"v": -INF, "j": 0.0}, lambda x, j: {"v": x, "j": j},
      lambda a, b: {"v": fg.maximum(a["v"], b["v"]),
                    "j": fg.where(b["v"] > a["v"], a["j"], b["j"])})
wrong("ties that add up to two", (-INF, 0), lambda x: (x, 1),
      lambda a, b: (fg.maximum(a[0], b[0]),
                    fg.where(a[0] > b[0], a[1], fg.where(b[0] > a[0], b[1], 2))))
wrong("unscaled softmax", {"m": -INF, "d": 0.0}, lambda x: {"m": x, "d": 1.0},
      lambda a, b: {"m": fg.maximum(a["m"], b["m"]), "d": a["d"] + b["d"]
                    * fg.exp(fg.minimum(b["m"] - a["m"], 0))})
wrong("unguarded mean", {"n": 0, "mu": 0.0}, lambda x: {"n": 1, "mu": x},
      lambda a, b: {"n": a["n"] + b["n"],
                    "mu": (a["n"] * a["mu"] + b["n"] * b["mu"]) / (a["n"] + b["n"])})
wrong("medians", {"n": 0, "median": 0.0}, lambda x: {"n": 1, "median": x},
      lambda a, b: {"n": a["n"] + b["n"], "median": fg.where(a["n"] >= b["n"],
                                                             a["median"], b["median"])})
wrong("a counter that stops at 6", 0, lambda x: fg.where(x > 0, 2, -1),
      lambda a, b: fg.minimum(a + b, 6))
wrong("brackets that never close", {"open": 0, "shut": 0},
      lambda x: {"open": fg.where(x > 0, 1, 0), "shut": fg.where(x < 0, 1, 0)},
      lambda a, b: {"open": b["open"] + fg.maximum(a["open"] - b["shut"], 0),
                    "shut": a["shut"] + b["shut"]})
wrong("lowest prefix without its total", {"low": 0, "total": 0},
      lambda x: {"low": fg.minimum(x, 0), "total": x},
      lambda a, b: {"low": fg.minimum(a["low"], b["low"] + fg.minimum(a["total"], 4)),
                    "total": a["total"] + b["total"]})
wrong("NaN that wins from one side", 0.0, same, lambda a, b: fg.where(fg.isnan(a), 0, a + b))

Laws = Callable[..., Any]
