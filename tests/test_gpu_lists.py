"""Top-K lists on a real GPU: each way of keeping them, on hard rows, beside a stable sort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.cases import best

pytestmark = pytest.mark.gpu

DEVICE = "cuda"


def spoiled(t: Any, x: Any) -> Any:
    """Random values, and in each row some NaN, some infinities and zeros of both signs."""
    fate = t.rand(x.shape, device=x.device)
    for low, value in ((0.97, t.nan), (0.975, t.inf), (0.98, -t.inf), (0.985, 0.0), (0.99, -0.0)):
        x = t.where((fate >= low) & (fate < low + 0.005), value, x)
    return x


# torch, random rows, columns as floats → hard rows
ROWS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "random": lambda t, x, c: x,
    "ascending": lambda t, x, c: (c / 64).expand_as(x),
    "descending": lambda t, x, c: (-c / 64).expand_as(x),
    "equal": lambda t, x, c: t.full_like(x, 3.0),
    "few values": lambda t, x, c: (x * 2).round(),
    "outlier": lambda t, x, c: t.where(c == x.shape[1] // 2, 9000.0, 3.0).expand_as(x),
    "mostly least": lambda t, x, c: t.where(x < 1.3, -9000.0, x),
    "stairs": lambda t, x, c: (c // 1000).expand_as(x),
    "best at the end": lambda t, x, c: t.where(c < x.shape[1] - 300, x - 50, x),
    "spoiled": lambda t, x, c: spoiled(t, x),
    "subnormal": lambda t, x, c: x * 1e-40,
}
TYPES = ("float32", "bfloat16", "float16", "float64", "int32", "int64")
# rows, columns, K: lanes that sort, a warp that counts, blocks of 64 and 128, edges off alignment,
# lists that begin with a guess, large blocks for rows that are few, clusters, and slices
CLASSES = (
    (300, 64, 8), (300, 500, 16), (300, 1000, 5), (300, 1008, 64), (300, 1008, 300),
    (500, 2016, 5), (500, 4032, 31), (500, 4032, 200), (500, 4032, 1024), (500, 4999, 90),
    (500, 9000, 64), (500, 25_000, 5), (500, 25_000, 600), (500, 25_003, 1024), (500, 9000, 2500),
    (200, 60_000, 64), (200, 60_000, 1024), (60, 60_000, 5), (60, 60_000, 700),
    (3, 300_000, 5), (3, 300_001, 64), (3, 300_000, 1024), (1, 1_000_000, 300),
    (10, 129_024, 64), (10, 129_027, 1024), (1, 25_000, 1024), (20, 60_000, 5), (20, 1_000_000, 5),
)


def exact_order(torch: Any, x: Any, k: int) -> Any:
    """Columns of the K best: NaN first, then greater values, then lower columns."""
    wide = x.double() if x.is_floating_point() else x
    return torch.sort(wide, dim=1, descending=True, stable=True).indices[:, :k]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("n_rows", "n_cols", "k"), CLASSES)
def test_hard_rows(n_rows: int, n_cols: int, k: int, dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.manual_seed(k)
    kind = getattr(torch, dtype)
    column = torch.arange(n_cols, device=DEVICE, dtype=torch.float32)
    for name, make in ROWS.items():
        if name == "spoiled" and not kind.is_floating_point:
            continue
        x = make(torch, torch.randn(n_rows, n_cols, device=DEVICE) * 3, column).to(kind)
        _, values, columns = best(x, k=k)
        want = exact_order(torch, x, k)
        assert torch.equal(columns, want), f"{name}: other columns than a stable sort's"
        taken = x.gather(1, want)
        same = torch.equal(values.nan_to_num(-1), taken.nan_to_num(-1)) if kind.is_floating_point \
            else torch.equal(values, taken)
        assert same, f"{name}: other values than at those columns"
        again = best(x, k=k)
        assert torch.equal(columns, again[2]), f"{name}: another result the second time"
