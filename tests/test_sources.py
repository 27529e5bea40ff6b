"""Where items come from is a type: this file adds two kinds of source, one function each on either
backend, and nothing else knows of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from support import cpu_cases
from support.cuda_cases import assert_close, library_case
from support.emulated import EmulatedExecutable, emulated

from fusegen.backend.cpu.emit import sources as cpu
from fusegen.backend.cpu.emit.dialect import CpuDialect
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.cpu.run import made
from fusegen.backend.cuda.emit import sources as cuda
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.emit.lines import Line
from fusegen.backend.target import CUDA_TARGETS
from fusegen.ir.errors import BackendError
from fusegen.ir.expr import Lit, call
from fusegen.ir.kernel import COLUMN, N_COLS, FromMemory, Kernel, Layout, Program


@dataclass(frozen=True)
class Reversed:
    """The elements of a row from its end."""

    name: str

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.name,)


BACKWARDS = Layout(column=call("sub", call("sub", N_COLS, Lit(1, "int")), COLUMN))


@cuda.printed.register
def _(source: Reversed, reader: cuda.Reader) -> cuda.SourceView:
    return cuda.in_memory(source.name, BACKWARDS, reader)


@cpu.printed.register
def _(source: Reversed, kernel: Kernel, lanes: CpuDialect) -> list[str]:
    return cpu.in_memory(source.name, BACKWARDS, kernel, lanes)


@dataclass(frozen=True)
class Ramp:
    """Items that no memory holds: 3 at the row's begin, and less with every column."""

    name: str
    reads: tuple[str, ...] = ()


@cuda.printed.register
def _(source: Ramp, reader: cuda.Reader) -> cuda.SourceView:
    item = Line(f"const float {source.name} = 3.0f - 0.001f * column;", frozenset(["column"]))
    return cuda.SourceView(source.name, item, item)


@cpu.printed.register
def _(source: Ramp, kernel: Kernel, lanes: CpuDialect) -> list[str]:
    column = f"{fg('convert')}<V>({fg('column_numbers')}<V>(col))"
    return [f"const V {source.name} = 3.0f - 0.001f * {column};"]


def from_other(program: Program, kind: type) -> Program:
    """The program with x from another source, in every sweep."""

    def sourced(kernel: Kernel) -> Kernel:
        sweeps = [replace(s, loads=tuple(kind(n) for n in s.streams)) for s in kernel.sweeps]
        return replace(kernel, sweeps=tuple(sweeps))

    return replace(program, kernels=tuple(map(sourced, program.kernels)))


def ramp(x: np.ndarray) -> np.ndarray:
    columns = np.arange(x.shape[-1], dtype=np.float32)
    return np.broadcast_to(np.float32(3) - np.float32(0.001) * columns, x.shape)


OTHERS = [(Reversed, lambda x: x[..., ::-1]), (Ramp, ramp)]
NAMES = ["softmax", "logsumexp", "var_mean", "argmax", "softmax_topk"]


@emulated
@pytest.mark.parametrize("n_cols", [96, 1601, 4096])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("kind", "meant"), OTHERS, ids=["reversed", "ramp"])
def test_another_source_on_gpus(kind, meant, name: str, n_cols: int) -> None:
    case = library_case(name, 2, n_cols)
    work = case.work(aligned=n_cols % 4 == 0, n_rows=100_000)
    program = from_other(work.result("lower"), kind)
    found = candidates(program, work.problem, CUDA_TARGETS["sm_90"])
    want = replace(case, inputs={"x": np.ascontiguousarray(meant(case.inputs["x"]))}).reference()
    for schedule in {c.schedule.kind: c.schedule for c in found[::-1]}.values():
        if schedule.split:
            continue  # as blocks, with device memory between them
        source = cuda_source_of(program, schedule)
        run = EmulatedExecutable(program, schedule, source, 0)
        arrays = {"x": case.inputs["x"]}
        for p in program.outputs:
            shape = {"element": (2, n_cols), "row": (2,)}.get(p.shape, (2, p.k))
            arrays[p.name] = np.zeros(shape, p.dtype.numpy)
        run(arrays, 2, n_cols)
        assert_close(tuple(arrays[p.name] for p in program.outputs), want, 1e-5)


def cuda_source_of(program, schedule) -> str:
    from fusegen.backend.cuda.emit import cuda_source

    return cuda_source(program, schedule).text()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("kind", "meant"), OTHERS, ids=["reversed", "ramp"])
def test_another_source_on_cpus(kind, meant, name: str) -> None:
    case = library_case(name, 3, 1001)
    program = from_other(case.work().result("lower"), kind)
    run = made(program, *cpu_cases.source(program))
    want = replace(case, inputs={"x": np.ascontiguousarray(meant(case.inputs["x"]))}).reference()
    assert_close(cpu_cases.run(run, case.inputs, 1001), want, 1e-5)


@dataclass(frozen=True)
class Unheard:
    name: str
    reads: tuple[str, ...] = ()


def test_a_source_that_nobody_prints_is_refused() -> None:
    case = library_case("softmax", 3, 100)
    work = case.work()
    program = from_other(work.result("lower"), Unheard)
    with pytest.raises(BackendError, match="Unheard"):
        cuda_source_of(program, work.schedule)
    with pytest.raises(BackendError, match="Unheard"):
        cpu_cases.source(program)


def test_sources_say_what_they_read() -> None:
    for sweep in library_case("layer_norm", 1, 64).work().result("lower").sweeps:
        assert sweep.reads == sweep.streams == tuple(s.name for s in sweep.loads)
        assert all(isinstance(s, FromMemory) for s in sweep.loads)
