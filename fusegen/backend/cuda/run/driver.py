"""The CUDA driver by ctypes: launches with attributes, limits and captures.

Every call but the launch is made when something is prepared. A launch is one foreign call with
everything set but the pointers and the stream.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from fusegen.backend.cuda.run.tensor_maps import Mapped, MapRoom, place
from fusegen.ir.errors import BackendError

_SHARED_BYTES = 48 << 10  # of a block, static and dynamic; more needs permission
_PORTABLE_CLUSTER = 8  # blocks; more needs permission
_COOPERATIVE, _CLUSTER = 2, 4  # CUlaunchAttributeID
_STATIC_SHARED, _MAX_SHARED, _ANY_CLUSTER = 1, 8, 14  # CUfunction_attribute
_CAPTURE_ACTIVE = 1  # CUstreamCaptureStatus
_STREAM_AT = 32  # of hStream in CUlaunchConfig
_FUNCTIONS = (
    "cuGetErrorName", "cuGetErrorString", "cuFuncGetAttribute", "cuFuncSetAttribute",
    "cuLaunchKernelEx", "cuOccupancyMaxActiveClusters",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuStreamIsCapturing", "cuStreamGetId", "cuStreamSynchronize", "cuMemsetD8Async",
)


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Blocks, threads of a block, dynamic shared bytes of a block, and what blocks share."""

    grid: int
    threads: int
    shared_bytes: int = 0
    cluster: int = 1  # neighbouring blocks that form one
    together: bool = False  # all blocks are on the device at once: a cooperative launch
    splits: int = 1  # runs of columns that rows over vectors are cut into, for a block each


class Driver:
    """What fusegen asks of libcuda; handles are integers. Raises BackendError naming the error."""

    def __init__(self, library: Any) -> None:
        missing = [n for n in _FUNCTIONS if not hasattr(library, n)]
        if missing:
            raise BackendError(f"the CUDA driver has no {missing[0]}: it is older than CUDA 12")
        self.library = library
        self._is_capturing = library.cuStreamIsCapturing  # asked at every launch
        self._allowed: dict[int, int] = {}  # function → dynamic shared bytes

    def error(self, code: int, what: str) -> BackendError:
        """The driver's own words for an error."""
        found = []
        for ask in (self.library.cuGetErrorName, self.library.cuGetErrorString):
            text = ctypes.c_char_p()
            ask(ctypes.c_int(code), ctypes.byref(text))
            found.append((text.value or b"unknown").decode())
        return BackendError(f"{what}: {found[0]} ({found[1]})")

    def address(self, name: str) -> int:
        """Of one of its functions, for compiled code."""
        return ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value or 0

    @property
    def addresses_of_calls(self) -> tuple[int, int, int]:
        """Of what launches, tells the context, and says whether a stream is captured."""
        return (self.address("cuLaunchKernelEx"), self.address("cuCtxGetCurrent"),
                self.address("cuStreamIsCapturing"))

    def _check(self, code: int, what: str) -> None:
        if code:
            raise self.error(code, what)

    def allow(self, function: int, shared_bytes: int, cluster: int) -> None:
        """Let a function have as much dynamic shared memory, and clusters as large, as it needs.

        Executables of one source share its functions: what one was given is not taken away.
        """
        static = ctypes.c_int()
        code = self.library.cuFuncGetAttribute(
            ctypes.byref(static), ctypes.c_int(_STATIC_SHARED), ctypes.c_void_p(function)
        )
        self._check(code, "asking for a function's static shared memory")
        if static.value + shared_bytes > _SHARED_BYTES:
            most = max(shared_bytes, self._allowed.get(function, 0))
            self._allow(function, _MAX_SHARED, most,
                        f"{static.value} + {shared_bytes} bytes of shared memory")
            self._allowed[function] = most
        if cluster > _PORTABLE_CLUSTER:
            self._allow(function, _ANY_CLUSTER, 1, f"clusters of {cluster} blocks")

    def _allow(self, function: int, number: int, value: int, what: str) -> None:
        code = self.library.cuFuncSetAttribute(
            ctypes.c_void_p(function), ctypes.c_int(number), ctypes.c_int(value)
        )
        self._check(code, f"this device does not allow {what}")

    def blocks_at_once(self, function: int, geometry: Geometry, multiprocessors: int) -> int:
        """Blocks of such a launch that the device can hold at the same time."""
        found = ctypes.c_int()
        if geometry.cluster > 1:
            config, _attributes = _config(geometry)
            code = self.library.cuOccupancyMaxActiveClusters(
                ctypes.byref(found), ctypes.c_void_p(function), ctypes.byref(config))
            self._check(code, "asking how many clusters fit")
            return found.value * geometry.cluster
        code = self.library.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(found), ctypes.c_void_p(function), ctypes.c_int(geometry.threads),
            ctypes.c_size_t(geometry.shared_bytes))
        self._check(code, "asking how many blocks fit")
        return found.value * multiprocessors

    def capturing(self, stream: int) -> bool:
        """Is the stream being captured into a graph?"""
        status = ctypes.c_int()
        code = self._is_capturing(ctypes.c_void_p(stream), ctypes.byref(status))
        if code:
            self._check(code, "asking whether the stream is captured")
        return status.value == _CAPTURE_ACTIVE

    def stream_id(self, stream: int) -> int:
        """The stream's number: no other stream of this process ever has it, a handle may recur."""
        found = ctypes.c_ulonglong()
        code = self.library.cuStreamGetId(ctypes.c_void_p(stream), ctypes.byref(found))
        self._check(code, "asking for the stream's number")
        return found.value

    def fill(self, pointer: int, n_bytes: int, stream: int, byte: int = 0) -> None:
        """Queue a fill with one byte's value; in a capture, a node of the graph."""
        code = self.library.cuMemsetD8Async(
            ctypes.c_uint64(pointer), ctypes.c_ubyte(byte), ctypes.c_size_t(n_bytes),
            ctypes.c_void_p(stream))
        self._check(code, f"filling {n_bytes} bytes")

    def wait(self, stream: int) -> None:
        """Until the stream has done all that was queued."""
        self._check(self.library.cuStreamSynchronize(ctypes.c_void_p(stream)), "waiting")


