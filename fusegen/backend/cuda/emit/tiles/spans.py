"""Columns that contribute to a row: a span, and tiles that a condition may leave something of."""

from __future__ import annotations

from fusegen.backend.cuda.emit.elements import ElementPrinter
from fusegen.backend.cuda.emit.tiles.scope import Scope
from fusegen.backend.emit.lines import Line, inside
from fusegen.backend.emit.possible import possible
from fusegen.ir.kernel import N_COLS, Sweep


def span_lines(sweep: Sweep, scope: Scope) -> list[Line]:
    """Statements: the span of a row."""
    dialect, lines = scope.dialect, []
    first, end = sweep.span
    for name, start, expr, pick in (("first", "0", first, "max"),
                                    ("end", N_COLS.name, end, "min")):
        if expr is None:
            text = Line(f"mine.{name} = {start};", frozenset([N_COLS.name]))
        else:
            value = f"static_cast<long long>({dialect.text(expr)})"
            start = f"static_cast<long long>({start})"
            clamped = f"{pick}({start}, {value})"
            if name == "end":
                clamped = f"max(0LL, {clamped})"
            else:
                clamped = f"min(static_cast<long long>(n_cols), {clamped})"
            text = dialect.line(f"mine.{name} = static_cast<column_t>({clamped});", expr, N_COLS)
        lines.append(text)
    return scope.opened(lines)


def possible_lines(sweep: Sweep, scope: Scope) -> list[Line]:
    """Statements: may columns [begin, end) contribute? None where no condition is asked."""
    only = sweep.only
    if only is None:
        return []
    text = possible(only, "begin", "(end - 1)", scope.dialect.text)
    return scope.opened([scope.dialect.line(f"return {text};", only)])


def span_bits(sweep: Sweep) -> tuple[str, ...]:
    """Words that say of a slot's items whether they contribute, all of them together, where no more
    is asked than that columns are in the row's span."""
    if sweep.only is not None or sweep.counted is not None:
        return ()
    before = "items_before<kColumns>(mine.{} - lane_column)"
    first = (f"~{before.format('first')}",) if sweep.span[0] is not None else ()
    return (before.format("end"), *first)


def live_lines(sweep: Sweep, elements: ElementPrinter) -> list[Line]:
    """Statements: `live`, does the item at `column` contribute?"""
    only, counted, dialect = sweep.only, sweep.counted, elements.dialect
    test, kind = "column >= mine.first && column < mine.end", "const " * (counted is None)
    found = [Line(f"{kind}bool live = {test};")]
    if only is not None:
        found = [dialect.line(f"{kind}bool live = {test} && {dialect.operand(only)};", only)]
    if counted is not None:
        asked = [*elements.item_lines([counted]),
                 dialect.line(f"live = {dialect.text(counted)};", counted)]
        found += [Line("if (live) {"), *inside(asked), Line("}")]  # what is loaded is there
    return found
