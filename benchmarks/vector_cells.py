"""What benchmarks/vectors_gpu.py measures: calls beside their peers, a check, and a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from vector_texts import (
    attention,
    causal,
    gaussian,
    logsumexp,
    most_alike,
    nearest,
    softcap,
    with_entropy,
)

import fusegen as fg

Call = Callable[[], Any]
Reached = Callable[[dict[str, float]], bool]


@dataclass(frozen=True)
class Cell:
    """One work at one shape.

    calls: candidates by name, "ours" first. off: how far our result is from what is right, and
    at_most how far it may be. target: what is wanted of the times, in words, and whether it is met.
    n_bytes: what a call reads, where its time is that of reading; 0 elsewhere.
    """

    name: str
    calls: dict[str, Call]
    off: Callable[[Any], float]
    target: str = ""
    reached: Reached = lambda times: True
    at_most: float = 0.01
    n_bytes: int = 0


def within(microseconds: float) -> dict[str, Any]:
    return {"target": f"<= {microseconds:,.0f} us",
            "reached": lambda times: times["ours"] <= microseconds}


def share(peer: str, least: float) -> dict[str, Any]:
    """Ours has at least this share of the peer's speed."""
    return {"target": f">= {least:g} of {peer}",
            "reached": lambda times: times[peer] / times["ours"] >= least}


