"""What reading, or reading and writing, so many bytes takes on this device: the best of plain
kernels over several launch shapes, measured in the same run as what is held against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import cupy
import torch

from streams.cells import Kind
from streams.timing import Timer

VECTOR = 16
SOURCE = Path(__file__).with_name("limits.cu").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Shape:
    """A launch: 16-byte loads in flight per thread, threads per block, blocks per multiprocessor
    (None: a block for every tile)."""

    loads: int
    threads: int
    blocks: int | None = None

    def __str__(self) -> str:
        grid = "a block per tile" if self.blocks is None else f"{self.blocks} blocks per SM"
        return f"{self.loads} loads, {self.threads} threads, {grid}"


MANY = (Shape(4, 256), Shape(4, 512), Shape(4, 1024), Shape(8, 128), Shape(8, 256), Shape(2, 512),
        Shape(4, 256, 8), Shape(4, 512, 4), Shape(4, 1024, 2), Shape(8, 256, 4))
FEW = (Shape(1, 64), Shape(1, 128), Shape(1, 256), Shape(1, 1024), Shape(2, 128), Shape(2, 256),
       Shape(4, 128), Shape(4, 256), Shape(4, 256, 1), Shape(8, 128))
FEW_BYTES = 64 << 20  # below this, many small blocks may be the fastest


@dataclass(frozen=True, slots=True)
class Limit:
    """Microseconds that `size` bytes of input take, and the launch that took them."""

    kind: Kind
    size: int
    us: float
    shape: str


@cache
def _kernel(name: str, loads: int, threads: int) -> Any:
    return cupy.RawKernel(SOURCE, name, options=(f"-DLOADS={loads}", f"-DTHREADS={threads}"))


class Limits:
    """Limits over given memory: where arrays lie moves the time of a plain copy by up to a tenth,
    so a result is held against the limit over the very arrays that it reads and writes."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer

    def read(self, size: int) -> Limit:
        """To read `size` bytes of memory made for it."""
        return self.over("read", [_made(size) for _ in "ab"], None)

    def copy(self, size: int) -> Limit:
        """To read `size` bytes and to write as many, of memory made for it."""
        inputs = [_made(size) for _ in "ab"]
        return self.over("copy", inputs, torch.empty_like(inputs[0]))

    def over(
        self, kind: Kind, inputs: Sequence[torch.Tensor], output: torch.Tensor | None
    ) -> Limit:
        """To read these contiguous inputs in turn, and to write as many bytes of `output`."""
        size = inputs[0].numel() * inputs[0].element_size()
        words = [x.view(-1).view(torch.uint8)[: size // VECTOR * VECTOR] for x in inputs]
        target = torch.zeros(16, dtype=torch.uint8, device="cuda")
        if kind == "copy":
            assert output is not None
            assert output.numel() * output.element_size() == size
            target = output.view(-1).view(torch.uint8)[: words[0].numel()]
        best = Limit(kind, size, float("inf"), "")
        for shape, launch in _launches(kind, words[0].numel() // VECTOR, size):
            calls = [partial(launch, x, target) for x in words]
            us = self._timer.microseconds(calls)
            if kind == "copy":
                _check_copied(calls[0], words[0], target, shape)
            if us < best.us:
                best = Limit(kind, size, us, shape)
        return best


def _made(size: int) -> torch.Tensor:
    return torch.randn(-(-size // 4), device="cuda")  # not zeros: they are faster


def _check_copied(call: Callable[[], Any], x: torch.Tensor, y: torch.Tensor, shape: str) -> None:
    y.fill_(255)
    call()
    if not torch.equal(x, y):
        raise RuntimeError(f"the copy by {shape} is not a copy: its time is no limit")


def _launches(
    kind: Kind, count: int, size: int
) -> Iterator[tuple[str, Callable[[torch.Tensor, torch.Tensor], Any]]]:
    multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"]
    for shape in FEW if size < FEW_BYTES else MANY:
        blocks = -(-count // (shape.loads * shape.threads))
        if shape.blocks is not None:
            blocks = min(blocks, shape.blocks * multiprocessors)
        kernel = _kernel(f"{kind}_all", shape.loads, shape.threads)
        yield str(shape), partial(_launch, kernel, blocks, shape.threads, count)
    if kind == "copy":
        yield "torch copy_", _torch_copy


def _launch(
    kernel: Any, blocks: int, threads: int, count: int, x: torch.Tensor, y: torch.Tensor
) -> None:
    kernel((blocks,), (threads,), (x.data_ptr(), y.data_ptr(), count))


def _torch_copy(x: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(x)
