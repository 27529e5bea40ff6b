"""Records as lines of a table, groups as lines of a summary, several files as one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]
HEAD = (f"{'work':19s}{'rows × cols':>20s} {'dtype':9s}{'limit µs':>10s}{'fusegen µs':>11s}"
        f"{'share':>8s}  {'best peer':20s}{'ratio':>6s}  schedule")
_WORDS = ((r"row per (\w+) \((\d+) threads\)", r"\1 of \2"), (r",? ?sm_\d+a?", ""),
          (r" elements per thread and tile", ""), (r" × ", "×"), (r" threads", ""),
          (r" loads", ""))
_SCHEDULE_WIDTH = 48


def line(record: Record) -> str:
    """One cell as a line under HEAD."""
    shape = f"{record['rows']}×{record['cols']}" + (" ax 0" if record["axis"] == 0 else "")
    work = record["work"] + ("" if record["form"] == "auto" else f":{record['form']}")
    start = f"{work:19s}{shape:>20s} {record['dtype']:9s}"
    if record["status"] == "ERROR":
        return f"{start}ERROR {record['message']}"
    mark = "<" if missed(record) else " "
    name, peer = best_peer(record)
    shown = f"{name} {peer['us']:.1f} µs" if peer else peers_note(record)
    ratio = f"{peer['times']:.2f}×" if peer else ""
    wrong = f"  WRONG: error {record['error']:.1e}" if record["status"] == "WRONG" else ""
    return (f"{start}{record['limit_us']:10.1f}{record['us']:11.1f}{100 * record['share']:7.1f}%"
            f"{mark} {shown:20s}{ratio:>6s}  {shortened(record['schedule'])}{wrong}")


def shortened(schedule: str) -> str:
    """A schedule's description in a few words."""
    for pattern, word in _WORDS:
        schedule = re.sub(pattern, word, schedule)
    schedule = schedule.strip()
    if len(schedule) > _SCHEDULE_WIDTH:
        schedule = schedule[: _SCHEDULE_WIDTH - 1] + "…"
    return schedule


def peers_note(record: Record) -> str:
    """Why there is no peer's time."""
    notes = [f"{name}: {p.get('note', 'wrong')}" for name, p in record.get("peers", {}).items()]
    return notes[0][:20] if notes else "none"


def missed(record: Record) -> bool:
    """Is it below the share of the limit it is held to?"""
    return record["target"] is not None and record.get("share", 0.0) < record["target"]


def best_peer(record: Record) -> tuple[str, Record | None]:
    """The fastest peer whose result is right, by its ratio to fusegen in its own run."""
    timed = {n: p for n, p in record.get("peers", {}).items() if "times" in p and p["right"]}
    if not timed:
        return "", None
    name = min(timed, key=lambda n: timed[n]["times"])
    return name, timed[name]


# ---- summaries ----


def grouped(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records by group, in the order they come."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["group"], []).append(record)
    return found


def table(records: Sequence[Record]) -> str:
    """Every cell, group by group."""
    parts = []
    for group, members in grouped(records).items():
        parts += [f"\n{group}", HEAD, *map(line, members)]
    return "\n".join(parts)


def summary(records: Sequence[Record]) -> str:
    """A line per group with a target: worst share, cells missed, cells where a peer is faster."""
    lines = []
    for group, members in grouped(records).items():
        lines += _of_group(group, members)
    count = {status: sum(r["status"] == status for r in records) for status in ("WRONG", "ERROR")}
    lines.append(f"all: {len(records)} cells, {sum(map(missed, records))} below their target, "
                 f"{count['WRONG']} wrong, {count['ERROR']} failed")
    return "\n".join([*lines, *_not_measured(records)])


def _not_measured(records: Sequence[Record]) -> list[str]:
    """Why peers have no times, and in how many cells."""
    notes = Counter(f"{name}: {peer.get('note', 'wrong').splitlines()[0][:120]}"
                    for r in records for name, peer in r.get("peers", {}).items()
                    if not peer.get("right"))
    return [f"{note} ({n} cells)" for note, n in notes.items()]


def _of_group(group: str, members: list[Record]) -> list[str]:
    done = [r for r in members if r["status"] != "ERROR"]
    bad = [r for r in members if r["status"] != "ok"]
    lines = [f"{group}: {len(members)} cells, {counted(bad)}"]
    for target in dict.fromkeys(r["target"] for r in done):
        if target is None:
            continue
        held = [r for r in done if r["target"] == target]
        worst = min(held, key=lambda r: r["share"])
        short = [r for r in held if missed(r)]
        lines.append(f"  target {_aim(target, group)}: worst {_aim(worst['share'], group)} "
                     f"({place(worst)}), {len(short)} of {len(held)} missed")
    faster = [(r, *best_peer(r)) for r in done]
    for record, name, peer in faster:
        if peer is not None and peer["times"] < 1:
            lines.append(f"  {name} is faster, {peer['times']:.2f}×: {place(record)}")
    return lines


def counted(bad: Sequence[Record]) -> str:
    """Which records are not right."""
    if not bad:
        return "all right"
    return ", ".join(f"{r['status']} {place(r)}" for r in bad)


def _aim(share: float, group: str) -> str:
    """Few rows are held to a multiple of the limit, the others to a share of it."""
    return f"{1 / share:.2f}×" if group == "few rows" else f"{100 * share:.1f} %"


def place(record: Record) -> str:
    """A record's name within its group."""
    return str(record["key"].partition(": ")[2])


# ---- several files ----


def merged(reports: Sequence[Record]) -> Record:
    """One report of several: cells of all; of a cell in two, the first's figures and both's peers.

    A peer's ratio is to fusegen in the run that measured the peer. Raises ValueError if the
    reports are of different GPUs.
    """
    if len(gpus := {r["environment"]["gpu"] for r in reports}) > 1:
        raise ValueError(f"reports of different GPUs cannot be merged: {', '.join(sorted(gpus))}")
    found: dict[str, Record] = {}
    for report in reports:
        for record in report["cells"]:
            known = found.setdefault(record["key"], record)
            if known is record or record["status"] == "ERROR":
                continue
            if known["status"] == "ERROR":
                found[record["key"]] = record
                continue
            fresh = {n: p for n, p in record["peers"].items()
                     if "us" not in known["peers"].get(n, {})}
            found[record["key"]] = {**known, "peers": {**known["peers"], **fresh},
                                    "status": _worse(known, record)}
    runs = [run for report in reports for run in report["runs"]]
    order = list(found.values())
    groups = grouped(order)
    return {**reports[0], "runs": runs, "cells": [r for g in groups.values() for r in g]}


def _worse(one: Record, other: Record) -> str:
    return "ok" if one["status"] == other["status"] == "ok" else "WRONG"
