"""Generated CUDA on the current device: the only importer of CuPy, and only when asked to run.

Arrays are used where they lie; kernels run on the stream that the caller works on. CuPy compiles
(NVRTC) and keeps compiled modules on disk.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from fusegen.dtypes import BFLOAT16, DType, dtype_of
from fusegen.errors import BackendError, DTypeError
from fusegen.kernel import Program
from fusegen.runtime.strips import inner_rows, scalar_values
from fusegen.schedule.cuda import CudaSchedule
from fusegen.schedule.launch import Launch, Scratch, element_shape, launches
from fusegen.schedule.target import CudaTarget, target_named

_OPTIONS = ("-std=c++17",)
_MOST_BLOCKS = 2**31 - 1
_RESIDENT_BLOCKS = 4  # per multiprocessor, where scratch memory per block bounds the grid
_INSTALL = 'pip install "fusegen[cuda12]" (or [cuda13], as nvidia-smi says), then: fusegen doctor'


@cache
def _cupy() -> ModuleType:
    try:
        import cupy
    except ImportError as error:
        raise BackendError(f"CuPy cannot be imported: {error}. {_INSTALL}") from error
    return cupy  # type: ignore[no-any-return]


@cache
def available() -> str | None:
    """None if kernels can run here, else why not."""
    try:
        cupy = _cupy()
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return "the CUDA driver finds no device"
    except BackendError as error:
        return str(error)
    except Exception as error:  # CuPy raises its own classes for a missing or old driver
        return f"{type(error).__name__}: {error}"
    return None


def current_target() -> CudaTarget:
    """Facts of the current device."""
    found = target_named(f"sm_{_cupy().cuda.Device().compute_capability}")
    assert isinstance(found, CudaTarget)
    return found


def device_index() -> int:
    """Number of the current device."""
    return int(_cupy().cuda.runtime.getDevice())


def device_name() -> str:
    """The current device as its maker calls it."""
    properties = _cupy().cuda.runtime.getDeviceProperties(_cupy().cuda.Device().id)
    return str(properties["name"].decode())


# ---- arrays of other libraries ----


def _is_torch(given: Any) -> bool:
    return type(given).__module__.partition(".")[0] == "torch"


def from_foreign(given: Any) -> tuple[Any, DType]:
    """The same memory as a CuPy array; bfloat16 appears as 16-bit integers."""
    cupy = _cupy()
    if _is_torch(given):
        torch = sys.modules["torch"]
        if given.dtype is torch.bfloat16:
            return cupy.asarray(given.view(torch.int16)), BFLOAT16
        return cupy.asarray(given), dtype_of(str(given.dtype).removeprefix("torch."))
    array = given if isinstance(given, cupy.ndarray) else _from_interface(given)
    if array.dtype.name == "bfloat16":
        return array.view(np.int16), BFLOAT16
    return array, dtype_of(array.dtype)


def _from_interface(given: Any) -> Any:
    """Another library's array: by DLPack, which also orders the two libraries' streams."""
    cupy = _cupy()
    if not hasattr(given, "__dlpack__"):
        return cupy.asarray(given)  # the CUDA array interface
    try:
        return cupy.from_dlpack(given)
    except (BufferError, RuntimeError, TypeError) as error:
        name = type(given).__name__
        raise DTypeError(f"{name} cannot be read through DLPack: {error}") from error


def empty(shape: tuple[int, ...], dtype: DType) -> Any:
    """Device memory for a result, from CuPy's pool."""
    return _cupy().empty(shape, np.int16 if dtype is BFLOAT16 else dtype.numpy)


def to_foreign(array: Any, dtype: DType, like: Any) -> Any:
    """The array as the kind of object that `like` is, sharing memory; CuPy's if none is known."""
    if _is_torch(like):
        torch = sys.modules["torch"]
        tensor = torch.from_dlpack(array)
        return tensor.view(torch.bfloat16) if dtype is BFLOAT16 else tensor
    array = array.view(BFLOAT16.numpy) if dtype is BFLOAT16 else array
    if isinstance(like, _cupy().ndarray) or not hasattr(like, "__array_namespace__"):
        return array
    return like.__array_namespace__().from_dlpack(array)  # the array API standard


def to_host(array: Any, dtype: DType) -> Any:
    """A NumPy copy; bfloat16 as ml_dtypes has it."""
    host = _cupy().asnumpy(array)
    return host.view(BFLOAT16.numpy) if dtype is BFLOAT16 else host


