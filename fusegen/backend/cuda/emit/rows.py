"""Row scope as statements: values, gathers, folds over the entries of a list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from fusegen.backend.cuda.emit.bands import entries_of
from fusegen.backend.cuda.emit.dialect import CudaDialect
from fusegen.backend.cuda.emit.entries import TEAM, Owners, entry_lines, own_entries
from fusegen.backend.cuda.emit.places import array_name, load_line, place_in_row, pointer_of
from fusegen.backend.cuda.emit.state import identity_of
from fusegen.backend.cuda.emit.vectors import inner_lines
from fusegen.backend.cuda.schedule.band_entries import waiting_lists
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.emit.folds import taken_in
from fusegen.backend.emit.lines import Line, inside, uses_of
from fusegen.ir.errors import InternalError
from fusegen.ir.expr import variables
from fusegen.ir.kernel import ENTRY, ROW, Gather, InnerStep, Kernel, Let, ListFold, ListStore, Step
from fusegen.ir.kernel_walk import names_in
from fusegen.ir.monoid import Folded


def owners_of(kernel: Kernel, schedule: CudaSchedule, dialect: CudaDialect) -> Owners:
    """Who has which entries of a kernel's lists."""
    given = [p for p in kernel.params if p.shape == "list" and not p.output]
    lines = tuple(load_line(p, place_in_row(p), dialect, "row", "entry") for p in given)
    waiting = frozenset(w.param.name for w in waiting_lists(kernel, schedule))
    return replace(Owners.of(schedule), given=lines, short=ENTRY.name in names_in(kernel),
                   waiting=waiting)


def step_lines(
    steps: Iterable[Step], kernel: Kernel, dialect: CudaDialect, owners: Owners | None = None
) -> list[Line]:
    """Row-scope statements: values, gathers, folds of a list."""
    lines: list[Line] = []
    for step in steps:
        match step:
            case Let(name=name, expr=expr):
                lines.append(dialect.let(name, expr, step.note))
            case Gather():
                lines += _gather_lines(step, kernel, dialect)
            case ListFold():
                lines += _list_fold_lines(step, kernel, dialect, owners or Owners())
            case InnerStep():
                lines += inner_lines(step, kernel, dialect)
    return lines


def early_steps(kernel: Kernel) -> tuple[Step, ...]:
    """Row values of the first sweep that do not wait for its state: gathers, above all, whose
    memory is far away. They are computed before the sweep."""
    sweep = kernel.sweeps[0]
    late: set[str] = set()
    found = []
    for step in sweep.steps:
        used = names_used(step)
        if used is None or late & used or any(n.startswith("state.") for n in used):
            late.add(step.name)
        else:
            found.append(step)
    return tuple(found) if any(isinstance(s, Gather) for s in found) else ()


def names_used(step: Step) -> set[str] | None:
    """Names that a step's expressions use; None if it is over the entries of a list."""
    match step:
        case Let(expr=expr):
            return set(variables(expr))
        case Gather(index=index, value=value, lets=lets):
            exprs = (index, value, *(let.expr for let in lets))
            return {n for e in exprs for n in variables(e)}
        case ListFold():
            return None
        case InnerStep():
            raise InternalError(f"{step.name}: CUDA kernels have no vectors")


def list_stores(
    stores: Iterable[ListStore], kernel: Kernel, dialect: CudaDialect, owners: Owners
) -> dict[tuple[str, int], list[Line]]:
    """Results that are lists: by a list's name and length, statements for one entry. Stores of a
    list share a loop, and what they have in common."""
    grouped: dict[tuple[str, int], list[Line]] = {}
    done: dict[tuple[str, int], list[Step]] = {}
    for s in stores:
        lines = grouped.setdefault((s.entries.top, s.entries.k), [])
        known = done.setdefault((s.entries.top, s.entries.k), [])
        steps = [step for step in s.entries.steps if step not in known]
        lines += step_lines(steps, kernel, dialect, owners)
        known += steps
        param = kernel.param(s.param)
        value, divisors = dialect.divided(partial(dialect.stored, s.value, param.dtype))
        lines += [ln for ln in divisors if ln not in lines]
        place, at = place_in_row(param), [array_name(param), ROW.name, ENTRY.name]
        if s.param in owners.waiting:
            place, at = f"{entries_of(param)}.at(here, entry)", [entries_of(param), ENTRY.name]
        lines.append(Line(f"{place} = {value};", dialect.uses(s.value).union(at), note=s.note))
    return grouped


def _gather_lines(step: Gather, kernel: Kernel, dialect: CudaDialect) -> list[Line]:
    at, kind = f"{step.name}_at", dialect.type_of(step.value.kind)
    outside = dialect.number(float("nan")) if step.value.kind == "float" else "0"
    index = f"const long long {at} = {dialect.text(step.index)};"
    then = [load_line(p, f"{pointer_of(p)}[{at}]", dialect, pointer_of(p))
            for p in map(kernel.param, step.loads)]
    then += step_lines(step.lets, kernel, dialect)
    then.append(dialect.line(f"{step.name} = {dialect.text(step.value)};", step.value))
    return [
        Line(f"{kind} {step.name} = {outside};", declares=step.name, note=step.note),
        dialect.line(index, step.index, declares=at),
        Line(f"if ({at} >= 0 && {at} < n_cols) {{", frozenset([at, "n_cols"])),
        *inside(then), Line("}"),
    ]


def _list_fold_lines(
    step: ListFold, kernel: Kernel, dialect: CudaDialect, owners: Owners
) -> list[Line]:
    folded = Folded(step.name, step.fold, step.value, step.value.kind)
    top, k, name = step.entries.top, step.entries.k, step.name
    lets = step_lines(step.entries.steps, kernel, dialect)
    value, divisors = dialect.divided(partial(dialect.text, step.value))
    taken = taken_in(folded, name, value, dialect.use)
    found = [*lets, *divisors, dialect.line(taken, step.value)]
    kind, first = dialect.type_of(step.value.kind), identity_of(folded, dialect)
    whole = Line(f"{kind} {name} = {first};", declares=name, note=step.note)
    if not owners.in_warp:
        names = owners.loaded(top) or entry_lines(top, owners.key(top), uses_of(found))
        entries = [*names, *found]
        return [whole, Line(f"for (int entry = 0; entry < {k}; ++entry) {{"),
                *inside(entries), Line("}")]
    other = f"__shfl_xor_sync(0xffffffffu, {name}, lane_mask)"
    return [
        whole, *own_entries(top, k, owners, found), Line("#pragma unroll"),
        Line(f"for (int lane_mask = {TEAM} / 2; lane_mask > 0; lane_mask /= 2)",
             frozenset(["Team"])),
        Line(f"    {taken_in(folded, name, other, dialect.use)}"),
    ]
