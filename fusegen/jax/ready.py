"""Runs that XLA's programs can make: by a foreign function, or, on a host that can compile nothing,
by a call back into Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import jax
import jaxlib
import numpy as np

from fusegen.backend.arrays.phases import phase_of
from fusegen.backend.arrays.vectors import batch_rows_of
from fusegen.backend.executable import Executable, Record, Recordable
from fusegen.backend.memory import Adopted, Memory
from fusegen.backend.notices import warn_once
from fusegen.backend.xla.handler import BOUNDARY, Handler, handler
from fusegen.ir.errors import BackendError, CompilerError
from fusegen.pipeline.variants import Key, Variants


class Ready(Protocol):
    """A run: from operands to results of these types."""

    def __call__(self, operands: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]: ...


@dataclass(frozen=True)
class Arrays:
    """A call's arrays by parameter name, as they will lie: inputs, scalars that are operands,
    outputs. fixed: scalars that are part of the program."""

    lie: Mapping[str, Any]
    shape: tuple[int, int]
    inner: int | None
    fixed: Mapping[str, Any]

    @property
    def every(self) -> dict[str, Any]:
        return {**self.lie, **self.fixed}

    def key(self, variants: Variants, memory: Memory, index: int) -> Key:
        """What the choice of an executable depends on: of those whose launches are all of a run."""
        lies = phase_of(variants.params, self.lie, side_by_side=self.inner is not None)
        return Key(memory, index, self.shape, lies, self.inner,
                   batch_rows_of(variants.params, self.lie, self.shape[0]), may_store=False)


def ready(variants: Variants, arrays: Arrays, memory: Memory) -> Ready:
    """The run, compiled where it is to be. Raises BackendError, CompilerError."""
    found = [_executable(variants, arrays, memory, i) for i in _devices(memory)]
    recordable = [e for e in found if isinstance(e, Recordable)]
    try:
        if len(recordable) == len(found):
            return _foreign(recordable, arrays, memory)
        why = "nothing can be compiled"
    except (BackendError, CompilerError) as error:
        why = str(error)
    if not memory.single:
        raise BackendError(f"no run for JAX on {memory.name}: {why}")
    warn_once(f"fusegen's calls within JAX's programs go back into Python here: {why}")
    return _Callback(found[0], arrays)


def _devices(memory: Memory) -> list[int]:
    """Those that JAX has. Raises BackendError."""
    if memory.single:
        return [0]
    try:
        return [d.local_hardware_id for d in jax.local_devices(backend=memory.name)]
    except RuntimeError as error:
        raise BackendError(f"a program for {memory.name} cannot be made here: {error}") from error


def _executable(variants: Variants, arrays: Arrays, memory: Memory, index: int) -> Executable:
    first = next(iter(arrays.lie.values()))
    like = Adopted(first, variants.params[0].dtype, memory, "foreign", first, index)
    with memory.working(like):
        return variants.executable(arrays.key(variants, memory, index))


# ---- by a foreign function ----


@cache
def _handler(memory: str) -> tuple[Handler, str]:
    """The handler for arrays there, and what JAX's programs call it."""
    found = handler(memory, jax.ffi.include_dir(), jaxlib.__version__)
    name = f"fusegen_{memory}"
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(found.run), platform=found.platform)
    return found, name


def _foreign(found: Sequence[Recordable], arrays: Arrays, memory: Memory) -> Ready:
    order = tuple(arrays.lie)
    records: list[Record] = [e.record(arrays.every, *arrays.shape, order) for e in found]
    made, name = _handler(memory.name)
    most = max(r.workspace for r in records)
    return _Foreign(name, made.learn(records), most + BOUNDARY if most else 0)


@dataclass(frozen=True)
class _Foreign:
    """See `Ready`."""

    target: str
    key: str
    workspace: int  # bytes, of one more result

    def __call__(self, operands: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]:
        more = [jax.ShapeDtypeStruct((self.workspace,), np.uint8)] if self.workspace else []
        run = jax.ffi.ffi_call(self.target, [*types, *more])
        return run(*operands, key=self.key)[: len(types)]  # type: ignore[no-any-return]


# ---- by Python ----


@dataclass(frozen=True)
class _Callback:
    """See `Ready`."""

    executable: Executable
    arrays: Arrays

    def __call__(self, operands: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]:
        lie = self.arrays.lie

        def run(*given: Any) -> list[Any]:
            read = [np.broadcast_to(_of_type(np.asarray(a), one.dtype), one.shape)
                    for a, one in zip(given, lie.values(), strict=False)]
            made = [np.empty(t.shape, t.dtype) for t in types]
            every = {**dict(zip(lie, [*read, *made], strict=True)), **self.arrays.fixed}
            self.executable(every, *self.arrays.shape)
            return made

        return jax.pure_callback(run, list(types), *operands)  # type: ignore[no-any-return]


def _of_type(array: Any, dtype: Any) -> Any:
    """Numbers of 64 bits may come by their halves."""
    return array if array.dtype == dtype else array.view(dtype)[..., 0]
