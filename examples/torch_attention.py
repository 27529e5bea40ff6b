"""A language model whose scores and logits are never stored, trained in one graph of torch.compile.

Its attention and its loss are texts over vectors: a causal, grouped attention whose heads share
keys, and the cross entropy of h·w over the vocabulary. The losses of the same model with torch's
own operations are the same within float32's rounding. Needs torch: pip install "fusegen[torch]".
"""

from __future__ import annotations

import copy
import time

import torch
from torch import nn

import fusegen as fg

WORDS, WIDTH, HEADS, GROUPS, CONTEXT = 1000, 64, 4, 2, 96


class Model(nn.Module):
    """`ours`: by fusegen; else by torch's own operations, which store what they are made of."""

    def __init__(self, ours: bool) -> None:
        super().__init__()
        self.ours, d = ours, WIDTH // HEADS
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.norm, self.last = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * GROUPS * d)
        self.out = nn.Linear(WIDTH, WIDTH)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        n, t, d = *x.shape[:2], WIDTH // HEADS
        q = self.q(x).view(n, t, GROUPS, HEADS // GROUPS, d).movedim(1, 3)
        k, v = self.kv(x).view(n, t, 2, GROUPS, 1, d).movedim(1, 4).unbind(1)
        if self.ours:
            y = fg.library.attention(q, k, v, scale=d**-0.5, causal=True)
        else:
            wide = (*q.shape[:3], t, d)
            y = nn.functional.scaled_dot_product_attention(
                q, k.expand(wide), v.expand(wide), is_causal=True)
        return self.out(y.movedim(3, 1).reshape(n, t, WIDTH))

    def forward(self, words: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.places.weight
        h = self.last(x + self.attend(self.norm(x)))
        if self.ours:
            return fg.library.linear_cross_entropy(h, self.words.weight, following).mean()
        logits = h @ self.words.weight.T
        return nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())


def trained(model: Model, steps: int) -> tuple[list[float], float]:
    """(losses, milliseconds a step once it is compiled)."""
    step = torch.compile(model, fullgraph=True, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    source, losses, times = torch.Generator().manual_seed(1), [], []
    for _ in range(steps):
        start = time.perf_counter()
        first = torch.randint(0, WORDS, (4, 1), generator=source)
        text = (first + 7 * torch.arange(CONTEXT + 1)) % WORDS  # each word says which is the next
        loss = step(text[:, :-1], text[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
    return losses, 1e3 * min(times)


def main() -> None:
    torch.manual_seed(0)
    ours = Model(ours=True)
    theirs = copy.deepcopy(ours)
    theirs.ours = False
    found, mine = trained(ours, 8)
    wanted, peers = trained(theirs, 8)
    torch.testing.assert_close(found, wanted, rtol=2e-3, atol=2e-3)
    assert found[-1] < found[0] - 1
    scores, logits = 4 * HEADS * CONTEXT**2 * 4 / 1e6, 4 * CONTEXT * WORDS * 4 / 1e6
    print(f"loss {found[0]:.3f}, then {found[-1]:.3f}; torch's {wanted[0]:.3f}, {wanted[-1]:.3f}")
    print(f"a step: {mine:.1f} ms, torch's {peers:.1f} ms; "
          f"{scores:.1f} MB of scores and {logits:.1f} MB of logits not stored")


if __name__ == "__main__":
    main()
