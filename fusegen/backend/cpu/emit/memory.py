"""Elements in memory: how they are read into what kernels compute in, and written back."""

from __future__ import annotations

from fusegen.backend.cpu.emit.dialect import C_TYPES, CpuDialect
from fusegen.backend.cpu.emit.names import fg
from fusegen.ir.dtypes import DType
from fusegen.ir.kernel import Param


def load(dtype: DType, address: str, dialect: CpuDialect) -> str:
    """The value at `address` in the compute type: `V` lanes of it in lane text."""
    kind = "V" if dialect.lanes else dialect.real
    live = ", live" if dialect.partly else ""
    return f"{fg(_codec('load', dtype, dialect))}<{kind}>({address}{live})"


def store(dtype: DType, address: str, value: str, dialect: CpuDialect) -> str:
    """A statement that rounds to nearest even, clamps integers, and writes."""
    live = ", live" if dialect.partly else ""
    return f"{fg(_codec('store', dtype, dialect))}({address}, {value}{live});"


def _codec(verb: str, dtype: DType, dialect: CpuDialect) -> str:
    if dtype.kind == "int":
        return f"{verb}_int"
    if C_TYPES[dtype.name] == dialect.real:
        return verb
    return f"{verb}_{dtype.name}"


def pointer(param: Param) -> str:
    """Declared type of the array's address; of a scalar itself."""
    if param.shape == "scalar":
        return C_TYPES[param.dtype.name]
    return f"{'' if param.output else 'const '}{C_TYPES[param.dtype.name]}*"


def row_address(param: Param) -> str:
    """Where the row numbered `row` starts."""
    match param.shape:
        case "element":
            return f"arrays.{param.name} + row * arrays.{param.name}_stride"
        case "per_column" | "scalar":
            return f"arrays.{param.name}"
        case "row":
            return f"arrays.{param.name} + row * arrays.{param.name}_stride"
        case "list":
            return f"arrays.{param.name} + row * {param.step}"
        case "row_vector" if param.output:
            return f"arrays.{param.name} + row * {param.step}"
        case "row_vector":
            return f"arrays.{param.name} + row * arrays.{param.name}_stride"
        case "column_vector":
            return f"{_batch_address(param)}, arrays.{param.name}_step"
        case "columns":
            return _batch_address(param)
        case "states":
            return f"arrays.{param.name} + row * arrays.{param.name}_stride"


def _batch_address(param: Param) -> str:
    """Where the columns of the row numbered `row` start."""
    batch = f"row / arrays.{param.name}_rows * arrays.{param.name}_batch"
    return f"arrays.{param.name} + {batch}"
