"""Records of lists as lines: one cell, hard rows beside random ones, a group."""

from __future__ import annotations

from collections.abc import Sequence

from streams.summary import Record, counted, grouped, place

_KEY_WIDTH = 56
_SHAPE = ("group", "work", "rows", "cols", "k", "dtype", "form")


def line(record: Record) -> str:
    """One cell."""
    start = f"{record['key']:{_KEY_WIDTH}s}"
    if record["status"] == "ERROR":
        return f"{start}ERROR {record['message']}"
    us, limit = record["us"], record["limit_us"]
    torch = f"{record['torch_us'] / us:6.1f}× torch" if "torch_us" in record else ""
    wrong = "" if record["status"] == "ok" else f"  WRONG: {record['wrong']}"
    share = f"{us:9.1f} µs {100 * limit / us:5.0f}% of a read"
    others = "".join(f"\n{'':{_KEY_WIDTH + 2}s}{us:9.1f} µs  {shape}{'  WRONG' if bad else ''}"
                     for shape, us, bad in record.get("variants", ()))
    return f"{start}{share}{torch}  {record['shape']}{wrong}{others}"


def ratios(records: Sequence[Record]) -> list[str]:
    """Times of hard rows in units of those of random ones: a line per shape."""
    found: dict[str, list[str]] = {}
    for record, base in _hard_rows(records):
        shown = found.setdefault(base["key"], [])
        shown.append(f"{record['data']} {record['us'] / base['us']:.2f}")
    return [f"{key}: {'  '.join(shown)}" for key, shown in found.items()]


def summary(records: Sequence[Record]) -> list[str]:
    """For each group what is not right, its worst ratios, and the cells where torch is faster."""
    lines = []
    for group, members in grouped(records).items():
        bad = [r for r in members if r["status"] != "ok"]
        parts = [f"{group}: {len(members)} cells, {counted(bad)}"]
        peers = {place(r): r["torch_us"] / r["us"] for r in members if "torch_us" in r}
        if peers:
            least = min(peers, key=lambda name: peers[name])
            parts.append(f"torch takes {peers[least]:.2f} ({least}) … {max(peers.values()):.1f} ×")
        hard = {place(r): r["us"] / base["us"] for r, base in _hard_rows(members)}
        if hard:
            worst = max(hard, key=lambda name: hard[name])
            parts.append(f"hard rows at most {hard[worst]:.2f} × random ones ({worst})")
        lines.append("; ".join(parts))
        lines += [f"  torch is faster, {times:.2f}×: {name}"
                  for name, times in peers.items() if times < 1]
    return lines


def _hard_rows(records: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Each record of hard rows, with that of random rows of the same shape."""
    timed = [(tuple(r[name] for name in _SHAPE), r) for r in records if "us" in r]
    base = {shape: r for shape, r in timed if r["data"] == "random"}
    return [(r, base[shape]) for shape, r in timed if r["data"] != "random" and shape in base]
