"""Names, types and texts as C has them."""

from __future__ import annotations

from collections.abc import Iterator

from fusegen.backend.cpu.emit.dialect import C_TYPES
from fusegen.ir.dtypes import DType
from fusegen.ir.kernel import Param

# Names in functions that parameters stand in, C's own beside C++'s, and what compilers define.
_TAKEN = frozenset(["constant_names", "constants", "given", "i386", "last_rows", "linux", "on_cpu",
                    "on_gpu", "parameters", "restrict", "rules", "sizes", "stream", "text",
                    "threads", "unix"])
_ENDS = ("_parameters", "_types", "_numbers", "_variant", "_cpu", "_cuda")
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}  # of DLPack


def argument(name: str) -> str:
    """A parameter of a kernel as a parameter of C's."""
    return f"{name}_" if name in _TAKEN or name.endswith(_ENDS) else name


def declared(param: Param) -> str:
    """The array as a parameter; floats of 16 bits are their bits."""
    const = "" if param.output else "const "
    return f"{const}{C_TYPES[param.dtype.name]}* {argument(param.name)}"


def type_text(dtype: DType) -> str:
    """A struct Type."""
    code = _CODES[dtype.name.rstrip("0123456789")]
    return f'{{{code}, {8 * dtype.itemsize}, "{dtype.name}"}}'


def c_string(text: str, width: int = 90) -> Iterator[str]:
    """The text as adjacent string literals, a line each; the same to every compiler."""
    line = ""
    for byte in text.encode():
        char = chr(byte)
        plain = 32 <= byte < 127 and char not in '"\\?'
        line += char if plain else f"\\{byte:03o}"
        if len(line) >= width:
            yield f'"{line}"'
            line = ""
    yield f'"{line}"'