def to_device(array: Any, dtype: DType) -> Any:
    """A CuPy copy of a NumPy array, of the same element type."""
    if dtype is not BFLOAT16:
        return _cupy().asarray(array)
    return _cupy().asarray(np.ascontiguousarray(array).view(np.int16)).view(BFLOAT16.numpy)


def synchronize() -> None:
    """Wait until the device has done all that was queued."""
    _cupy().cuda.Device().synchronize()


def time_calls(call: Callable[[], object], repetitions: int) -> list[float]:
    """Seconds that the device takes for each of several calls, by events on the current stream."""
    cupy = _cupy()
    found = []
    for _ in range(repetitions):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        call()
        end.record()
        end.synchronize()
        found.append(cupy.cuda.get_elapsed_time(start, end) * 1e-3)
    return found


@contextlib.contextmanager
def caller_stream(given: Any) -> Iterator[None]:
    """Work on the stream that the array's own library uses at present, on the array's device."""
    cupy = _cupy()
    if _is_torch(given):
        torch = sys.modules["torch"]
        handle = torch.cuda.current_stream(given.device).cuda_stream
        with cupy.cuda.Device(given.device.index), _external_stream(cupy, handle):
            yield
        return
    device = getattr(given, "device", None)
    if isinstance(device, cupy.cuda.Device):
        with device:
            yield
        return
    yield


def _external_stream(cupy: ModuleType, handle: int) -> Any:
    """Another library's stream as CuPy's; by the newer of its two ways where there is one."""
    if hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(_StreamHandle(handle))
    return cupy.cuda.ExternalStream(handle)


class _StreamHandle:
    """The CUDA stream protocol: version 0 and the handle."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


# ---- execution ----


class CudaExecutable:
    """A program compiled for the current device.

    Call with every parameter's array by name: element (n_rows, n_cols) with unit column stride,
    per_column and row 1-D and contiguous, list (n_rows, k). Raises BackendError if NVRTC refuses.
    """

    def __init__(self, program: Program, schedule: CudaSchedule, source: str) -> None:
        self.program, self.schedule, self.source = program, schedule, source
        self.launches = launches(program, schedule)
        cupy = _cupy()
        self._module = cupy.RawModule(code=source, options=_OPTIONS)
        try:
            self._functions = [self._module.get_function(n.symbol) for n in self.launches]
        except cupy.cuda.compiler.CompileException as error:
            raise BackendError(f"NVRTC refused the generated source: {error}") from error
        multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        self._most_resident = multiprocessors * _RESIDENT_BLOCKS

    def __call__(self, arrays: Mapping[str, Any], n_rows: int, n_cols: int) -> None:
        """Queue the launches on the current stream; results are ready when it is."""
        held = {**arrays, **self._workspace(arrays, n_rows, n_cols)}
        kept: dict[str, Any] = {}
        n_inner = inner_rows(arrays)
        for launch, function in zip(self.launches, self._functions, strict=True):
            grid = self._grid(launch, n_rows, n_inner)
            for scratch in launch.scratch:
                kept.setdefault(scratch.name, self._scratch(scratch, launch, n_rows, grid))
            args = self._arguments(launch, held, kept, n_rows, n_cols)
            function((grid,), (launch.threads,), args)

    def _workspace(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int
    ) -> dict[str, Any]:
        inner = inner_rows(arrays) if self.schedule.strip else None
        shapes = {"element": element_shape(n_rows, n_cols, inner), "row": (n_rows,)}
        return {p.name: empty(shapes[p.shape], p.dtype) for p in self.program.workspace}

    def _grid(self, launch: Launch, n_rows: int, n_inner: int) -> int:
        blocks = launch.teams(n_rows, n_inner)
        if launch.limited:
            blocks = min(blocks, self._most_resident)
        return min(blocks, _MOST_BLOCKS // launch.grid_rows) * launch.grid_rows

    def _scratch(self, scratch: Scratch, launch: Launch, n_rows: int, grid: int) -> Any:
        owners = {"row": n_rows, "team": grid * launch.rows_per_block, "block": grid}[scratch.per]
        return _cupy().empty(owners * scratch.count * scratch.entry_bytes, np.uint8)

    def _arguments(
        self, launch: Launch, held: Mapping[str, Any], kept: Mapping[str, Any],
        n_rows: int, n_cols: int,
    ) -> tuple[Any, ...]:  # fmt: skip
        found: list[Any] = [_device_pointer(held[p.name]) for p in launch.params]
        found += [_device_pointer(kept[s.name]) for s in launch.scratch]
        return (*found, *map(np.int64, scalar_values(launch, held, n_rows, n_cols)))


def _device_pointer(array: Any) -> Any:
    return np.uintp(array.data.ptr)
