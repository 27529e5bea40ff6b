"""A transformer trained with torch, its softmax, norms, loss and expert router by pipelines.

The model is plain torch, built from a config; `fg.torch.patch` swaps its layers in place. The loss
curves of both are the same within float32's rounding. Needs torch: pip install "fusegen[torch]".
"""

import copy
from dataclasses import dataclass

import torch
from torch import nn

import fusegen as fg


@dataclass(frozen=True)
class Config:
    vocabulary: int = 64
    width: int = 48
    heads: int = 4
    layers: int = 2
    context: int = 24


class Attention(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.heads, self.softmax = c.heads, nn.Softmax(dim=-1)
        self.qkv, self.out = nn.Linear(c.width, 3 * c.width), nn.Linear(c.width, c.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, d = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).split(d, dim=-1))
        scores = q @ k.transpose(-2, -1) / (d / self.heads) ** 0.5
        ahead = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        weights = self.softmax(scores.masked_fill(ahead, -torch.inf))
        return self.out((weights @ v).transpose(1, 2).reshape(n, t, d))


class Block(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(c.width), nn.RMSNorm(c.width, eps=1e-6)
        self.attention = Attention(c)
        self.wide = nn.Sequential(nn.Linear(c.width, 4 * c.width), nn.GELU(),
                                  nn.Linear(4 * c.width, c.width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        return x + self.wide(self.second(x))


class Transformer(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.tokens = nn.Embedding(c.vocabulary, c.width)
        self.places = nn.Embedding(c.context, c.width)
        self.blocks = nn.Sequential(*(Block(c) for _ in range(c.layers)))
        self.norm, self.head = nn.LayerNorm(c.width), nn.Linear(c.width, c.vocabulary)
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.05)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


def batch(c: Config, source: torch.Generator) -> torch.Tensor:
    """Rows that count on by 3 from anywhere: something to learn."""
    start = torch.randint(0, c.vocabulary, (16, 1), generator=source)
    return (start + 3 * torch.arange(c.context + 1)) % c.vocabulary


def train(model: Transformer, c: Config, steps: int = 30) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    source, curve = torch.Generator().manual_seed(1), []
    for _ in range(steps):
        rows = batch(c, source)
        logits = model(rows[:, :-1])
        loss = model.loss(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return curve


if __name__ == "__main__":
    config = Config()
    torch.manual_seed(0)
    plain = Transformer(config)
    patched = copy.deepcopy(plain)
    swapped = fg.torch.patch(patched)
    print(*swapped, sep="\n")
    assert len(swapped) == 3 * config.layers + 2

    ours, torchs = train(patched, config), train(plain, config)
    print(f"loss {ours[0]:.4f} → {ours[-1]:.4f}; torch's {torchs[0]:.4f} → {torchs[-1]:.4f}")
    assert ours[-1] < ours[0] / 2
    assert max(abs(a - b) / b for a, b in zip(ours, torchs, strict=True)) < 1e-3
