"""What an exchange of states costs on 1 to 10,000 devices, by a model: docs/scale.md has its table.

    python benchmarks/scale_model.py [--rows 64] [--state 776]

A line through latency and bandwidth for each kind of link, and the time to read the shards and to
merge. Constants inside a host are what benchmarks/shards_bench.py has measured (`measured` takes
them from its result file); those between hosts are assumptions. They are said above the table.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "shards_2.json"
_STEP = 3e-6  # of a collective's start, for each doubling of its members: two tell no more


@dataclass(frozen=True)
class Link:
    """seconds of a step of a collective, and bytes a second that a device receives."""

    latency: float
    bandwidth: float

    def all_gather(self, members: int, n_bytes: float) -> float:
        """Of so many bytes from each: steps double what a member has."""
        if members == 1:
            return 0.0
        return math.ceil(math.log2(members)) * self.latency + \
            (members - 1) * n_bytes / self.bandwidth


@dataclass(frozen=True)
class Machine:
    """Devices in hosts, and hosts in a network."""

    start: float  # of a collective, whatever its size
    inside: Link
    meeting: float  # a launch in which devices write to one another's memory, of one row
    written: float  # bytes a second of states that it sends, takes and merges
    kernel: float  # of a merge in a CUDA graph, beside its bytes
    states: float  # bytes a second that it merges
    memory: float  # bytes a second that a fold reads
    across: Link = Link(8e-6, 40e9)
    per_host: int = 8

    def merge(self, states: int, n_bytes: float) -> float:
        return self.kernel + states * n_bytes / self.states

    def flat(self, devices: int, n_bytes: float) -> float:
        """One all-gather among all, one merge."""
        if devices == 1:
            return 0.0
        link = self.inside if devices <= self.per_host else self.across
        return self.start + link.all_gather(devices, n_bytes) + self.merge(devices, n_bytes)

    def met(self, devices: int, n_bytes: float) -> float | None:
        """Through one another's memory, inside a host; finished, too."""
        if devices > self.per_host:
            return None
        return self.meeting + (devices - 1) * n_bytes / self.written

    def by_hosts(self, devices: int, n_bytes: float) -> float:
        """Inside hosts, then among hosts: each device with those of its number elsewhere."""
        if devices <= self.per_host:
            return self.flat(devices, n_bytes)
        hosts = math.ceil(devices / self.per_host)
        return self.flat(self.per_host, n_bytes) + self.start + \
            self.across.all_gather(hosts, n_bytes) + self.merge(hosts, n_bytes)

    def known(self, devices: int) -> int:
        """States that a device has met where hosts come first, its own among them."""
        if devices <= self.per_host:
            return devices
        return self.per_host + math.ceil(devices / self.per_host) - 1

    def by_rounds(self, devices: int, n_bytes: float) -> float:
        """Inside hosts, then in rounds of as many: each multiplies what a device knows of."""
        if devices <= self.per_host:
            return self.flat(devices, n_bytes)
        rounds = math.ceil(math.log(devices / self.per_host, self.per_host) - 1e-9)
        one = self.start + self.across.all_gather(self.per_host, n_bytes) + \
            self.merge(self.per_host, n_bytes)
        return self.flat(self.per_host, n_bytes) + rounds * one


def measured(result: dict[str, Any]) -> Machine:
    """The constants of a result file: times of CUDA graphs, beside those of one that does nothing,
    of its fewest rows and its most."""
    ranks = result["ranks"]
    few, many = result["cells"][0], result["cells"][-1]
    packet = many["bytes exchanged"] / ranks - few["bytes exchanged"] / ranks

    def of(name: str) -> tuple[float, float]:
        """(seconds of few rows, and how many more of many)."""
        first, last = (cell["us"][f"{name}, graph"] - cell["us"]["nothing, graph"]
                       for cell in (few, many))
        return first / 1e6, (last - first) / 1e6

    gather, merge, fold = of("exchange"), of("merge"), of("fold")
    meeting = [a - b for a, b in zip(of("symmetric"), fold, strict=True)]
    steps = math.ceil(math.log2(ranks))
    return Machine(
        start=gather[0] - steps * _STEP,
        inside=Link(_STEP, (ranks - 1) * packet / gather[1]),
        meeting=meeting[0], written=(ranks - 1) * packet / meeting[1],
        kernel=merge[0], states=ranks * packet / merge[1],
        memory=(many["bytes of rows"] - few["bytes of rows"]) / ranks / fold[1])


def table(machine: Machine, rows: int, state: int) -> str:
    """Microseconds by devices, and what each of them receives."""
    packet = rows * state
    lines = ["| devices | received by each | the same, hosts first | one another's memory | one "
             f"all-gather | hosts, then all | rounds of {machine.per_host} |",
             "|---|---|---|---|---|---|---|"]
    for devices in (2, 4, 8, 64, 512, 4096, 10_000):
        ways = (machine.met, machine.flat, machine.by_hosts, machine.by_rounds)
        found = [way(devices, packet) for way in ways]
        times = ["" if one is None else f"{one * 1e6:,.0f} µs" for one in found]
        sizes = [written((n - 1) * packet) for n in (devices, machine.known(devices))]
        lines.append(f"| {devices:,} | {' | '.join((*sizes, *times))} |")
    return "\n".join(lines)


def written(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:,.3g} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:,.3g} KB"


def said(machine: Machine) -> str:
    """Its constants, for people."""
    return (f"start {machine.start * 1e6:.1f} µs + {machine.inside.latency * 1e6:g} a doubling, "
            f"{machine.inside.bandwidth / 1e9:.0f} GB/s in a host; a meeting "
            f"{machine.meeting * 1e6:.1f} µs, {machine.written / 1e9:.0f} GB/s; a merge "
            f"{machine.kernel * 1e6:.1f} µs, {machine.states / 1e12:.2f} TB/s; folds "
            f"{machine.memory / 1e12:.2f} TB/s; between hosts {machine.across.latency * 1e6:g} µs "
            f"a doubling, {machine.across.bandwidth / 1e9:g} GB/s (assumed)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--state", type=int, default=776, help="bytes of a row's state")
    parser.add_argument("--per-host", type=int, default=8)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    here = replace(measured(json.loads(asked.results.read_text())), per_host=asked.per_host)
    print(said(here))
    print(table(here, asked.rows, asked.state))
