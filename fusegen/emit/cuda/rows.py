"""Row scope as statements: values, gathers, folds over the entries of a list."""

from __future__ import annotations

from collections.abc import Iterable

from fusegen.emit.comments import noted
from fusegen.emit.cuda.dialect import C_TYPES, CudaDialect
from fusegen.emit.cuda.state import folded_into, identity_of, lifted
from fusegen.expr import variables
from fusegen.kernel import Gather, Kernel, Let, ListFold, Param, Step
from fusegen.monoid import Folded
from fusegen.schedule.cuda import CudaSchedule, Lists


def array_name(param: Param) -> str:
    """The parameter's own name: single values are called as the user calls them."""
    if param.output:
        return f"{param.name}_out"
    return f"{param.name}_in" if param.shape in ("row", "per_column") else param.name


def pointer_of(param: Param) -> str:
    """The variable that points at this row's elements."""
    return f"{param.name}_row" if param.shape == "element" else array_name(param)


def body_of(param: Param, schedule: CudaSchedule) -> str:
    """The variable that points at the first whole vector of this row's elements."""
    split = schedule.load == "peeled" and param.shape == "element"
    return f"{param.name}_body" if split else pointer_of(param)


def edge_lines(param: Param) -> list[str]:
    """Statements that read this thread's element at the edges of the row."""
    return [f"Items<{C_TYPES[param.dtype.name]}, 1> {param.name}_edge = {{}};",
            f"if (edge >= 0) {param.name}_edge.set(0, {pointer_of(param)}[edge]);"]  # fmt: skip


def step_lines(
    steps: Iterable[Step], kernel: Kernel, dialect: CudaDialect, lists: Lists = "streamed"
) -> list[str]:
    """Row-scope statements: values, gathers, folds of a list."""
    lines: list[str] = []
    for step in steps:
        match step:
            case Let(name=name, expr=expr):
                kind = dialect.type_of(expr.kind)
                lines.append(noted(f"const {kind} {name} = {dialect.text(expr)};", step.note))
            case Gather():
                lines += _gather_lines(step, kernel, dialect)
            case ListFold():
                lines += _list_fold_lines(step, kernel, dialect, lists)
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


def _gather_lines(step: Gather, kernel: Kernel, dialect: CudaDialect) -> list[str]:
    at = f"{step.name}_at"
    outside = dialect.number(float("nan")) if step.value.kind == "float" else "0"
    lines = [
        noted(f"{dialect.type_of(step.value.kind)} {step.name} = {outside};", step.note),
        f"const long long {at} = {dialect.text(step.index)};",
        f"if ({at} >= 0 && {at} < n_cols) {{",
    ]
    for n in step.loads:
        param = kernel.param(n)
        raw = dialect.load(f"{pointer_of(param)}[{at}]", param.dtype)
        lines.append(f"    const {dialect.type_of(param.dtype.kind)} {n} = {raw};")
    lines += [f"    {text}" for text in step_lines(step.lets, kernel, dialect)]
    return [*lines, f"    {step.name} = {dialect.text(step.value)};", "}"]


def _list_fold_lines(
    step: ListFold, kernel: Kernel, dialect: CudaDialect, lists: Lists
) -> list[str]:
    folded = Folded(step.name, step.fold, step.value, step.value.kind)
    top, k, name = step.entries.top, step.entries.k, step.name
    lets = step_lines(step.entries.steps, kernel, dialect)
    value, divisors = dialect.divided(lambda: lifted(folded, dialect))
    found = [*lets, *divisors, f"{name} = {folded_into(folded, name, value, dialect)};"]
    kind, first = dialect.type_of(step.value.kind), identity_of(folded, dialect)
    whole = noted(f"{kind} {name} = {first};", step.note)
    if lists == "streamed":
        return [whole, f"for (int entry = 0; entry < {k}; ++entry) {{",
                *(f"    {ln}" for ln in (*entry_lines(top, f"{top}_best[entry]"), *found)), "}"]
    other = f"__shfl_xor_sync(0xffffffffu, {name}, lane_mask)"
    return [
        whole, *lane_entries(top, k, lists, found),
        "#pragma unroll", "for (int lane_mask = kTeam / 2; lane_mask > 0; lane_mask /= 2)",
        f"    {name} = {folded_into(folded, name, other, dialect)};",
    ]  # fmt: skip


def lane_entries(top: str, k: int, lists: Lists, lines: Iterable[str]) -> list[str]:
    """`lines` for the entries that are this lane's, of a list that a warp's lanes own."""
    if lists == "counted":
        head = [f"for (int entry = rank; entry < {k}; entry += kTeam) {{"]
        key = f"{top}_best[entry]"
    else:
        head = ["#pragma unroll", f"for (int own = 0; own * kTeam < {k}; ++own) {{",
                "    const int entry = own * kTeam + rank;",
                f"    if (entry >= {k}) break;"]  # fmt: skip
        key = f"{top}_own[own]"
    return [*head, *(f"    {ln}" for ln in (*entry_lines(top, key), *lines)), "}"]


def entry_lines(top: str, key: str) -> list[str]:
    return [
        f"const auto {top}_entry = {key};",
        f"const auto {top}_value = {top}_keys.value({top}_entry);",
        f"const column_t {top}_column = {top}_keys.column({top}_entry);",
    ]
