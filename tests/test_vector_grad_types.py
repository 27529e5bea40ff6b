"""Gradients over vectors take the type of their own input, whatever the others and cotangents have,
and are as exact as that type: sums are kept wider."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from support.pairs import pairwise

import fusegen as fg
from fusegen.backend.cpu.backend import CpuBackend

torch = pytest.importorskip("torch", reason="torch is not installed")

WIDE = (torch.float32, torch.float64)
TYPES = (torch.float16, torch.bfloat16, *WIDE)
WIDTHS = (None, *WIDE)
"""None is one of 16 bits. The two take turns: they differ only in how they are read and rounded."""
ROWS, COLUMNS, LENGTH, SUMMED = 7, 11, 5, 3
library = fg.library


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Types are decided before a backend is: the NumPy path shows them all in seconds."""
    monkeypatch.setattr(CpuBackend, "hindrance", lambda *_, **__: "a test's wish")


def drawn(*shape: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64) / 2


def distances(x: Any, y: Any) -> Any:
    return ((x[:, None] - y) ** 2).sum(-1)


def entropy(s: Any, labels: Any) -> Any:
    return s.logsumexp(-1) - s.gather(-1, labels[:, None])[:, 0]


def cosines(x: Any, y: Any) -> Any:
    return (x / x.norm(dim=-1, keepdim=True)) @ (y / y.norm(dim=-1, keepdim=True)).T


LABELS = torch.arange(ROWS) % 5
ROW, COLUMN, SIDE = drawn(ROWS, LENGTH), drawn(COLUMNS, LENGTH, seed=1), drawn(COLUMNS, SUMMED)
NUMBER = drawn(COLUMNS, seed=3)
CASES: Mapping[str, tuple[Any, dict[str, Any], dict[str, Any], Callable[..., Any]]] = {
    "gaussian_sum": (library.gaussian_sum, {"x": ROW, "y": COLUMN, "b": SIDE}, {},
                     lambda x, y, b: torch.exp(-distances(x, y) / 2) @ b),
    "density": (library.gaussian_sum, {"x": ROW, "y": COLUMN}, {},
                lambda x, y: torch.exp(-distances(x, y) / 2).sum(-1)),
    "contrastive": (library.contrastive, {"x": ROW, "y": COLUMN},
                    {"temperature": 0.5, "normalize": True},
                    lambda x, y: entropy(2 * cosines(x, y), torch.arange(ROWS))),
    "linear_cross_entropy": (library.linear_cross_entropy,
                             {"h": ROW, "w": COLUMN, "labels": LABELS, "bias": NUMBER}, {},
                             lambda h, w, labels, bias: entropy(h @ w.T + bias, labels)),
    "attention": (library.attention, {"q": ROW, "k": COLUMN, "v": SIDE, "bias": NUMBER},
                  {"scale": 1.0, "with_lse": True},
                  lambda q, k, v, bias: (torch.softmax(q @ k.T + bias, -1) @ v,
                                         torch.logsumexp(q @ k.T + bias, -1))),
    "nearest": (library.nearest, {"x": ROW, "y": COLUMN}, {"k": 2},
                lambda x, y: distances(x, y).topk(2, largest=False).values),
}
"""Pipeline, inputs, constants, and what it is in torch."""


def several(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, tuple | list) else (found,)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_any_mix_of_types(name: str) -> None:
    """Of cotangents and inputs, by fg.grad, and by autograd, whose cotangents have the results'
    types. Any two widths meet, and every type is every input's and the cotangents'."""
    pipeline, inputs, constants, text = CASES[name]
    floats = sum(a.is_floating_point() for a in inputs.values())
    for kept, *types in mixes(floats + 1):
        left = iter(types)
        given = {n: a.to(next(left)) if a.is_floating_point() else a for n, a in inputs.items()}
        wrt = [n for n, a in given.items() if a.is_floating_point()]
        leaves = {n: a.clone().requires_grad_(n in wrt) for n, a in given.items()}
        made = [o for o in several(pipeline(**leaves, **constants)) if o.is_floating_point()]
        cotangents = [drawn(*o.shape, seed=9) for o in made]
        own = [c.to(o.dtype) for c, o in zip(cotangents, made, strict=True)]
        found = torch.autograd.grad(made, [leaves[n] for n in wrt], own)
        near(found, exact(text, given, wrt, own), [given[n] for n in wrt], types)
        if name == "nearest":
            continue  # fg.grad has no lists
        own = [c.to(kept) for c in cotangents]
        found = several(fg.grad(pipeline, wrt=tuple(wrt), **constants)(*own, **given, **constants))
        near(found, exact(text, given, wrt, own), [given[n] for n in wrt], (kept, *types))


def mixes(inputs: int) -> list[tuple[Any, ...]]:
    """A type for each of some, in so many ways."""
    narrow = [itertools.cycle(TYPES[:2]) for _ in range(inputs)]
    found = [tuple(next(narrow[at]) if width is None else width for at, width in enumerate(widths))
             for widths in pairwise(*[WIDTHS] * inputs)]
    assert all({mix[at] for mix in found} == {*TYPES} for at in range(inputs))
    return found


def exact(text: Any, given: dict[str, Any], wrt: list[str], cotangents: list[Any]) -> Any:
    """The gradients in float64, of the very numbers that the types hold."""
    wide = {n: a.clone().double().requires_grad_() if n in wrt else a for n, a in given.items()}
    made = several(text(*wide.values()))
    return torch.autograd.grad(made, [wide[n] for n in wrt], [c.double() for c in cotangents])


def near(found: Any, want: Any, inputs: list[Any], types: Any) -> None:
    """Of the inputs' types, rounded to these once."""
    sums = 1e-14 if torch.float64 in types else 1e-6
    for one, right, of in zip(found, want, inputs, strict=True):
        assert one.dtype == of.dtype, types
        kind = torch.finfo(of.dtype)
        least = kind.tiny * kind.eps  # between neighbours that are not normal
        bound = kind.eps * right.abs() + least + 200 * sums * (1 + right.abs().max())
        assert ((one.double() - right).abs() <= bound).all(), types
