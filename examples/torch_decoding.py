"""A decoding loop: the next token of each row by one read of its logits, in one graph.

Temperature, softmax, the K most probable tokens and the chosen one's logarithm are one pipeline;
torch.compile sees it as one operator. Needs torch: pip install "fusegen[torch]".
"""

import torch

import fusegen as fg


@fg.pipeline
def nucleus(logits, *, k=8, temperature=0.8):
    """Probabilities of the K best tokens, renormalised, and these tokens."""
    y = logits / temperature
    p = fg.exp(y - fg.max(y)) / fg.sum(fg.exp(y - fg.max(y)))
    best, tokens = fg.topk(p, k)
    return best / fg.sum(best), tokens


class Model(torch.nn.Module):
    """A recurrent language model; any other would do."""

    def __init__(self, vocabulary: int = 500, width: int = 32) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.cell, self.norm = torch.nn.GRUCell(width, width), torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, token: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        state = self.cell(self.tokens(token), state)
        share, candidates = nucleus(self.head(self.norm(state)), k=4)
        return share, candidates, state


def decode(step, n_rows: int, n_steps: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(2)
    token, state = torch.zeros(n_rows, dtype=torch.int64), torch.zeros(n_rows, 32)
    found = []
    for _ in range(n_steps):
        share, candidates, state = step(token, state)
        pick = torch.multinomial(share, 1, generator=source)
        token = candidates.gather(1, pick).squeeze(1)
        found.append(token)
    return torch.stack(found, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Model().eval()
    swapped = fg.torch.patch(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.inference_mode():
        eager, graph = (decode(step, n_rows=3, n_steps=12) for step in (model, compiled))
        logits = model.head(torch.randn(3, 32))
        share, tokens = nucleus(logits, k=4)
        wanted = torch.topk(torch.softmax(logits / 0.8, -1), 4)
    print(eager)
    assert torch.equal(eager, graph)
    assert torch.equal(tokens, wanted.indices)
    torch.testing.assert_close(share, wanted.values / wanted.values.sum(-1, keepdim=True))
    assert nucleus.plan(k=4).reads_per_element == 1
