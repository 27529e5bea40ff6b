"""Attacks one after the other, and what came of them."""

from __future__ import annotations

import re
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import fusegen as fg

from .draws import Attack, attack
from .engines import Engine
from .judge import differences


@dataclass(frozen=True)
class Finding:
    attack: Attack
    engine: str
    family: str
    what: tuple[str, ...]
    schedules: tuple[str, ...] = ()

    def __str__(self) -> str:
        a = self.attack
        again = (f"python -m tests.attack --engine {self.engine} --family {self.family} "
                 f"--seed {a.seed} --one {a.number}")
        ran = f"\n    ran: {'; '.join(self.schedules)}" if self.schedules else ""
        return "\n    ".join((f"{a.words}", *self.what)) + f"{ran}\n    again: {again}"


@dataclass
class Report:
    ran: Counter[str] = field(default_factory=Counter)  # by text
    refused: Counter[str] = field(default_factory=Counter)  # by what is said
    schedules: Counter[str] = field(default_factory=Counter)  # by kind
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{sum(self.ran.values())} attacks, {len(self.findings)} findings, "
                 f"{sum(self.refused.values())} refused"]
        for title, counts in (("texts", self.ran), ("schedules", self.schedules),
                              ("refusals", self.refused)):
            lines += [f"{title}:", *(f"  {n:5d}  {what}" for what, n in counts.most_common())]
        return "\n".join(lines)


def one(report: Report, engine: Engine, seed: int, number: int, family: str) -> Finding | None:
    """Run that attack; what is found is in the report, too."""
    drawn = attack(seed, number, family, engine.most)
    found: Finding | None = None
    try:
        ran = engine.run(drawn)
        what = (*differences(drawn, ran.results), *ran.strayed)
    except Exception as error:  # what is raised beside refusals is found
        said = _refusal(error)
        if said is not None:
            report.refused[said] += 1
            return None
        what = tuple(traceback.format_exc().splitlines()[-14:])
        found = Finding(drawn, engine.name, family, what)
    else:
        report.ran[drawn.text.name] += 1
        report.schedules.update(re.sub(r"\d+", "n", s) for s in ran.schedules)
        if what:
            found = Finding(drawn, engine.name, family, what, tuple(ran.schedules))
    if found:
        report.findings.append(found)
    return found


def _refusal(error: Exception) -> str | None:
    """What an error says that users may meet: what they gave is wrong, or a device is too small."""
    first = str(error).splitlines()[0] if str(error) else ""
    if isinstance(error, fg.PipelineError):
        return re.sub(r"\d+", "n", first.split(": ", 1)[-1])[:100]
    if isinstance(error, fg.BackendError) and " blocks at once" in first:
        return "more blocks at once than the device holds"
    return None


def many(
    report: Report, engine: Engine, seed: int, numbers: Iterable[int], families: tuple[str, ...],
    seconds: float, *, shown: bool = True,
) -> None:
    """Attacks until the time is up, each family in turn."""
    end = time.monotonic() + seconds
    for number in numbers:
        if time.monotonic() > end:
            return
        found = one(report, engine, seed, number, families[number % len(families)])
        if found and shown:
            print(f"FOUND {found}", flush=True)
