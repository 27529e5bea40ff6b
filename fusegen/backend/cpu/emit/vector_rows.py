"""Vectors of a row, number by number: row values that are sums over their index, and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fusegen.backend.cpu.emit.dialect import CpuDialect
from fusegen.backend.cpu.emit.memory import load, store
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.emit.comments import noted
from fusegen.backend.emit.lines import Line, inside
from fusegen.backend.emit.vector_sums import numbered, vectors_of
from fusegen.ir.expr import Expr, Var, substitute, variables
from fusegen.ir.kernel import Gather, InnerStep, Kernel, Param, RowStore


def numbers_at(
    names: Iterable[str], vectors: dict[str, Param], row: CpuDialect, column: str
) -> Iterator[str]:
    """Declarations of number `i` of these vectors, of the row and of a column."""
    for name in names:
        if name in vectors:
            param = vectors[name]
            at = f"row.{name} + i" if param.shape == "row_vector" else \
                f"row.{name} + ({column}) * row.{name}_step + i"
            yield f"const {row.real} {name}_i = {load(param.dtype, at, row)};"


def inner_lines(
    step: InnerStep, kernel: Kernel, sums: Mapping[str, int], row: CpuDialect
) -> list[Line]:
    """A row value that is a sum over vectors' index; NaN without the column that it is of. sums:
    lengths of the state's own vectors."""
    vectors, used = vectors_of(kernel), frozenset(["row"])
    met = [n for n in variables(step.value) if n in vectors]
    lengths = [vectors[n].k for n in met]
    lengths += [sums[n] for n in (v.removeprefix("state.") for v in variables(step.value))
                if n in sums]
    lines, tests = [], []
    for name, index in step.at:
        at = f"{step.name}_{name}_at"
        lines.append(row.line(f"const int64_t {at} = {row.text(index)};", index, declares=at))
        tests.append(f"{at} >= 0 && {at} < row.n_cols")
    first = fg("nan") if tests else "0"
    lines.append(Line(f"{row.real} {step.name} = {first};", used, declares=step.name))
    body = [row.line(f"for (int64_t i = 0; i < {lengths[0]}; ++i) {{", uses=used)]
    for name in met:
        body += [Line(f"    {d}", used)
                 for d in numbers_at([name], vectors, row, f"{step.name}_{name}_at")]
    places: dict[str, Expr] = {f"state.{n}": Var(f"state.{n}[i]") for n in sums}
    value = numbered(substitute(step.value, places), vectors)
    total = noted(f"{step.name} += {row.text(value)};", step.note)
    body += [row.line(f"    {total}", value), Line("}")]
    if tests:
        zero = Line(f"{step.name} = 0;")
        body = [Line(f"if ({' && '.join(tests)}) {{", used), *inside([zero, *body]), Line("}")]
    return lines + body


def vector_store(
    row_store: RowStore, kernel: Kernel, sums: Iterable[str], row: CpuDialect
) -> list[Line]:
    """A result that is a vector, number by number."""
    param, vectors = kernel.param(row_store.param), vectors_of(kernel)
    places: dict[str, Expr] = {f"state.{n}": Var(f"state.{n}[i]") for n in sums}
    several = {n: p for n, p in vectors.items() if p.k > 1}
    places |= {t.name: Var(f"{t.name}_i", t.value.kind) for t in row_store.takes}
    value = row.text(numbered(substitute(row_store.value, places), several))
    text = store(param.dtype, f"row.{param.name} + i", value, row)
    body = list(numbers_at(variables(row_store.value), several, row, "0"))
    lines = [row.line(f"const int64_t {t.name}_at = {row.text(t.index)};", t.index,
                      declares=f"{t.name}_at") for t in row_store.takes]
    body += [_taken(t, several, row) for t in row_store.takes]
    made = [*lines, Line(f"for (int64_t i = 0; i < {param.k}; ++i) {{"),
            *(Line(f"    {d}", frozenset(["row"])) for d in body),
            row.line(f"    {noted(text, row_store.note)}", row_store.value, uses=["row"]),
            Line("}")]
    if not lines:
        return made
    return [Line("{"), *inside(made), Line("}")]  # other results may take the same


def _taken(take: Gather, vectors: dict[str, Param], row: CpuDialect) -> str:
    """Number `i` of the vector of one column; NaN without that column."""
    at = f"{take.name}_at"
    inner = " ".join(numbers_at(variables(take.value), vectors, row, at))
    made = f"[&] {{ {inner} return {row.text(numbered(take.value, vectors))}; }}()"
    there = f"{at} >= 0 && {at} < row.n_cols"
    return f"const {row.real} {take.name}_i = {there} ? {made} : {fg('nan')};"
