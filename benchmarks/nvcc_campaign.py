"""Do generated files compile as they stand? Each one through each compiler, with its warnings.

    python benchmarks/nvcc_campaign.py --count 200 --nvcc PATH [--nvcc PATH] [--nvrtc]
        [--output benchmarks/results/nvcc.json]

nvcc compiles both halves of a file, the device's and the host's, with -Xcompiler -Wall; NVRTC the
device's. Files that the output has already, byte for byte, are not compiled again by the same
compiler. Status 1 if a file is refused or warned about. Needs no GPU.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from generated_files import File, files

import fusegen as fg

_ONE_AT_A_TIME = threading.Lock()  # sympy keeps its caches for all threads

Attempt = Callable[[Path, str], str]
"""Compiles a file for an architecture; what was printed. Raises Refused."""


class Refused(Exception):
    """A compiler does not take the file; the message is the compiler's."""


@dataclass(frozen=True)
class Compiler:
    name: str
    attempt: Attempt


def nvcc(path: str) -> Compiler:
    """NVIDIA's compiler driver."""
    version = re.search(r"release [\d.]+, V([\d.]+)", _said([path, "--version"]))
    headers = re.search(r"CUDART_VERSION (\d+)", _said([path, "-E", "-Xcompiler", "-dM", "-x", "cu",
                                                        os.devnull]))
    known = re.findall(r"compute_(\d+)\b", _said([path, "--list-gpu-arch"]))

    def attempt(source: Path, arch: str) -> str:
        # A file for a chip that is younger than the compiler: for the youngest that it knows.
        number = min(int(arch.removeprefix("sm_")), max(map(int, known)))
        options = ["-c", f"-arch=sm_{number}", "-std=c++17", "-Xcompiler", "-Wall"]
        return _said([path, *options, "-o", f"{source}.o", str(source)])

    toolkit = int(headers[1]) if headers else 0
    name = f"nvcc {version[1] if version else 'of unknown version'}"
    return Compiler(f"{name}, headers of {toolkit // 1000}.{toolkit % 1000 // 10}", attempt)


def nvrtc() -> Compiler:
    """The compiler that calls use."""
    from cupy.cuda import nvrtc as bindings

    from fusegen.backend.cuda.run.nvrtc import includes

    def attempt(source: Path, arch: str) -> str:
        program = bindings.createProgram(source.read_text(encoding="utf-8"), source.name, (), ())
        try:
            bindings.compileProgram(program, ("-std=c++17", f"-arch={arch}", *includes()))
            return str(bindings.getProgramLog(program))
        except bindings.NVRTCError as error:
            raise Refused(bindings.getProgramLog(program)) from error
        finally:
            bindings.destroyProgram(program)

    return Compiler("NVRTC {}.{}".format(*bindings.getVersion()), attempt)


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise Refused(f"status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def tried(
    file: File, compilers: Sequence[Compiler], before: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """One file's row of the result; by its hash from `before`, where each compiler has seen it."""
    with _ONE_AT_A_TIME:
        source = file.source()
    row: dict[str, Any] = {"file": file.name, "arch": file.arch, "lines": source.count("\n"),
                           "sha256": hashlib.sha256(source.encode()).hexdigest()}
    row = {**before.get(row["sha256"], {}), **row}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cu"
        path.write_text(source, encoding="utf-8")
        for compiler in (c for c in compilers if c.name not in row):
            start = time.perf_counter()
            try:
                said, status = compiler.attempt(path, file.arch), "compiled"
            except Refused as error:
                said, status = str(error), "refused"
            told = [ln.replace(folder, "") for ln in said.splitlines() if ln.strip()]
            row[compiler.name] = {"status": status, **({"said": told[:20]} if told else {})}
            row[compiler.name]["seconds"] = round(time.perf_counter() - start, 1)
    return row


def report(rows: list[dict[str, Any]], compilers: Sequence[Compiler]) -> dict[str, Any]:
    """All figures, as plain data."""
    summary = {
        c.name: {**Counter(r[c.name]["status"] for r in rows),
                 "with warnings": sum("said" in r[c.name] for r in rows)}
        for c in compilers
    }
    return {"date": datetime.date.today().isoformat(), "fusegen": fg.__version__,
            "files": len(rows), "compilers": summary, "rows": rows}


def _read(path: Path | None) -> dict[str, dict[str, Any]]:
    if path is None or not path.exists():
        return {}
    return {row["sha256"]: row for row in json.loads(path.read_text(encoding="utf-8"))["rows"]}


def _write(path: Path, found: dict[str, Any]) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="how many files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nvcc", action="append", default=[], metavar="PATH")
    parser.add_argument("--nvrtc", action="store_true", help="CuPy's as well")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    compilers = [nvcc(path) for path in args.nvcc]
    compilers += [nvrtc()] if args.nvrtc else []
    rows = []
    with ThreadPool(args.processes) as pool:
        attempt = partial(tried, compilers=compilers, before=_read(args.output))
        for row in pool.imap(attempt, files(args.count, args.seed)):
            rows.append(row)
            print(f"{len(rows):4d}  {row['arch']}  {row['file']}", flush=True)
            for c in compilers:
                for line in row[c.name].get("said", ()):
                    print(f"      {c.name}: {line}")
            if args.output:
                _write(args.output, report(rows, compilers))
    found = report(rows, compilers)
    print(json.dumps(found["compilers"], indent=1))
    return int(any("said" in row[c.name] for row in rows for c in compilers))


if __name__ == "__main__":
    sys.exit(main())
