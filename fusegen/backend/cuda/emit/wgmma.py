"""Products of a warpgroup (wgmma): a function for each shape, as their operands are as many.

The template cuda/tiles/wgmma_products.cuh.j2 prints those in `products`:
`name(float (&sums)[n / 2], a, b, bool add)`, where b is a matrix_descriptor of
<fusegen/tiles/instructions.cuh>, and a another, or four registers; one that `begins` has no `add`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fusegen.backend.emit.render import wrapped
from fusegen.ir.errors import InternalError

Operand: TypeAlias = Literal["float16", "bfloat16", "tfloat32"]

_TYPES = {"float16": "f16", "bfloat16": "bf16", "tfloat32": "tf32"}
_ROWS = 64
_THREADS = 128


@dataclass(frozen=True, slots=True)
class Wgmma:
    """Products of 64 rows and n columns, of an inner index of 32 bytes.

    b is (n, k) as rows in shared memory, or (k, n) if `b_transposed`; a is (64, k) there, or in
    registers, as sums of a product before are once they are packed two by two.
    """

    name: str  # the function's
    n: int
    operand: Operand
    a_in_registers: bool = False
    b_transposed: bool = False
    begins: bool = False  # are sums only written? See `outputs`

    def __post_init__(self) -> None:
        if self.n % 8 or not 8 <= self.n <= 256:
            raise InternalError(f"{self.name}: wgmma has n = 8, 16 … 256, not {self.n}")
        if self.b_transposed and self.operand == "tfloat32":
            raise InternalError(f"{self.name}: only 16-bit matrices are transposed by wgmma")

    @property
    def k(self) -> int:
        return 8 if self.operand == "tfloat32" else 16

    @property
    def sums(self) -> int:
        """Registers of a thread."""
        return self.n * _ROWS // _THREADS

    @property
    def type(self) -> str:
        return _TYPES[self.operand]

    @property
    def a_type(self) -> str:
        return "const unsigned*" if self.a_in_registers else "unsigned long long"

    @property
    def a_places(self) -> str:
        if not self.a_in_registers:
            return f"%{self.sums}"
        return "{ " + ", ".join(f"%{self.sums + i}" for i in range(4)) + " }"

    @property
    def a_inputs(self) -> str:
        if not self.a_in_registers:
            return '"l"(a)'
        return ", ".join(f'"r"(a[{i}])' for i in range(4))

    @property
    def b(self) -> int:
        """The number of b among the operands."""
        return self.sums + (4 if self.a_in_registers else 1)

    @property
    def add(self) -> int:
        return self.b + 1

    @property
    def flags(self) -> str:
        """Signs of a and b, and which of them lie transposed in shared memory."""
        transposed = ["0"] * (not self.a_in_registers) + [str(int(self.b_transposed))]
        return ", ".join(["1", "1", *(transposed if self.k == 16 else ())])

    @property
    def places(self) -> list[str]:
        return _broken(f"%{i}" for i in range(self.sums))

    @property
    def outputs(self) -> list[str]:
        """Sums that a product reads, even where it adds nothing to them, live on from what they
        were before: registers are moved back to where they lay. One that begins reads none."""
        kind = "=f" if self.begins else "+f"
        return _broken(f'"{kind}"(sums[{i}])' for i in range(self.sums))


def _broken(items: Iterable[str]) -> list[str]:
    lines = wrapped(items)
    return [f"{line}, " for line in lines[:-1]] + lines[-1:]
