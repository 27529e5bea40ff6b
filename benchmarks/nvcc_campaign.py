"""Do generated files compile as they stand? Each one through each compiler, with its warnings.

    python benchmarks/nvcc_campaign.py --count 200 --nvcc PATH [--nvcc PATH] [--nvrtc]
        [--clang PATH --cuda DIRECTORY] [--output benchmarks/results/nvcc.json]

nvcc compiles both halves of a file, the device's and the host's, with -Xcompiler -Wall; NVRTC the
device's; clang both, with the toolkit in DIRECTORY. Status 1 if a file is refused or warned about.
Needs no GPU.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from generated_files import files

import fusegen as fg

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

    def attempt(source: Path, arch: str) -> str:
        options = ["-c", f"-arch={arch}", "-std=c++17", "-Xcompiler", "-Wall"]
        return _said([path, *options, "-o", f"{source}.o", str(source)])

    return Compiler(f"nvcc {version[1] if version else 'of unknown version'}", attempt)


def clang(path: str, toolkit: str) -> Compiler:
    """Clang's own CUDA front end, with a toolkit's headers, device library and assembler."""
    version = re.search(r"clang version ([\d.]+)", _said([path, "--version"]))
    found = re.search(r"CUDART_VERSION +(\d+)", (Path(toolkit) / "include/cuda_runtime_api.h")
                      .read_text(encoding="utf-8"))  # fmt: skip
    number = int(found[1]) if found else 0

    def attempt(source: Path, arch: str) -> str:
        known = arch if int(arch[3:]) <= 90 else "sm_90"
        options = ["-x", "cuda", "-std=c++17", "-Wall", "-Wno-unknown-cuda-version", "-c",
                   f"--cuda-path={toolkit}", f"--cuda-gpu-arch={known}"]  # fmt: skip
        return "".join(
            _said([path, *options, half, "-o", f"{source}{half}", str(source)])
            for half in ("--cuda-device-only", "--cuda-host-only")
        )

    name = f"clang {version[1] if version else ''}, CUDA {number // 1000}.{number % 1000 // 10}"
    return Compiler(name, attempt)


def nvrtc() -> Compiler:
    """The compiler that calls use."""
    from cupy.cuda import nvrtc as bindings

    from fusegen.runtime.cuda.nvrtc import includes

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


def tried(source: str, name: str, arch: str, compilers: Sequence[Compiler]) -> dict[str, Any]:
    """One file's row of the result."""
    row: dict[str, Any] = {"file": name, "arch": arch, "lines": source.count("\n"),
                           "sha256": hashlib.sha256(source.encode()).hexdigest()}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cu"
        path.write_text(source, encoding="utf-8")
        for compiler in compilers:
            start = time.perf_counter()
            try:
                said, status = compiler.attempt(path, arch), "compiled"
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
    }  # fmt: skip
    return {"date": datetime.date.today().isoformat(), "fusegen": fg.__version__,
            "files": len(rows), "compilers": summary, "rows": rows}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="how many files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nvcc", action="append", default=[], metavar="PATH")
    parser.add_argument("--nvrtc", action="store_true", help="CuPy's as well")
    parser.add_argument("--clang", metavar="PATH", help="as well, with --cuda")
    parser.add_argument("--cuda", metavar="DIRECTORY", help="the toolkit for clang")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    compilers = [nvcc(path) for path in args.nvcc]
    compilers += [nvrtc()] if args.nvrtc else []
    compilers += [clang(args.clang, args.cuda)] if args.clang else []
    todo = [(f.source(), f.name, f.arch, compilers) for f in files(args.count, args.seed)]
    with ThreadPool(args.processes) as pool:
        rows = pool.starmap(tried, todo, chunksize=1)
    found = report(rows, compilers)
    for row in rows:
        for c in compilers:
            if "said" in row[c.name]:
                print(f"{c.name}, {row['arch']}, {row['file']}", *row[c.name]["said"], sep="\n    ")
    print(json.dumps(found["compilers"], indent=1))
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(any("said" in row[c.name] for row in rows for c in compilers))


if __name__ == "__main__":
    sys.exit(main())
