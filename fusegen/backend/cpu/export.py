"""Programs for CPUs in exported libraries: the same source, and what says how it is called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fusegen.backend.cpu.emit.dialect import CpuDialect
from fusegen.backend.cpu.emit.scope import RowScope
from fusegen.backend.cpu.emit.source import cpu_source
from fusegen.backend.cpu.launch import finishes, visits
from fusegen.backend.cpu.past import column_bytes, writes_rows
from fusegen.backend.cpu.schedule import PART_ROWS, select_cpu
from fusegen.backend.emit.render import render
from fusegen.backend.exported import Part, Place, Text, Unit, Wish
from fusegen.backend.problem import Problem
from fusegen.backend.target import CPU_TARGETS, CpuTarget, host_cpu
from fusegen.ir.codec import encoded
from fusegen.ir.errors import ArgumentError
from fusegen.ir.kernel import FIRST_COLUMN, Kernel, Program, Sweep
from fusegen.ir.kernel_walk import names_in
from fusegen.ir.names import identifier

USUAL = "x86-64-v3"
"""The level that "cpu" means in a library for other machines: AVX2, on the market since 2013."""

# Of each level, those of its features that compilers can ask a processor for by one name.
_ASKED = {
    "x86-64-v3": ("avx2", "bmi", "bmi2", "fma"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}


def exported_targets(names: tuple[str, ...]) -> tuple[CpuTarget, ...]:
    """See `Exporting`."""
    here = host_cpu()
    family = here.name.startswith("x86-64")
    usual = CPU_TARGETS[USUAL] if family else here
    found = {usual if n == "cpu" else CPU_TARGETS[n] for n in names}
    for target in found:
        if target.name != "generic" and target.name.startswith("x86-64") != family:
            raise ArgumentError(f"a library for {target.name} cannot be made on {here.name}",
                                why="The compiler here makes code for this machine's family.",
                                fix="Export it on such a machine.")
    return tuple(t for t in CPU_TARGETS.values() if t in found)


def place() -> Place:
    def call(table: str) -> str:
        variant = f"{table.removesuffix('_cpu')}_variant"
        return f"on_cpu(text, {variant}, {table}, given, constants, sizes, threads)"

    return Place(
        name="cpu", header="cpu.hpp", argument="int threads",
        about=("On the processor: done when it returns. threads: at most so many; 0: as many as "
               "FUSEGEN_THREADS says,", "or as the process's processors, its control groups' time "
               "and OMP_NUM_THREADS allow. Any thread may call."),
        table=lambda name, entries:
            f"const std::vector<Level> {name} = {{{', '.join(entries)}}};",
        call=call, device=1, tensors=call,
        links=("-pthread",),
    )


@dataclass(frozen=True, slots=True)
class KernelView:
    declared: tuple[str, ...]
    step: str
    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LevelView:
    target: str
    runs: str
    condition: str
    program: str
    kernels: tuple[KernelView, ...]
    between: tuple[str, ...]


def part(text: Text, target: CpuTarget, wish: Wish) -> Part:
    """See `Exporting`."""
    schedule = select_cpu(text.program(), Problem(dtypes=text.dtypes), target)
    suffix = f"{identifier(wish.variant)}_{identifier(target.name)}"
    program = _renamed(text.program(schedule.grouping), wish.symbols, suffix)
    name = f"{wish.symbols}_{suffix}"
    asked = (f for level in _levels(target) for f in _ASKED[level])
    view = LevelView(
        target=target.name, runs=f"{name}_runs", program=f"{name}_program",
        condition=" && ".join(f'__builtin_cpu_supports("{f}")' for f in asked) or "true",
        kernels=tuple(_kernel_view(k, program, wish, schedule.piece) for k in program.kernels),
        between=tuple(f"{{Shape::{p.shape}, {p.dtype.itemsize}, {p.k}}}"
                      for p in program.workspace),
    )
    features = ", ".join(f.upper() for level in _levels(target) for f in _ASKED[level])
    needs = f"{target.name} ({features})" if features else target.name
    return Part(
        declared=render("export/cpu_declared.cpp.j2", {"level": view}),
        entry=f'{{"{needs}", {view.runs}, {view.program}}}',
        units=(Unit(f"{name}.cpp", cpu_source(program, schedule).text(), target.flags,
                    target.vector_bytes),),
        symbols=tuple(f"{k.name}_*" for k in program.kernels), needs=needs,
        record={"target": target.name, "lanes": schedule.lanes, "chunk": schedule.chunk,
                "piece": schedule.piece,
                "program": encoded(program).decode()},
    )


def _levels(target: CpuTarget) -> list[str]:
    """Levels whose features the target's code uses."""
    if target.name not in _ASKED:
        return []
    return [level for level in sorted(_ASKED) if level <= target.name]


