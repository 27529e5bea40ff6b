"""A decoding step whose vocabulary is sharded over ranks: states are exchanged, and no logits.

Each rank has its columns of the head, makes its shard of the logits, and folds it. What the ranks
send one another is a state of each row: its maximum, its sum, its 64 best. With GPUs:

    torchrun --nproc-per-node 4 examples/vocabulary_parallel.py

and without torchrun two processes over gloo, or as many as are asked for. Needs torch:
pip install "fusegen[torch]".
"""

import os
import subprocess
import sys
import time
from datetime import timedelta
from statistics import median

import torch
import torch.distributed as dist

import fusegen as fg

WIDTH, VOCABULARY, ROWS, K, STEPS = 64, 32_000, 8, 64, 5


@fg.pipeline
def candidates(logits, *, k=64, temperature=0.8):
    """The k best tokens with their probabilities, and the row's log-sum-exp."""
    y = logits / temperature
    m = fg.max(y)
    total = fg.sum(fg.exp(y - m))
    return fg.topk(fg.exp(y - m) / total, k), m + fg.log(total)


@fg.pipeline
def gumbel_max(logits, noise):
    """A token drawn from softmax(logits), by noise that is given."""
    return fg.argmax(logits + noise)


@fg.pipeline
def log_probability(logits, token: fg.PerRow):
    """Of one token of each row, anywhere in the vocabulary."""
    return fg.take(logits, token) - fg.logsumexp(logits)


def shard_of(n: int, rank: int, ranks: int) -> slice:
    return slice(rank * n // ranks, (rank + 1) * n // ranks)


def gathered(mine: torch.Tensor, columns: int) -> torch.Tensor:
    """Whole logits on every rank: what people do today."""
    ranks = dist.get_world_size()
    widths = [shard_of(columns, r, ranks) for r in range(ranks)]
    parts = [mine.new_empty(mine.shape[0], s.stop - s.start) for s in widths]
    dist.all_gather(parts, mine.contiguous())
    return torch.cat(parts, -1)


def milliseconds(call, device: torch.device) -> float:
    call()
    times = []
    for _ in range(STEPS):
        dist.barrier()
        began = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - began) * 1e3)
    return median(times)


def decode(rank: int, ranks: int, device: torch.device) -> None:
    torch.manual_seed(0)
    head, hidden = torch.randn(VOCABULARY, WIDTH), torch.randn(ROWS, WIDTH)
    noise = -torch.log(-torch.log(torch.rand(ROWS, VOCABULARY)))
    mine = shard_of(VOCABULARY, rank, ranks)
    logits = (hidden @ head[mine].T).to(device)

    best, sample, score = map(fg.distributed.sharded, (candidates, gumbel_max, log_probability))
    (shares, tokens), lse = best(logits, k=K)
    token = sample(logits, noise[:, mine].to(device))
    log_p = score(logits, token)

    whole = (hidden @ head.T).double()
    wanted = torch.topk(torch.softmax(whole / 0.8, -1), K)
    assert torch.equal(tokens.cpu(), wanted.indices)
    torch.testing.assert_close(shares.cpu().double(), wanted.values, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(lse.cpu().double(), torch.logsumexp(whole / 0.8, -1))
    assert torch.equal(token.cpu(), (whole.float() + noise).argmax(-1))
    picked = torch.log_softmax(whole, -1).gather(1, token.cpu()[:, None])[:, 0]
    torch.testing.assert_close(log_p.cpu().double(), picked, rtol=1e-4, atol=1e-4)

    ours = milliseconds(lambda: best(logits, k=K), device)
    theirs = milliseconds(lambda: candidates(gathered(logits, VOCABULARY), k=K), device)
    if rank == 0:
        print(best.plan(ROWS, VOCABULARY, k=K))
        print(f"a step: {ours:.2f} ms; logits gathered first: {theirs:.2f} ms")
        assert best.plan(ROWS, VOCABULARY, k=K).exchanged_bytes < 4 * ROWS * VOCABULARY


def run(rank: int, ranks: int) -> None:
    gpus = torch.cuda.is_available() and torch.cuda.device_count() >= ranks
    device = torch.device("cuda", rank) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    torch.set_num_threads(1)
    dist.init_process_group("nccl" if gpus else "gloo", timeout=timedelta(seconds=60))
    decode(rank, ranks, device)
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:  # by torchrun
        run(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    else:
        ranks = sys.argv[1] if len(sys.argv) > 1 else "2"
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone",
                        "--nproc-per-node", ranks, __file__], check=True)
