"""What an exchange of states costs on 1 to 10,000 devices, by a model: docs/scale.md has its table.

    python benchmarks/scale_model.py [--rows 64] [--state 776]

A line through latency and bandwidth for each kind of link, and the time to read the shards and to
merge. Constants of one GPU are measured, those of links are assumptions until a run has measured
them (docs/scale.md); they are said above the table.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace


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

    per_host: int = 8
    start: float = 15e-6  # of a collective, whatever its size
    inside: Link = Link(4e-6, 300e9)
    across: Link = Link(8e-6, 40e9)
    memory: float = 3.5e12  # bytes a second that a fold reads
    kernel: float = 2e-6  # of a merge or a finish in a CUDA graph, beside its bytes

    def merge(self, states: int, n_bytes: float) -> float:
        return self.kernel + states * n_bytes / self.memory

    def flat(self, devices: int, n_bytes: float) -> float:
        """One all-gather among all, one merge."""
        if devices == 1:
            return 0.0
        link = self.inside if devices <= self.per_host else self.across
        return self.start + link.all_gather(devices, n_bytes) + self.merge(devices, n_bytes)

    def by_hosts(self, devices: int, n_bytes: float) -> float:
        """Inside hosts, then among hosts: each device with those of its number elsewhere."""
        if devices <= self.per_host:
            return self.flat(devices, n_bytes)
        hosts = math.ceil(devices / self.per_host)
        return self.flat(self.per_host, n_bytes) + self.start + \
            self.across.all_gather(hosts, n_bytes) + self.merge(hosts, n_bytes)

    def met(self, devices: int) -> int:
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


def table(machine: Machine, rows: int, state: int) -> str:
    """Microseconds by devices, and what each of them receives."""
    packet = rows * state
    lines = ["| devices | received by each | the same, hosts first | one all-gather | hosts, then "
             f"all | rounds of {machine.per_host} |", "|---|---|---|---|---|---|"]
    for devices in (2, 4, 8, 64, 512, 4096, 10_000):
        ways = (machine.flat, machine.by_hosts, machine.by_rounds)
        times = [f"{way(devices, packet) * 1e6:,.0f} µs" for way in ways]
        sizes = [written((states - 1) * packet) for states in (devices, machine.met(devices))]
        lines.append(f"| {devices:,} | {' | '.join((*sizes, *times))} |")
    return "\n".join(lines)


def written(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:,.3g} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:,.3g} KB"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--state", type=int, default=776, help="bytes of a row's state")
    parser.add_argument("--per-host", type=int, default=8)
    asked = parser.parse_args()
    here = replace(Machine(), per_host=asked.per_host)
    print(here)
    print(table(here, asked.rows, asked.state))
