"""The library over vectors as a framework has it: every element stored, in its own operations.

`xp`: torch, or jax.numpy. Constants are those of `vector_library.ENTRIES`, but for lists of 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support import vector_library as cases

NAMES = tuple(name for name, _ in cases.ENTRIES)
DIFFERENTIABLE = tuple(n for n in NAMES if n != "kmeans_assign")
CONSTANTS: Mapping[str, Mapping[str, Any]] = {
    name: {**constants, "k": 3} if "k" in constants else constants
    for name, constants in cases.ENTRIES}


@dataclass(frozen=True)
class Peers:
    """`call(name, arrays)`: what the library's entry returns for these arrays."""

    xp: Any
    top_k: Any  # (array, k) to the greatest values and their places

    def call(self, name: str, arrays: Any) -> Any:
        return getattr(self, name)(*arrays, **CONSTANTS[name])

    def lse(self, s: Any) -> Any:
        m = self.xp.amax(s, -1)
        return m + self.xp.log(self.xp.exp(s - m[..., None]).sum(-1))

    def sqdist(self, x: Any, y: Any) -> Any:
        return ((x[..., :, None, :] - y[..., None, :, :]) ** 2).sum(-1)

    def cross_entropy(self, s: Any, labels: Any) -> Any:
        one = self.xp.cumsum(self.xp.ones_like(s), -1) == labels[..., None] + 1  # where s is
        return self.lse(s) - self.xp.where(one, s, 0).sum(-1)

    def attention(self, q: Any, k: Any, v: Any, *, scale: float) -> Any:
        s = scale * q @ k.mT
        return self.xp.exp(s - self.lse(s)[..., None]) @ v

    def nearest(self, x: Any, y: Any, *, k: int) -> Any:
        values, columns = self.top_k(-self.sqdist(x, y), k)
        return -values, columns

    def kmeans_assign(self, x: Any, y: Any) -> Any:
        return self.xp.argmin(self.sqdist(x, y), -1)

    def linear_cross_entropy(self, h: Any, w: Any, labels: Any) -> Any:
        return self.cross_entropy(h @ w.mT, labels)

    def head_topk(self, h: Any, w: Any, *, k: int) -> Any:
        s = h @ w.mT
        return tuple(self.top_k(self.xp.exp(s - self.lse(s)[..., None]), k))

    def contrastive(self, x: Any, y: Any, positives: Any, *, temperature: float) -> Any:
        return self.cross_entropy(x @ y.mT / temperature, positives)

    def gaussian_sum(self, x: Any, y: Any, b: Any, *, bandwidth: float) -> Any:
        return self.xp.exp(-self.sqdist(x, y) / (2 * bandwidth**2)) @ b


def arguments(
    name: str, rows: int = 9, columns: int = 20, dtype: str = "float64",
    lead: tuple[int, ...] = (),
) -> tuple[Any, ...]:
    """NumPy arrays for an entry of the library."""
    return tuple(cases.arrays_of(name, lead, rows, columns, 5, 4, dtype).values())
