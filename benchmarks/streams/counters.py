"""Accesses per element by the hardware's counters (ncu), beside those of the plan."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MARKER = "next_case"
"""A kernel launched before each case: what ncu lists after it belongs to that case."""
DRAM_READ, DRAM_WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
ASKED_READ = "lts__t_sectors_srcunit_tex_op_read.sum"
ASKED_WRITE = "lts__t_sectors_srcunit_tex_op_write.sum"
METRICS = {DRAM_READ: 1, DRAM_WRITE: 1, ASKED_READ: 32, ASKED_WRITE: 32}
"""Metric → bytes per unit. dram: device memory. lts: 32-byte sectors that multiprocessors ask of
the L2 cache, which serves some re-reads itself."""
_UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "sector": 1, "": 1}
SLACK = 0.05
_REFUSALS = {
    "ERR_NVGPUCTRPERM": "the driver keeps the counters from this user (ERR_NVGPUCTRPERM): run as "
                        "root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0",
    "LibraryNotLoaded": "the profiler cannot be loaded on this machine (LibraryNotLoaded): a "
                        "sandboxed machine, such as gVisor, has no counters",
}


class CountersError(Exception):
    """There are no counters; the message says why and what to do."""


class _NoMetric(CountersError):
    pass


@dataclass(frozen=True, slots=True)
class Case:
    """A pipeline in a form on (rows, cols) float32."""

    label: str
    work: str
    form: str
    rows: int
    cols: int

    @property
    def options(self) -> dict[str, int]:
        """Constants of the pipeline."""
        return {"k": 5} if self.work == "softmax_topk" else {}


CASES = tuple(
    Case(label, work, form, 4000, cols)
    for cols in (25_000, 129_024)
    for label, work, form in (
        ("naive softmax", "naive_softmax", "safe"), ("safe softmax", "softmax", "safe"),
        ("online softmax", "softmax", "online"), ("softmax", "softmax", "auto"),
        ("online softmax + top 5", "softmax_topk", "online"), ("layer_norm", "layer_norm", "auto"),
    )
)


# ---- the child that ncu watches ----


def launch_all(cases: Iterable[Case], plans: Path) -> None:
    """Run every case once between the profiler's start and stop; save the plans' counts."""
    import cupy

    import fusegen as fg

    marker = cupy.RawKernel(f'extern "C" __global__ void {MARKER}() {{}}', MARKER)
    found = []
    for case in cases:
        pipeline = getattr(fg.library, case.work)
        x = cupy.random.standard_normal((case.rows, case.cols), dtype="float32")
        options = {"form": case.form, **case.options}
        out = pipeline(x, **options)  # compiles
        program = pipeline.prepare((x,), case.options, form=case.form).executable.program
        found.append([program.reads_per_element, program.writes_per_element])
        cupy.cuda.Device().synchronize()
        cupy.cuda.profiler.start()
        marker((1,), (1,), ())
        pipeline(x, out=out, **options)
        cupy.cuda.Device().synchronize()
        cupy.cuda.profiler.stop()
    plans.write_text(json.dumps(found))


# ---- ncu ----


def counted() -> list[dict[str, Any]]:
    """A line per case: accesses per element by the plan and by the counters.

    Raises CountersError where ncu is missing or refused.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        raise CountersError("ncu is not on the PATH: it comes with Nsight Compute, in CUDA's bin/")
    try:
        return _profiled(ncu, METRICS)
    except _NoMetric:  # the counts of L2 have other names there
        return _profiled(ncu, (DRAM_READ, DRAM_WRITE))


def _profiled(ncu: str, metrics: Iterable[str]) -> list[dict[str, Any]]:
    script = Path(__file__).parents[1] / "stream_counters.py"
    with tempfile.TemporaryDirectory() as folder:
        log, plans = Path(folder, "ncu.csv"), Path(folder, "plans.json")
        run = subprocess.run(
            [ncu, "--clock-control", "none", "--profile-from-start", "off", "--csv",
             "--print-units", "base", "--metrics", ",".join(metrics), "--log-file", str(log),
             sys.executable, str(script), "--child", str(plans)],
            capture_output=True, text=True,
        )
        text = log.read_text(encoding="utf-8") if log.exists() else ""
        refused(f"{text}\n{run.stdout}\n{run.stderr}", run.returncode)
        return lines(CASES, json.loads(plans.read_text()), by_case(parsed(text)))


def refused(said: str, code: int) -> None:
    """Raises CountersError if ncu ended with an error, or printed that it has no counters."""
    for word, why in _REFUSALS.items():
        if word in said:
            raise CountersError(why)
    if "Failed to find metric" in said:
        raise _NoMetric(f"ncu does not know a metric: {said.strip()[-500:]}")
    if code:
        raise CountersError(f"ncu ended with code {code}: {said.strip()[-2000:]}")


