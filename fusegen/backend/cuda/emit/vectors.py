"""Numbers of vectors one by one: row values that are sums over their index, and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.emit.places import array_name
from fusegen.backend.emit.lines import Line, inside
from fusegen.backend.emit.vector_sums import numbered, vectors_of
from fusegen.ir.expr import Var, substitute, variables
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
    params = [vectors[n] for n in dict.fromkeys((*step.rows, *(n for n, _ in step.at)))]
    shared = dialect.rows_shared and _by_lanes(params)
    loop = [*_shared_sum(step, params, dialect)] if shared else [
        *_sum(step, [vectors[n] for n in met], dialect)]
    if tests:
        zero = Line(f"{step.name} = 0;")
        loop = [Line(f"if ({' && '.join(tests)}) {{", frozenset(["n_cols"])),
                *inside([zero, *loop]), Line("}")]
    if shared:
        loop += [Line(f"{step.name} += __shfl_xor_sync(0xffffffffu, {step.name}, {apart});")
                 for apart in (1, 2)]
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


def _sum(step: InnerStep, met: Sequence[Param], dialect: CudaDialect) -> Iterator[Line]:
    """By one lane."""
    value = numbered(step.value, {p.name: p for p in met})
    body = [number_line(p, f"{step.name}_{p.name}_at", dialect) for p in met]
    yield Line("#pragma unroll 8")
    yield Line(f"for (int i = 0; i < {met[0].k}; ++i) {{")
    yield from inside([*body, dialect.line(f"{step.name} += {dialect.text(value)};", value)])
    yield Line("}")


def _by_lanes(params: Sequence[Param]) -> bool:
    """Are they of one type of 16 bits, 8 numbers a word of 16 bytes?"""
    kinds = {p.dtype.number for p in params}
    return len(kinds) == 1 and params[0].dtype.itemsize == 2 and params[0].k % 8 == 0


def _shared_sum(
    step: InnerStep, params: Sequence[Param], dialect: CudaDialect
) -> Iterator[Line]:
    """By four lanes, 8 numbers at a time of each: such vectors lie at multiples of 16 bytes."""
    first = params[0]
    places, uses = [], set()
    for p in params:
        array = array_name(p) if p.shape == "row_vector" else f"{p.name}_columns"
        row = "row" if p.shape == "row_vector" else f"{step.name}_{p.name}_at"
        places.append(f"{array} + {row} * {p.name}_stride")
        uses |= {array, f"{p.name}_stride", row}
    kind = C_TYPES[first.dtype.name]
    items = {p.name: Var(f"items[{i}]", "float", varying=True) for i, p in enumerate(params)}
    text = dialect.text(substitute(step.value, items))
    read = f"[]({kind} stored) {{ return {dialect.load('stored', first.dtype)}; }}"
    term = f"[=](const float (&items)[{len(params)}]) {{ return {text}; }}"
    yield Line(f"const {kind}* const {step.name}_from[] = {{ {', '.join(places)} }};",
               frozenset(uses), f"{step.name}_from")
    yield dialect.line(f"{step.name} = sum_of_lanes<{first.k}>({step.name}_from, {read}, {term});",
                       step.value)


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
