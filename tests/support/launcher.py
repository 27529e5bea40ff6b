"""CudaExecutable's twin, launched by the C++ of `host=True`: its grids, checks and memory. What it
would queue is run by the SIMT executor."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from simt import compile_module
from simt.arguments import Parameter, number_of

from fusegen.backend.cuda.emit.host import host_source
from fusegen.backend.cuda.run.extent import extent_of
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.launch import Launch, launches
from fusegen.ir.kernel import Program
from support.emulated import bits_of

_HERE = Path(__file__).parent / "host"
_FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


class _Recorded(ctypes.Structure):
    """Mirrors Recorded in host/cuda_runtime.h."""

    _fields_ = (
        ("kernel", ctypes.c_void_p), ("grid", ctypes.c_uint), ("threads", ctypes.c_uint),
        ("cluster", ctypes.c_uint), ("together", ctypes.c_uint), ("shared", ctypes.c_size_t),
        ("arguments", ctypes.c_uint64 * 64),
    )


class LaunchedExecutable:
    """Call as CudaExecutable, with NumPy arrays. Raises SimtError on any violation."""

    def __init__(
        self, program: Program, schedule: CudaSchedule, source: str, seed: int = 0
    ) -> None:
        self.program, self.seed = program, seed
        self.launches = launches(program, schedule)
        self.strips = schedule.strip is not None
        self.module = compile_module(source)
        self.library = _built(_text(self.launches, host_source(program, schedule)))

    def status(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, workspace: Any = None
    ) -> int:
        """What the launcher returns."""
        extent = extent_of(self.program, arrays, n_rows, n_cols)
        strides = dict(extent.strides)
        every = (*self.program.inputs, *self.program.outputs)
        numbers = [s for p in every if p.shape == "element" for s in strides[p.name]]
        numbers += [n_rows, n_cols] + ([extent.inner] if extent.inner else [])
        pointers = [_argument(arrays[p.name]) for p in every]
        room = None if workspace is None else workspace.ctypes.data
        launch = self.library[f"{self.program.name}_launch"]
        found: int = launch(*pointers, *map(ctypes.c_longlong, numbers), ctypes.c_void_p(room),
                            ctypes.c_void_p(None))
        return found

    def workspace(self, n_rows: int, n_cols: int, inner: int | None) -> np.ndarray:
        """As many bytes as the source asks for, poisoned, from a boundary on."""
        size = ctypes.c_size_t()
        sizes = [n_rows, n_cols] + ([inner] if inner else [])
        ask = self.library[f"{self.program.name}_workspace"]
        assert ask(*map(ctypes.c_longlong, sizes), ctypes.byref(size)) == 0
        room = np.full(size.value + 256, 0xFF, np.uint8)
        start = -room.ctypes.data % 256
        return room[start : start + size.value]

    def __call__(self, arrays: Mapping[str, Any], n_rows: int, n_cols: int) -> None:
        inner = extent_of(self.program, arrays, n_rows, n_cols).inner
        workspace = self.workspace(n_rows, n_cols, inner)
        assert self.status(arrays, n_rows, n_cols, workspace) == 0
        records = self.records()
        assert len(records) == len(self.launches)
        rooms = _Rooms(arrays, workspace, self.launches, records)
        for launch, record in zip(self.launches, records, strict=True):
            self._run(launch, record, rooms)

    def records(self) -> list[_Recorded]:
        count = ctypes.c_int()
        ask = self.library.recorded_launches
        ask.restype = ctypes.POINTER(_Recorded)
        found = ask(ctypes.byref(count))
        return [_Recorded.from_buffer_copy(found[i]) for i in range(count.value)]

    def _run(self, launch: Launch, record: _Recorded, rooms: _Rooms) -> None:
        assert record.kernel == ctypes.cast(self.library[launch.symbol], ctypes.c_void_p).value
        n_pointers = len(launch.params) + len(launch.scratch)
        given = list(record.arguments[: n_pointers + len(launch.scalars)])
        kinds = self.module._parameters_of(launch.symbol)
        args: list[Any] = [rooms.at(a, k) if k.pointer else number_of(a, k)
                           for a, k in zip(given, kinds[:n_pointers], strict=False)]
        args += [ctypes.c_longlong(a).value for a in given[n_pointers:]]
        scratch = set(range(len(launch.params), n_pointers))
        written = {i for i, p in enumerate(launch.params) if p.output}
        self.module.launch(
            launch.symbol, (record.grid,), (record.threads,), args, outputs=written | scratch,
            initialised=scratch if launch.shares else (), seed=self.seed,
            shared_bytes=record.shared, cluster=record.cluster, together=bool(record.together),
        )


def _argument(given: Any) -> Any:
    """A scalar itself, an array's address."""
    if given.ndim:
        return ctypes.c_void_p(given.ctypes.data)
    return np.ctypeslib.as_ctypes_type(given.dtype)(given.item())


class _Rooms:
    """Arrays by their addresses: the caller's, and parts of the workspace up to the next one."""

    def __init__(
        self, arrays: Mapping[str, Any], workspace: np.ndarray, found: tuple[Launch, ...],
        records: list[_Recorded],
    ) -> None:
        self.arrays = {a.ctypes.data: bits_of(a) for a in arrays.values() if a.ndim}
        self.start, self.workspace = workspace.ctypes.data, workspace
        pointers = {a for n, r in zip(found, records, strict=True)
                    for a in _addresses(n, r)}
        self.begins = sorted(p for p in pointers if p not in self.arrays)
        self.views: dict[int, np.ndarray] = {}

    def at(self, address: int, kind: Parameter) -> np.ndarray:
        if address in self.arrays:
            return self.arrays[address]
        if address not in self.views:
            ends = [*self.begins, self.start + self.workspace.size]
            end = ends[bisect_right(self.begins, address)]
            assert self.start <= address < end <= ends[-1], "outside of the workspace"
            self.views[address] = self.workspace[address - self.start : end - self.start]
        if kind.letter == "x":
            return self.views[address].view(np.int16 if kind.size == 2 else np.uint8)
        return self.views[address].view(f"{kind.letter}{kind.size}")


def _addresses(launch: Launch, record: _Recorded) -> list[int]:
    every = zip((*launch.params, *launch.scratch), record.arguments, strict=False)
    return [a for p, a in every if getattr(p, "shape", "") != "scalar"]


def _text(found: tuple[Launch, ...], host: str) -> str:
    """The host's part of a file, with kernels that are names alone."""
    counts = [(n.symbol, len(n.params) + len(n.scratch) + len(n.scalars)) for n in found]
    return "\n".join([
        "struct __half { unsigned short bits; };", "struct __nv_bfloat16 { unsigned short bits; };",
        *(f'extern "C" void {symbol}() {{}}' for symbol, _ in counts),
        "static int simulated_arguments(const void* kernel)", "{",
        *(f"    if (kernel == reinterpret_cast<const void*>(&{symbol})) return {n};"
          for symbol, n in counts),
        "    return 0;", "}", host,
    ])


def _built(text: str) -> Any:
    stub = (_HERE / "cuda_runtime.h").read_text(encoding="utf-8")
    key = hashlib.sha256((text + stub).encode()).hexdigest()[:24]
    folder = _HERE.parent / "__pycache__"
    folder.mkdir(exist_ok=True)
    source, library = folder / f"host-{key}.cpp", folder / f"host-{key}.so"
    if not library.exists():
        source.write_text(text, encoding="utf-8")
        command = ["g++", *_FLAGS, f"-I{_HERE}", "-o", f"{library}.made", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        Path(f"{library}.made").rename(library)
    return ctypes.CDLL(str(library))
