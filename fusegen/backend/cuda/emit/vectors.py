"""Numbers of vectors one by one: row values that are sums over their index, and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fusegen.backend.cuda.emit.dialect import CudaDialect
from fusegen.backend.cuda.emit.places import array_name
from fusegen.backend.emit.lines import Line, inside
from fusegen.backend.emit.vector_sums import numbered, vectors_of
from fusegen.ir.expr import variables
from fusegen.ir.kernel import Gather, InnerStep, Kernel, Param


def number_line(param: Param, at: str, dialect: CudaDialect) -> Line:
    """The declaration of number `i` of a row's vector, or of column `at`'s."""
    if param.shape == "row_vector":
        array, stride = array_name(param), f"{param.name}_stride"
        place, uses = f"{array}[row * {stride} + i]", [array, stride, "row"]
    else:
        array, stride = f"{param.name}_columns", f"{param.name}_stride"
        place, uses = f"{array}[{at} * {stride} + i]", [array, stride]
    value = dialect.load(place, param.dtype)
    return Line(f"const {dialect.real} {param.name}_i = {value};", frozenset(uses),
                f"{param.name}_i")


def inner_lines(step: InnerStep, kernel: Kernel, dialect: CudaDialect) -> list[Line]:
    """A row value that is a sum over vectors' index; NaN without the column that it is of."""
    vectors = vectors_of(kernel)
    met = [n for n in variables(step.value) if n in vectors]
    lines, tests = columns_of(step, dialect)
    first = dialect.number(float("nan")) if tests else "0"
    lines.append(Line(f"{dialect.real} {step.name} = {first};", declares=step.name,
                      note=step.note))
    value = numbered(step.value, vectors)
    body = [number_line(vectors[n], f"{step.name}_{n}_at", dialect) for n in met]
    body.append(dialect.line(f"{step.name} += {dialect.text(value)};", value))
    loop = [Line("#pragma unroll 8"),
            Line(f"for (int i = 0; i < {vectors[met[0]].k}; ++i) {{"), *inside(body), Line("}")]
    if tests:
        zero = Line(f"{step.name} = 0;")
        loop = [Line(f"if ({' && '.join(tests)}) {{", frozenset(["n_cols"])),
                *inside([zero, *loop]), Line("}")]
    return lines + loop


def columns_of(step: InnerStep, dialect: CudaDialect) -> tuple[list[Line], list[str]]:
    """(declarations of the columns whose vectors a sum is over, conditions that they exist)."""
    lines, tests = [], []
    for name, index in step.at:
        at = f"{step.name}_{name}_at"
        lines.append(dialect.line(f"const long long {at} = {dialect.text(index)};", index,
                                  declares=at))
        tests.append(f"{at} >= 0 && {at} < n_cols")
    return lines, tests


def taken(
    takes: Iterable[Gather], kernel: Kernel, dialect: CudaDialect
) -> Iterator[tuple[list[Line], list[Line]]]:
    """(statements of the row, statements of number `i`) for vectors of one column; NaN without
    that column."""
    vectors = {n: p for n, p in vectors_of(kernel).items() if p.k > 1}
    for take in takes:
        at = f"{take.name}_at"
        index = dialect.line(f"const long long {at} = {dialect.text(take.index)};", take.index,
                             declares=at)
        numbers = [number_line(vectors[n], at, dialect)
                   for n in variables(take.value) if n in vectors]
        value = numbered(take.value, vectors)
        nan = dialect.number(float("nan"))
        then = [*numbers, dialect.line(f"{take.name}_i = {dialect.text(value)};", value)]
        yield [index], [
            Line(f"{dialect.real} {take.name}_i = {nan};", declares=f"{take.name}_i"),
            Line(f"if ({at} >= 0 && {at} < n_cols) {{", frozenset(["n_cols"])),
            *inside(then), Line("}")]