def _config(geometry: Geometry) -> tuple[_Config, Any]:
    """The configuration and the attributes that it points at; keep both."""
    values: list[tuple[int, tuple[int, ...]]] = []
    if geometry.cluster > 1:
        values.append((_CLUSTER, (geometry.cluster, 1, 1)))
    if geometry.together:
        values.append((_COOPERATIVE, (1,)))
    attributes = (_Attribute * max(1, len(values)))()
    for attribute, (number, value) in zip(attributes, values, strict=False):
        attribute.id, attribute.value[: len(value)] = number, value
    config = _Config((geometry.grid, 1, 1), (geometry.threads, 1, 1), geometry.shared_bytes, 0,
                     ctypes.addressof(attributes), len(values))
    return config, attributes


class Launcher:
    """A function with its geometry and its numbers; a launch adds a stream and pointers.

    Kernel parameters are `n_pointers` pointers, or words that begin with a scalar, then `numbers`
    as 64-bit integers, then the tensor maps of some of the pointers. Any number of
    threads may call at once: the foreign call lets go of the interpreter's lock, and a finalizer
    may launch between two lines of a launch, so a room for arguments is taken out of `_free` while
    it is used, and made anew where none is left.
    """

    def __init__(
        self, driver: Driver, symbol: str, function: int, geometry: Geometry, n_pointers: int,
        numbers: tuple[int, ...], maps: tuple[Mapped, ...] = (),
    ) -> None:
        self.symbol, self.geometry, self.numbers = symbol, geometry, numbers
        self.function = function
        self._driver, self._n_pointers = driver, n_pointers
        self.mapped = maps
        self.maps = tuple((m.pointer, MapRoom(driver.library, m.tiled)) for m in maps)
        self._launch = driver.library.cuLaunchKernelEx
        self._function = ctypes.c_void_p(function)
        self._config, self._attributes = _config(geometry)
        self._at, self._count = ctypes.addressof(self._attributes), self._config.count
        # Stream, attributes and their count end the configuration; pointers follow it at once.
        self._pack = struct.Struct(f"={3 + n_pointers}q").pack_into
        self._free: list[tuple[Any, Any]] = []

    def launch(self, stream: int, pointers: Sequence[int]) -> None:
        """Queue the launch; the driver copies the arguments. Raises BackendError."""
        try:
            room = self._free.pop()
        except IndexError:
            room = self._room()
        self._pack(room[0], _STREAM_AT, stream, self._at, self._count, *pointers)
        if self.maps:
            maps = [made.of(pointers[at]) for at, made in self.maps]  # kept while they are used
            for i, one in enumerate(maps, self._n_pointers + len(self.numbers)):
                room[1][i] = place(one)
        code = self._launch(room[0], self._function, room[1], None)
        self._free.append(room)
        if code:
            raise self._driver.error(code, f"launching {self.symbol}, or a kernel before it")

    def _room(self) -> tuple[Any, Any]:
        """(configuration, pointers, numbers in a row; the addresses of the latter two, and room
        for those of maps)."""
        size, n = ctypes.sizeof(_Config), self._n_pointers + len(self.numbers)
        room = (ctypes.c_uint64 * (size // 8 + n))()
        ctypes.memmove(room, ctypes.byref(self._config), size)
        struct.pack_into(f"={len(self.numbers)}q", room, size + 8 * self._n_pointers, *self.numbers)
        start = ctypes.addressof(room) + size
        places = range(start, start + 8 * n, 8)
        return room, (ctypes.c_void_p * (n + len(self.maps)))(*places)


@cache
def driver() -> Driver:
    """The machine's driver. Raises BackendError without one."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return Driver(ctypes.CDLL(name))
    except OSError as error:
        raise BackendError(f"the CUDA driver cannot be loaded: {error}") from error
