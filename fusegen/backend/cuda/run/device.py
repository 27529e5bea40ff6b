"""CuPy itself, and the device that is current."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import ModuleType

from fusegen.backend.target import CudaTarget, gpu_named
from fusegen.ir.errors import BackendError

_INSTALL = "pip install cupy-cuda12x (or cupy-cuda13x, as nvidia-smi says), then: fusegen doctor"
_ATTEMPTS = 4  # to time a call that the host queued late


@cache
def cupy_module() -> ModuleType:
    """CuPy. Raises BackendError that says what to install."""
    try:
        import cupy
    except ImportError as error:
        raise BackendError(f"CuPy cannot be imported: {error}. {_INSTALL}") from error
    return cupy  # type: ignore[no-any-return]


@cache
def available() -> str | None:
    """None if kernels can run here, else why not."""
    try:
        cupy = cupy_module()
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return "the CUDA driver finds no device"
    except BackendError as error:
        return str(error)
    except Exception as error:  # CuPy raises its own classes for a missing or old driver
        return f"{type(error).__name__}: {error}"
    return None


def need_device() -> None:
    """Raises BackendError if no GPU can run here."""
    reason = available()
    if reason is not None:
        raise BackendError(f"no GPU can be used here: {reason}. fusegen doctor says what is "
                           "missing; arrays in host memory run on the processor.")


def current_target() -> CudaTarget:
    """Facts of the current device: its architecture's limits, its own counts."""
    return _target(device_index())


@cache
def _target(index: int) -> CudaTarget:
    device = cupy_module().cuda.Device(index)
    found = gpu_named(f"sm_{device.compute_capability}")
    assert found is not None
    counts = device.attributes
    return found.on(device_name(), counts["MultiProcessorCount"], counts["L2CacheSize"],
                    bandwidth_of(counts))


def bandwidth_of(counts: Mapping[str, int]) -> float | None:
    """Bytes a second of a device's memory, two transfers a cycle; None where it does not tell."""
    kilohertz, bits = counts.get("MemoryClockRate", 0), counts.get("GlobalMemoryBusWidth", 0)
    return 2e3 * kilohertz * bits / 8 or None


def device_index() -> int:
    """Number of the current device."""
    return int(cupy_module().cuda.runtime.getDevice())


def device_name() -> str:
    """The current device as its maker calls it."""
    cupy = cupy_module()
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    return str(properties["name"].decode())


def synchronize() -> None:
    """Wait until the device has done all that was queued."""
    cupy_module().cuda.Device().synchronize()


def time_calls(
    call: Callable[[], object], repetitions: int, before: Callable[[], object] | None = None
) -> list[float]:
    """Seconds that the device takes for each of several calls, by events on the current stream;
    `before` each of them something that is not timed, and is long enough to queue one meanwhile.
    Where the device was done with that first, as beside other processes, what passed is the host's
    time: the call is timed again."""
    return [_timed(call, before) for _ in range(repetitions)]


def _timed(call: Callable[[], object], before: Callable[[], object] | None) -> float:
    cupy = cupy_module()
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    for _ in range(_ATTEMPTS if before else 1):
        if before is not None:
            before()
        start.record()
        call()
        end.record()
        late = start.done
        end.synchronize()
        if not late:
            break
    return float(cupy.cuda.get_elapsed_time(start, end)) * 1e-3


# ---- contexts ----


@cache
def context_reader() -> Callable[[], int]:
    """What tells this thread's current context; 0 in a thread that has not met the device yet."""
    found: Callable[[], int] = cupy_module().cuda.driver.ctxGetCurrent
    return found


def bind_context() -> None:
    """Make the current device's context this thread's, as CuPy's own launches do."""
    if not context_reader()():
        cupy_module().cuda.runtime.memGetInfo()


@contextlib.contextmanager
def on_device(index: int, context: int) -> Iterator[None]:
    """Work on a device, whose context this is, that is not current or new to this thread."""
    with cupy_module().cuda.Device(index):
        bind_context()
        if context_reader()() != context:
            raise BackendError(f"GPU {index} has another CUDA context than at its first use")
        yield