def drawn(*shape: int, dtype: Any = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def by_torch(backend: SDPBackend, *arrays: torch.Tensor, **more: Any) -> Call:
    def run() -> torch.Tensor:
        with sdpa_kernel([backend]):
            return scaled_dot_product_attention(*arrays, **more)

    return run


def apart(found: Any, want: torch.Tensor) -> float:
    """The norm of the difference over that of what is wanted."""
    first = found[0] if isinstance(found, tuple) else found
    return float((first.double() - want.double()).norm() / want.double().norm())


PEERS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention-2": SDPBackend.FLASH_ATTENTION}
SHAPES = {(4, 16, 4096, 128): (1.0, 1.0), (4, 16, 4096, 64): (1.0, 0.95),
          (2, 16, 4096, 256): (1.0, 1.0), (1, 32, 16384, 128): (1.0, 1.0),
          (32, 16, 512, 64): (0.93, 0.93), (2, 16, 1000, 128): (0.93, 0.93)}
"""Shares of cuDNN's speed that are wanted, of all columns and of causal rows."""


def attentions() -> Iterator[Cell]:
    for (batch, heads, n, d), wanted in SHAPES.items():
        q, k, v = (drawn(batch, heads, n, d) for _ in range(3))
        for text in (attention, causal, with_entropy):
            masked = text is causal
            peers = {name: by_torch(b, q, k, v, is_causal=masked) for name, b in PEERS.items()}
            want = peers["FlashAttention-2"]()
            calls = {"ours": lambda t=text, a=(q, k, v), s=d**-0.5: t(*a, scale=s), **peers}
            least = share("cuDNN", wanted[masked])
            if text is with_entropy:
                calls["plain"] = lambda a=(q, k, v), s=d**-0.5: attention(*a, scale=s)
                least = share("plain", 1 / 1.15)
            yield Cell(f"{text.name}, {batch} x {heads} x {n}, d {d}", calls,
                       lambda found, want=want: apart(found, want), **least)
    for d, most in ((128, 1150), (64, 944)):
        q, k, v = (drawn(4, 16, 4096, d) for _ in range(3))
        s = 30 * torch.tanh(q[0, 0].double() @ k[0, 0].double().T * d**-0.5 / 30)
        want = torch.softmax(s, -1) @ v[0, 0].double()
        yield Cell(f"softcap, 4 x 16 x 4096, d {d}",
                   {"ours": lambda a=(q, k, v), d=d: softcap(*a, scale=d**-0.5, cap=30.0)},
                   lambda found, want=want: apart(found[0, 0], want), **within(most))


def backward() -> Iterator[Cell]:
    """Gradients alone: what is kept of the forward call is at hand, as in training."""
    for d in (128, 64):
        for masked in (False, True):
            q, k, v = (drawn(4, 16, 4096, d).requires_grad_() for _ in range(3))
            do = drawn(4, 16, 4096, d)
            results = {"ours": fg.library.attention(q, k, v, scale=d**-0.5, causal=masked),
                       **{name: by_torch(b, q, k, v, is_causal=masked)()
                          for name, b in PEERS.items()}}
            calls = {name: lambda o=o, a=(q, k, v), do=do: torch.autograd.grad(
                o, a, do, retain_graph=True) for name, o in results.items()}
            want = calls["FlashAttention-2"]()
            yield Cell(f"gradients of attention{', causal' * masked}, 4 x 16 x 4096, d {d}", calls,
                       lambda found, want=want: max(map(apart, found, want)), **share("cuDNN", 0.7))


def decoding() -> Iterator[Cell]:
    for batch, heads, n in ((64, 8, 8192), (16, 8, 8192), (1, 8, 131_072), (1, 8, 8192)):
        q, k, v = drawn(batch, heads, 4, 128), *(drawn(batch, heads, n, 128) for _ in range(2))
        peer = by_torch(SDPBackend.CUDNN_ATTENTION, q.view(batch, heads * 4, 1, 128), k, v,
                        enable_gqa=True)
        want = peer().view(batch, heads, 4, 128)
        calls = {"ours": lambda a=(q, k, v): attention(*a, scale=128**-0.5), "cuDNN": peer}
        yield Cell(f"decoding, {batch} x {heads} heads of 4, {n} keys, d 128", calls,
                   lambda found, want=want: apart(found, want), **share("cuDNN", 1.0),
                   n_bytes=k.nbytes + v.nbytes)


def folds() -> Iterator[Cell]:
    works = ((logsumexp, 10_000, 1_000_000, 128, 4600), (logsumexp, 10_000, 1_000_000, 64, 3600),
             (most_alike, 10_000, 1_000_000, 128, 3765), (most_alike, 1_000_000, 4096, 128, 1808))
    for text, n, m, d, most in works:
        x, y = drawn(n, d), drawn(m, d)
        some = x[:50].double() @ y.double().T
        want = some.logsumexp(-1) if text is logsumexp else some.amax(-1)

        def off(found: Any, want: Any = want, some: Any = some, text: Any = text) -> float:
            first = found[:50].double()
            if text is most_alike:
                first = some.gather(-1, found[:50, None]).squeeze(-1)
            return float(((first - want) / want).abs().max())

        yield Cell(f"{text.name}, {n} x {m}, d {d}", {"ours": lambda t=text, a=(x, y): t(*a)}, off,
                   **within(most))


def heads() -> Iterator[Cell]:
    """A language model's head: hidden states times its words, of 4096 numbers."""
    w = drawn(128_256, 4096) / 64
    for n in (1, 16, 64, 128, 1024):
        h = drawn(n, 4096)
        want = torch.softmax(torch.mm(h, w.T, out_dtype=torch.float32), -1).amax(-1)
        calls = {"ours": lambda h=h: fg.library.head_topk(h, w, k=64),
                 "product": lambda h=h: h @ w.T,
                 "product + ours": lambda h=h: fg.library.softmax_topk(h @ w.T, k=64),
                 "product in float32": lambda h=h: torch.mm(h, w.T, out_dtype=torch.float32),
                 "product in float32 + ours": lambda h=h: fg.library.softmax_topk(
                     torch.mm(h, w.T, out_dtype=torch.float32), k=64),
                 "torch": lambda h=h: torch.topk(torch.softmax(h @ w.T, -1), 64)}
        wanted = within(262 if n <= 16 else 270) if n <= 64 else share("product + ours", 1.0)
        yield Cell(f"head with its 64 best, {n} x 4096 -> 128256", calls,
                   lambda found, want=want: apart(found[0][:, 0], want), **wanted)
    h, labels = drawn(8192, 4096), torch.randint(0, 128_256, (8192,), device="cuda")
    want = torch.cat([cross_entropy(torch.mm(part, w.T, out_dtype=torch.float32), at,
                                    reduction="none")
                      for part, at in zip(h.split(512), labels.split(512), strict=True)])
    calls = {"ours": lambda: fg.library.linear_cross_entropy(h, w, labels),
             "product": lambda: h @ w.T}
    yield Cell("linear cross entropy, 8192 x 4096 -> 128256", calls,
               lambda found: apart(found, want), **share("product", 1 / 1.03))
    yield head_gradients(h, w, labels)


def head_gradients(h: torch.Tensor, w: torch.Tensor, labels: torch.Tensor) -> Cell:
    """Both gradients of the loss, beside the three products that any way of making them takes."""
    x, y, g = h.clone().requires_grad_(), w.clone().requires_grad_(), drawn(len(h))
    loss = fg.library.linear_cross_entropy(x, y, labels)
    some = torch.softmax(torch.mm(h[:512], w.T, out_dtype=torch.float32), -1)
    some[torch.arange(512), labels[:512]] -= 1
    want = (some * g[:512, None]) @ w.float()
    elements = torch.empty(len(h), len(w), dtype=h.dtype, device="cuda").normal_()
    calls = {"ours": lambda: torch.autograd.grad(loss, (x, y), g, retain_graph=True),
             "forward": lambda: fg.library.linear_cross_entropy(h, w, labels),
             "three products": lambda: (h @ w.T, elements @ w, elements.T @ h)}
    return Cell("gradients of linear cross entropy, 8192 x 4096 -> 128256", calls,
                lambda found: apart(found[0][:512], want), **share("forward", 1 / 2.5))


def clusters(n: int, m: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Both sides from 2000 small clusters of 128 numbers."""
    at = drawn(2000, 128, dtype=torch.float32)
    x, y = (at[torch.randint(0, 2000, (count,), device="cuda")] for count in (n, m))
    return (x + 0.1 * drawn(n, 128, dtype=torch.float32),
            y + 0.1 * drawn(m, 128, dtype=torch.float32))


def neighbours() -> Iterator[Cell]:
    """The nearest of float32 vectors, exact as the float32 text; what rounds is in the times."""
    plain = tuple(drawn(n, 128, dtype=torch.float32) for n in (10_000, 1_000_000))
    far_first = torch.cdist(plain[0][:1], plain[1])[0].argsort(descending=True)
    data = {"": (plain, 10, 4800), ", 64": (plain, 64, 5800),
            ", clustered": (clusters(10_000, 1_000_000), 10, 8000),
            ", nearest last": ((plain[0], plain[1][far_first]), 10, 4800)}
    for name, ((x, y), k, most) in data.items():
        exact = torch.cdist(x[::500].double(), y.double()).topk(k, -1, largest=False).indices

        def missed(found: Any, exact: Any = exact) -> float:
            same = found[1][::500].sort(-1).values == exact.sort(-1).values
            return float((~same).sum())

        def in_parts(x: Any = x, y: Any = y, k: int = k) -> Any:
            half = y.square().sum(-1) / 2
            return [torch.topk(part @ y.T - half, k) for part in x.split(1000)]

        calls: dict[str, Call] = {"ours": lambda x=x, y=y, k=k: nearest(x, y, k=k)}
        if not name:
            calls["torch in parts of rows"] = in_parts
        yield Cell(f"nearest{name or ', 10'}, 10000 x 1000000, d 128, float32", calls, missed,
                   **within(most), at_most=0)


def floats() -> Iterator[Cell]:
    """Texts in float32, with the accuracy of float32 arithmetic."""
    x, y, b = drawn(100_000, 3, dtype=torch.float32), drawn(100_000, 3, dtype=torch.float32), \
        drawn(100_000, dtype=torch.float32)
    want = torch.exp(-torch.cdist(x[:50].double(), y.double()).square() / 4.5) @ b.double()
    yield Cell("Gaussian sum, 100000 x 100000, d 3, float32",
               {"ours": lambda: gaussian(x, y, b, s=1.5)},
               lambda found: apart(found[:50], want), **within(3846), at_most=1e-5)
    u, v = (drawn(n, 128, dtype=torch.float32) for n in (10_000, 100_000))
    sums = (u[:50].double() @ v.double().T).logsumexp(-1)
    yield Cell("logsumexp, 10000 x 100000, d 128, float32",
               {"ours": lambda: logsumexp(u, v), "product": lambda: u @ v.T},
               lambda found: apart(found[:50], sums), **within(2133), at_most=1e-6)
    yield Cell("logsumexp, 10000 x 100000, d 128, float32 by three products of bfloat16",
               {"ours": lambda: logsumexp(u, v, precision="bf16x3"), "product": lambda: u @ v.T},
               lambda found: apart(found[:50], sums), **within(1045), at_most=1e-4)
    q, k, w = (drawn(4, 16, 4096, 64, dtype=torch.float32) for _ in range(3))
    s = torch.softmax(q[0, 0].double() @ k[0, 0].double().T / 8, -1) @ w[0, 0].double()
    yield Cell("attention, 4 x 16 x 4096, d 64, float32",
               {"ours": lambda: attention(q, k, w, scale=0.125),
                "torch": lambda: scaled_dot_product_attention(q, k, w)},
               lambda found: apart(found[0, 0], s), **share("torch", 1.0), at_most=1e-5)


GROUPS = (attentions, backward, decoding, folds, heads, neighbours, floats)