def _renamed(program: Program, stem: str, suffix: str) -> Program:
    """The same program; no other of the library has its kernels' names."""
    many = len(program.kernels) > 1
    kernels = [replace(k, name=f"{stem}_{suffix}" + (f"_{i}" if many else ""))
               for i, k in enumerate(program.kernels, 1)]
    return replace(program, kernels=tuple(kernels))


# ---- what C++ has to know of a kernel's entry points: see templates/cpu/partials/entries ----


def _kernel_view(kernel: Kernel, program: Program, wish: Wish, piece: int) -> KernelView:
    declared = tuple(_declared(kernel))
    sweeps = ", ".join(_sweep(kernel, s) for s in _in_pieces(kernel))
    scratch = f"{kernel.name}_scratch_bytes" if _has_scratch(kernel) else "nullptr"
    begin = f"{kernel.name}_begin" if _begins(kernel) else "nullptr"
    known = f"{kernel.name}_known_bytes()" if _knows(kernel) else "0"
    together = PART_ROWS if kernel.has_vectors else 1
    step = (f"{{{kernel.name}_rows, {scratch}, {begin}, {known}, {{}}, {{{sweeps}}}, "
            f"{together}, {piece}}}")
    numbers = () if wish.row_numbers is None else (wish.row_numbers,)
    every = (*wish.order, *numbers, *(p.name for p in program.workspace))
    return KernelView(declared, step, tuple(_slots(kernel, every, wish.scalars)))


def _declared(kernel: Kernel) -> Iterator[str]:
    k, row = kernel.name, "const void*, int64_t"
    yield f"void {k}_rows({row}, int64_t, void*);"
    if _has_scratch(kernel):
        yield f"int64_t {k}_scratch_bytes(int64_t);"
    if _knows(kernel):
        yield f"int64_t {k}_known_bytes();"
    if _begins(kernel):
        yield f"void {k}_begin({row}, void*);"
    for sweep in _in_pieces(kernel):
        if _holds(sweep):
            yield f"int64_t {k}_state_bytes_{sweep.number}();"
        if visits(sweep):
            yield f"void {k}_fold_{sweep.number}({row}, int64_t, int64_t, const void*, void*);"
        if finishes(sweep):
            yield f"void {k}_finish_{sweep.number}({row}, int64_t, void*, void*);"


def _sweep(kernel: Kernel, sweep: Sweep) -> str:
    fold = f"{kernel.name}_fold_{sweep.number}" if visits(sweep) else "nullptr"
    finish = f"{kernel.name}_finish_{sweep.number}" if finishes(sweep) else "nullptr"
    size = f"{kernel.name}_state_bytes_{sweep.number}()" if _holds(sweep) else "0"
    return f"{{{fold}, {finish}, {size}}}"


def _in_pieces(kernel: Kernel) -> tuple[Sweep, ...]:
    """Sweeps that threads may share a row of: none over vectors, of which rows go together."""
    return () if kernel.has_vectors else kernel.sweeps


def _has_scratch(kernel: Kernel) -> bool:
    return kernel.has_vectors or any(map(_holds, kernel.sweeps))


def _begins(kernel: Kernel) -> bool:
    return bool(kernel.prelude) and not kernel.has_vectors


def _knows(kernel: Kernel) -> bool:
    scope = RowScope(kernel, CpuDialect(kernel.compute, lanes=False))
    return not kernel.has_vectors and bool(scope.known)


def _holds(sweep: Sweep) -> bool:
    return not sweep.monoid.is_empty


def _slots(
    kernel: Kernel, order: tuple[str, ...], scalars: tuple[str, ...]
) -> Iterator[str]:
    """The struct Arrays, word by word: see table.py."""
    for param in kernel.params:
        if param.shape == "scalar":
            yield f"{{Slot::{param.dtype.name}, {scalars.index(param.name)}}}"
            continue
        number = order.index(param.name)
        yield f"{{Slot::address, {number}}}"
        if param.shape == "column_vector":
            yield f"{{Slot::column_stride, {number}}}"
        if param.shape in ("column_vector", "columns"):
            yield f"{{Slot::outer, {number}}}"
            yield f"{{Slot::rows, {number}}}"
        if param.shape in ("element", "row") or (
            param.shape == "row_vector" and not param.output
        ):
            yield f"{{Slot::stride, {number}}}"
    yield "{Slot::columns, 0}"
    if FIRST_COLUMN.name in names_in(kernel):
        yield "{Slot::zero, 0}"
    if writes_rows(kernel):
        yield f"{{Slot::past, {column_bytes(kernel)}}}"