def parsed(text: str) -> list[tuple[str, dict[str, float]]]:
    """ncu's CSV as (kernel, bytes by metric) per launch, in order; its other lines are skipped.

    Raises CountersError if there is no table or a value is no number.
    """
    rows = [r for r in text.splitlines() if r.startswith('"')]
    if not rows:
        raise CountersError(f"ncu printed no table: {text.strip()[-2000:]}")
    launches: dict[str, tuple[str, dict[str, float]]] = {}
    for row in csv.DictReader(rows):
        name, bytes_of = launches.setdefault(row["ID"], (row["Kernel Name"], {}))
        metric = row["Metric Name"]
        if metric in METRICS:
            bytes_of[metric] = _number(row, name) * METRICS[metric]
    return list(launches.values())


def _number(row: dict[str, str], kernel: str) -> float:
    value, unit = row["Metric Value"], row["Metric Unit"]
    try:
        return float(value.replace(",", "")) * _UNITS[unit]
    except (ValueError, KeyError):
        raise CountersError(
            f"{kernel}: {row['Metric Name']} is {value!r} {unit}: this GPU or ncu has no such count"
        ) from None


def by_case(launches: Iterable[tuple[str, dict[str, float]]]) -> list[dict[str, float]]:
    """Bytes by metric of each case: all launches between its marker and the next, added up."""
    found: list[dict[str, float]] = []
    for name, bytes_of in launches:
        if name.split("(")[0].strip() == MARKER:
            found.append({})
        elif found:
            found[-1] = {m: found[-1].get(m, 0.0) + size for m, size in bytes_of.items()}
    return found


def lines(
    cases: Sequence[Case], planned: Sequence[Sequence[int]], seen: Sequence[dict[str, float]]
) -> list[dict[str, Any]]:
    """What is printed and saved. Raises CountersError if ncu saw another number of cases."""
    if not len(cases) == len(planned) == len(seen):
        raise CountersError(f"{len(cases)} cases ran, ncu saw {len(seen)}")
    found = []
    for case, (reads, writes), bytes_of in zip(cases, planned, seen, strict=True):
        size = case.rows * case.cols * 4
        per = {metric: total / size for metric, total in bytes_of.items()}
        if not {DRAM_READ, DRAM_WRITE} <= per.keys():
            raise CountersError(f"{case.label}: ncu saw no kernel of it, or no device memory count")
        line = {
            **asdict(case), "plan_reads": reads, "plan_writes": writes,
            "dram_reads": per[DRAM_READ], "dram_writes": per[DRAM_WRITE],
            "asked_reads": per.get(ASKED_READ), "asked_writes": per.get(ASKED_WRITE),
        }
        found.append({**line, "agrees": agrees(line)})
    return found


def agrees(line: dict[str, Any]) -> bool:
    """Device memory serves no more reads and writes than planned, and at least one read.

    Less is right: L2 serves some re-reads, and keeps the last writes beyond the kernel's end.
    """
    return bool(
        1 - SLACK <= line["dram_reads"] <= line["plan_reads"] + SLACK
        and line["dram_writes"] <= line["plan_writes"] + SLACK
    )


# ---- for people ----


def table(found: Iterable[dict[str, Any]]) -> str:
    """Accesses per element, reads + writes."""
    head = (f"{'per element: reads + writes':32s}{'rows × cols':>15s}{'plan':>8s}"
            f"{'device memory':>16s}{'asked of L2':>14s}")
    rows = [head]
    for one in found:
        shape, plan = f"{one['rows']}×{one['cols']}", f"{one['plan_reads']} + {one['plan_writes']}"
        dram = f"{one['dram_reads']:.2f} + {one['dram_writes']:.2f}"
        asked = ("not counted" if one["asked_reads"] is None
                 else f"{one['asked_reads']:.2f} + {one['asked_writes']:.2f}")
        verdict = "" if one["agrees"] else "  NOT AS PLANNED"
        rows.append(f"{one['label']:32s}{shape:>15s}{plan:>8s}{dram:>16s}{asked:>14s}{verdict}")
    return "\n".join(rows)


def run_and_print(output: Path | None) -> int:
    """Count, print, save; 0 if all is as planned, 1 if not, 2 without counters."""
    try:
        found = counted()
    except CountersError as error:
        print(f"no counters: {error}", file=sys.stderr)
        return 2
    print(table(found))
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(not all(one["agrees"] for one in found))
