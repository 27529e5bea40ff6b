"""GPUs' memory without CuPy: arrays as their own libraries have them, and results of theirs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NoReturn

from fusegen.backend.cuda.plain.context import on_gpu
from fusegen.backend.cuda.plain.sources import of_other, of_torch
from fusegen.backend.host.memory import check_tensor, is_tensor
from fusegen.backend.host.readers import tensor_maker
from fusegen.backend.memory import Adopted, Reader, Shape
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import ArgumentError, BackendError


def has_cupy() -> bool:
    """Is CuPy installed? It is not imported for that."""
    if "cupy" in sys.modules:
        return sys.modules["cupy"] is not None
    return find_spec("cupy") is not None


@dataclass(frozen=True, slots=True)
class PlainMemory:
    """See `Memory`; arrays are Views. What needs values, or a compiler, needs CuPy."""

    name: str = "cuda"
    single: bool = False

    def place(self, index: int) -> str:
        return f"GPU {index}"

    def takes(self, given: Any) -> bool:
        return False  # arrays come by `GpuMemory`

    def adopt(self, name: str, given: Any) -> Adopted:
        if is_tensor(given):
            check_tensor(name, given)
            plain = given.detach() if given.requires_grad else given
            array, dtype = of_torch(plain)
            return Adopted(array, dtype, self, "torch", plain, array.data.device_id)
        array, dtype = of_other(name, given)
        return Adopted(array, dtype, self, "foreign", given, array.data.device_id)

    def working(self, like: Adopted) -> AbstractContextManager[Any]:
        return on_gpu(like.index)

    def maker(
        self, shape: Shape, dtype: DType, like: Adopted, order: Shape | None
    ) -> Callable[[], Any]:
        if like.family == "torch":
            return tensor_maker(shape, dtype, order, "cuda", like.index)
        kind = type(like.given)
        raise ArgumentError(f"nothing here makes arrays like {kind.__module__}.{kind.__qualname__}",
                            why="Results are of the library that the arrays came from, and without "
                            "CuPy those of torch alone can be made.",
                            fix="Give memory for all results, out=…, or install CuPy.")

    def view(self, own: Any) -> Any:
        return of_torch(own)[0]

    def handed_back(self, shaped: Any, own: Any, dtype: DType, like: Adopted) -> Any:
        return own

    def to_host(self, array: Any, dtype: DType) -> Any:
        return _by_cupy()

    def from_host(self, array: Any, dtype: DType) -> Any:
        return _by_cupy()

    def synchronize(self) -> None:
        _by_cupy()

    def seconds(self, call: Callable[[], object], repetitions: int) -> list[float]:
        return _by_cupy()

    def reader(self, like: Adopted) -> Reader | None:
        return None


def _by_cupy() -> NoReturn:
    """Raises BackendError that says what to install."""
    from fusegen.backend.cuda.run.device import cupy_module

    cupy_module()
    raise BackendError("CuPy was installed after the arrays were taken in. Try again.")


PLAIN = PlainMemory()
