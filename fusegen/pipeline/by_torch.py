"""Calls that torch has to see: read by torch.compile, recorded for gradients, transformed.

Such calls are made by what the face registers with `serve` (fusegen.torch, loaded when it is first
needed), all others by `Pipeline.__call__`. torch itself is not imported here: who has no tensor
may not have it.
"""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any, Protocol

from fusegen.backend.host.readers import torch_watcher
from fusegen.ir.errors import FusegenError
from fusegen.pipeline.remembered import MISS

KERNEL: ContextVar[bool] = ContextVar("kernel", default=False)  # torch has seen it: only compute
ARRAY, NUMBER = "array", "number"  # what stands for a value that torch.compile knows no constant of

Rest = tuple[Any, Any, Any, Any, Any, Any]
"""Of a call: axis, form, device, deterministic, keepdims, precision."""
Entry = Callable[[Sequence[Any], dict[str, Any], Any, Rest], Any]
"""A call by (arrays, what is named, out, the rest)."""


class Helper(Protocol):
    """What makes calls that torch has to see."""

    def call(self, pipeline: Any, arrays: Sequence[Any], named: dict[str, Any], out: Any,
             rest: Rest) -> Any:
        """The results, or MISS."""

    def entry(self, pipeline: Any, arrays: Sequence[Any], named: dict[str, Any]
              ) -> tuple[str, Entry]:
        """(name, function) that torch.compile reads in place of calls like this one; arrays that
        are there are ARRAY, numbers that may vary NUMBER."""


class _Entries:
    """Functions for torch.compile, as attributes: it guards them by where it found them."""


ENTRIES = _Entries()
_find: list[Callable[[], Helper]] = []


def serve(find: Callable[[], Helper]) -> None:
    """Register what loads the helper."""
    _find[:] = [cache(find)]


def _is_compiling() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


compiling: Callable[[], bool] = _is_compiling
"""Is it torch.compile that reads this line?"""


def _ask_torch() -> None:
    """`compiling` is torch's own word from now on, which takes half of the time. Not once there may
    be graphs, which are guarded by what it was."""
    global compiling
    if "torch._dynamo" not in sys.modules and "torch.compiler" in sys.modules:
        compiling = sys.modules["torch.compiler"].is_dynamo_compiling


_ask_torch()


def served(
    pipeline: Any, arrays: Sequence[Any], named: dict[str, Any], out: Any, rest: Rest
) -> Any:
    """The results of a call that torch has to see; MISS for all others."""
    torch = sys.modules.get("torch")
    if torch is None or KERNEL.get():
        return MISS
    tensors = [a for a in (*arrays, *named.values()) if isinstance(a, torch.Tensor)]
    if tensors and compiling is _is_compiling:
        _ask_torch()
    if _sees(torch, tensors):
        return _find[0]().call(pipeline, arrays, named, out, rest)
    return MISS


def _is_special(torch: Any, tensor: Any) -> bool:
    """Does it require a gradient, or is it no tensor with memory of its own?"""
    return (tensor.requires_grad and torch.is_grad_enabled()) or is_disguised(tensor)


def is_watched(arrays: Iterable[Any]) -> bool:
    """Has torch to see what is made of any of these?"""
    torch = sys.modules.get("torch")
    tensors = [] if torch is None else [a for a in arrays if isinstance(a, torch.Tensor)]
    return _sees(torch, tensors)


def _sees(torch: Any, tensors: Sequence[Any]) -> bool:
    """What watches has already seen the call of an operator that kernels of ours are run for."""
    watches = bool(tensors) and not KERNEL.get() and torch_watcher()()
    return watches or any(_is_special(torch, t) for t in tensors)


def is_disguised(tensor: Any) -> bool:
    """Is it no tensor with memory of its own: without any, a wrapper of one of torch.func's
    transforms, or of a class that sees operators itself?"""
    torch = sys.modules["torch"]
    dispatched = type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    return bool(dispatched or tensor.is_meta
                or torch._C._functorch.is_functorch_wrapped_tensor(tensor))


# ---- read by torch.compile, but for `Calls.torch_entry`, which runs while it reads ----


_count = itertools.count()


def identity(name: str) -> str:
    """A word for one pipeline of this process."""
    return f"{name} {next(_count)}"


class Calls:
    """What a pipeline has for torch.compile: the half of a call that it does not read.

    What that half finds is a constant of the graph. A graph is used again where the same lines meet
    other objects, unless something that was read of them is another: `identity` is.
    """

    identity: str

    def torch_entry(self, _identity: str, n_arrays: int, *told: Any) -> str:
        """The name in ENTRIES of what makes calls like this one.

        told: which of the arrays are there; names; a value for each name.
        """
        arrays, rest = told[:n_arrays], told[n_arrays:]
        names, values = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        given = [ARRAY if there else None for there in arrays]
        try:
            key, entry = _find[0]().entry(self, given, dict(zip(names, values, strict=True)))
        except FusegenError as error:  # torch.compile reads what raises it
            key, entry = f"refused_{next(_count)}", _refusing(error)
        setattr(ENTRIES, key, entry)
        return key

    torch_entry._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _refusing(error: FusegenError) -> Entry:
    """What torch.compile reads of a call that has an error, and shows; lines that it may leave to
    Python raise the error itself."""
    said = str(error)

    def refused(arrays: Sequence[Any], named: dict[str, Any], out: Any, rest: Rest) -> Any:
        raise RuntimeError(said)

    return refused


def in_graph(
    pipeline: Calls, arrays: Sequence[Any], named: dict[str, Any], out: Any, rest: Rest
) -> Any:
    """The call as torch.compile reads it: an operator of torch's registry, and its nesting."""
    there = [a is not None for a in arrays]
    values = [_known(v) for v in named.values()]
    key = pipeline.torch_entry(pipeline.identity, len(there), *there, *named, *values)
    return getattr(ENTRIES, key)(arrays, named, out, rest)


def _known(value: Any) -> Any:
    """The value as a constant of the graph, as far as its text can depend on it there."""
    if isinstance(value, sys.modules["torch"].Tensor):
        return ARRAY
    if type(value) is float:
        return NUMBER
    return operator.index(value) if type(value) is int else value
