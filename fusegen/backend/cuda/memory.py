"""Arrays on GPUs: CuPy's, torch's, and others' by DLPack or the CUDA array interface."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from fusegen.backend.cuda.plain.memory import PLAIN, has_cupy
from fusegen.backend.host.memory import check_tensor, is_tensor
from fusegen.backend.memory import Adopted, Reader, Shape
from fusegen.backend.symmetric import Joint
from fusegen.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """See `Memory`; arrays are CuPy's, or those of `plain` where that is not installed."""

    name: str = "cuda"
    single: bool = False

    def place(self, index: int) -> str:
        return f"GPU {index}"

    def takes(self, given: Any) -> bool:
        if isinstance(given, np.ndarray):
            return False
        if is_tensor(given):
            return bool(given.device.type == "cuda")
        if _library(given) == "cupy" or hasattr(given, "__cuda_array_interface__"):
            return True
        device = getattr(given, "__dlpack_device__", None)
        return device is not None and int(device()[0]) in (2, 13)  # kDLCUDA, kDLCUDAManaged

    def adopt(self, name: str, given: Any) -> Adopted:
        if not has_cupy():
            return PLAIN.adopt(name, given)
        plain = given
        if is_tensor(given):
            check_tensor(name, given)
            plain = given.detach() if given.requires_grad else given
        array, dtype = _run().from_foreign(plain)
        library = _library(given)
        family: Any = "torch" if is_tensor(given) else "cupy" if library == "cupy" else "foreign"
        return Adopted(array, dtype, self, family, plain, array.data.device_id)

    def working(self, like: Adopted) -> AbstractContextManager[Any]:
        return _run().caller_stream(like.given, like.index)  # type: ignore[no-any-return]

    def maker(
        self, shape: Shape, dtype: DType, like: Adopted, order: Shape | None
    ) -> Callable[[], Any]:
        family = _run().family_of(like.given)
        return family.maker(shape, dtype, like.index, order)  # type: ignore[no-any-return]

    def view(self, own: Any) -> Any:
        return _run().from_foreign(own)[0]

    def handed_back(self, shaped: Any, own: Any, dtype: DType, like: Adopted) -> Any:
        return _run().to_foreign(own, like.given) if like.family == "foreign" else own

    def to_host(self, array: Any, dtype: DType) -> Any:
        return _run().to_host(array, dtype)

    def from_host(self, array: Any, dtype: DType) -> Any:
        _run().need_device()
        return _run().to_device(np.ascontiguousarray(array), dtype)

    def synchronize(self) -> None:
        _run().synchronize()

    def seconds(self, call: Callable[[], object], repetitions: int) -> list[float]:
        return _run().time_calls(call, repetitions)  # type: ignore[no-any-return]

    def multiply(
        self, a: Adopted, b: Adopted, to: Adopted, *, turned: tuple[bool, bool], add: bool
    ) -> None:
        _run().multiply(a, b, to, turned=turned, add=add)

    def seals(self, ranks: int, apart: int, words: int, index: int) -> Any:
        return _run().seals_launch(ranks, apart, words, index)

    def meet(self, joint: Joint, index: int) -> Any:
        return _run().Meets(joint, index)

    def streams(self) -> Callable[[int], int]:
        return _run().torch_family().stream  # type: ignore[no-any-return]

    def chain(
        self, launches: Any, makers: tuple[Callable[[], Any], ...], arrays: int, index: int
    ) -> Any:
        return _run().Chain(launches, makers, arrays, index)

    def reader(self, like: Adopted) -> Reader | None:
        if like.family == "foreign":
            return None  # made anew at every call
        return _run().family_of(like.given).reader  # type: ignore[no-any-return]


GPU = GpuMemory()


def _library(given: Any) -> str:
    return type(given).__module__.partition(".")[0]


def _run() -> ModuleType:
    """fusegen.backend.cuda.run, loaded when the first GPU array is met."""
    from fusegen.backend.cuda import run

    return run
