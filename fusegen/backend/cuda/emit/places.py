"""Where a kernel's arrays are: their names, types, and places in them."""

from __future__ import annotations

from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.on_chip import folds_as_it_lies
from fusegen.backend.emit.lines import Line
from fusegen.ir.kernel import Kernel, Param, Sweep


def array_name(param: Param) -> str:
    """The parameter's own name: single values are called as the user calls them."""
    if param.output:
        return f"{param.name}_out"
    return param.name if param.shape in ("element", "scalar") else f"{param.name}_in"


def declared(param: Param, restrict: str = " ") -> str:
    """A parameter in a list of them."""
    kind = f"{C_TYPES[param.dtype.name]} " if param.shape == "scalar" else (
        f"{pointer_type(param)}{restrict}")
    return f"{kind}{array_name(param)}"


def pointer_type(param: Param) -> str:
    """An array's C type."""
    return f"{'' if param.output else 'const '}{C_TYPES[param.dtype.name]}*"


def place_in_row(param: Param) -> str:
    """Where this row's value is in a `row` array, or entry `entry` in a `list` array."""
    row = "row" if param.step == 1 else f"row * {param.step}"
    return f"{array_name(param)}[{row} + entry]" if param.shape == "list" else (
        f"{array_name(param)}[{row}]")


def pointer_of(param: Param) -> str:
    """The variable that points at this row's elements."""
    own = param.shape in ("element", "columns")
    return f"{param.name}_row" if own else array_name(param)


def body_of(param: Param, schedule: CudaSchedule) -> str:
    """The variable that points at the first whole vector of this row's elements, or at what all
    rows share beside these."""
    split = schedule.has_edges and param.shape in ("element", "per_column")
    return f"{param.name}_body" if split else pointer_of(param)


def edge_of(sweep: Sweep, kernel: Kernel, schedule: CudaSchedule) -> str:
    """The variable that says in which column this thread's element at the edges of the row is, for
    one of the sweeps."""
    lies = sweep is kernel.sweeps[0] and folds_as_it_lies(kernel, schedule)
    return "first_edge" if lies else "edge"


def edge_line(param: Param, pointer: str, column: str, edge: str) -> Line:
    """The statement that reads this thread's item at the edges of the row, in column `edge`."""
    place = column if column == edge else f"{edge} >= 0 ? {column} : -1"
    return Line(f"auto {param.name}_{edge} = edge_item<Layout>({pointer}, {place});",
                frozenset([pointer]), declares=f"{param.name}_{edge}")


def load_line(param: Param, place: str, dialect: CudaDialect, *uses: str) -> Line:
    """The declaration of an array's element at a place, under the array's own name."""
    return loaded_line(param, dialect.load(place, param.dtype), dialect, *uses)


def loaded_line(param: Param, value: str, dialect: CudaDialect, *uses: str) -> Line:
    """Likewise, of a value in the type that kernels compute in."""
    text = f"const {dialect.type_of(param.dtype.kind)} {param.name} = {value};"
    return Line(text, frozenset(uses), declares=param.name)
