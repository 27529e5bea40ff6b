"""Training and decoding steps of torch models, their layers as torch has them and as pipelines.

    python benchmarks/torch_bench.py [--output benchmarks/results/NAME.json]    # torch; a GPU

Four ways to run each model: eager, patched (`fg.torch.patch`), torch.compile of either. All begin
with the same parameters and see the same data. Times are medians of whole steps, the ways in turns;
memory is the greatest amount allocated in a step, beyond what the four ways hold. Curves: the
greatest difference of a loss from eager's in the same step, relative to it. Without a GPU all is
small: it shows that it works.
"""

from __future__ import annotations

import argparse
import copy
import datetime
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import fusegen as fg

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from torch_decoding import nucleus
from torch_training import Config, Transformer

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
SIZE = Config(32_000, 768, 12, 6, 512) if ON_GPU else Config(500, 64, 4, 2, 32)
BATCH, WARM_UP, STEPS = (32, 5, 20) if ON_GPU else (4, 2, 7)
ROWS, VOCABULARY, K = (64, 128_256, 50) if ON_GPU else (8, 5_000, 20)


def ways(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """The same parameters, four times."""
    patched = copy.deepcopy(model)
    print(f"swapped {len(fg.torch.patch(patched))} layers")
    return {"eager": model, "patched": patched, "compile": torch.compile(copy.deepcopy(model)),
            "compile, patched": torch.compile(copy.deepcopy(patched))}


def gpt2() -> torch.nn.Module | None:
    """transformers' model, built from a configuration."""
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        return None
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=SIZE.vocabulary, n_positions=SIZE.context, n_embd=SIZE.width, n_head=SIZE.heads,
        n_layer=SIZE.layers, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))


def own_loss(model: Any, rows: torch.Tensor) -> torch.Tensor:
    logits = model(rows[:, :-1])
    loss: torch.Tensor = model.loss(logits.flatten(0, 1), rows[:, 1:].flatten())
    return loss


def gpt2_loss(model: Any, rows: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model(input_ids=rows[:, :-1], labels=rows[:, :-1]).loss
    return loss


def data() -> Iterator[torch.Tensor]:
    """Rows that count on from anywhere: something to learn."""
    source = torch.Generator(DEVICE).manual_seed(1)
    while True:
        start = torch.randint(0, SIZE.vocabulary, (BATCH, 1), generator=source, device=DEVICE)
        yield (start + 3 * torch.arange(SIZE.context + 1, device=DEVICE)) % SIZE.vocabulary


def trained(model: torch.nn.Module, loss_of: Callable[..., torch.Tensor]) -> Callable[[], float]:
    """A training step of one way."""
    optimizer, rows = torch.optim.AdamW(model.parameters(), lr=3e-4), data()

    def step() -> float:
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = loss_of(model, next(rows))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def measured(steps: dict[str, Callable[[], Any]]) -> dict[str, dict[str, Any]]:
    """Milliseconds, memory and what each step gave; the ways in turns."""
    found: dict[str, dict[str, Any]] = {n: {"ms": [], "peak_mb": 0.0, "gave": []} for n in steps}
    for turn in range(WARM_UP + STEPS):
        for name, step in steps.items():
            before = _peak_begins()
            start = time.perf_counter()
            gave = step()
            _wait()
            spent = 1e3 * (time.perf_counter() - start)
            found[name]["gave"].append(gave)
            if turn >= WARM_UP:
                found[name]["ms"].append(spent)
                peak = (torch.cuda.max_memory_allocated() - before) / 1e6 if ON_GPU else 0.0
                found[name]["peak_mb"] = max(found[name]["peak_mb"], peak)
    for one in found.values():
        one["ms"] = statistics.median(one["ms"])
    return found


def _wait() -> None:
    if ON_GPU:
        torch.cuda.synchronize()


def _peak_begins() -> int:
    if not ON_GPU:
        return 0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def training(name: str, model: torch.nn.Module, loss_of: Callable[..., torch.Tensor]
             ) -> dict[str, Any]:
    found = measured({n: trained(m, loss_of) for n, m in ways(model).items()})
    eager = found["eager"]["gave"]
    for way, one in found.items():
        curve = one.pop("gave")
        one["curve"] = max(abs(a - b) / b for a, b in zip(curve, eager, strict=True))
        one["losses"] = [curve[0], curve[-1]]
        show(name, way, one, found)
    return found


def decoding() -> dict[str, Any]:
    """From logits to the K best tokens and their shares."""
    logits = (3 * torch.randn(ROWS, VOCABULARY, device=DEVICE)).bfloat16()

    def plain() -> tuple[torch.Tensor, torch.Tensor]:
        best, tokens = torch.topk(torch.softmax(logits.float() / 0.8, -1), K)
        return best / best.sum(-1, keepdim=True), tokens

    def ours() -> tuple[torch.Tensor, torch.Tensor]:
        return nucleus(logits, k=K)  # type: ignore[no-any-return]

    with torch.inference_mode():
        steps = {"eager": plain, "patched": ours, "compile": torch.compile(plain),
                 "compile, patched": torch.compile(ours)}
        found = measured(steps)
    wanted = plain()[0]
    for way, one in found.items():
        share, _ = one.pop("gave")[-1]
        one["error"] = float((share - wanted).abs().max())
        show("decoding", way, one, found)
    return found


def show(name: str, way: str, one: dict[str, Any], found: dict[str, dict[str, Any]]) -> None:
    times = found["eager"]["ms"] / one["ms"]
    off = one.get("curve", one.get("error"))
    print(f"{name:14s}{way:18s}{one['ms']:9.3f} ms {times:6.2f} × eager {one['peak_mb']:9.1f} MB  "
          f"off by {off:.2g}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.manual_seed(0)
    report: dict[str, Any] = {
        "date": datetime.date.today().isoformat(), "fusegen": fg.__version__,
        "torch": torch.__version__, "device": torch.cuda.get_device_name() if ON_GPU else "cpu",
        "model": vars(SIZE) | {"batch": BATCH}, "decoding": [ROWS, VOCABULARY, K],
        "transformer": training("transformer", Transformer(SIZE).to(DEVICE), own_loss),
        "decoding_step": decoding(),
    }
    model = gpt2()
    if model is not None:
        report["gpt2"] = training("gpt2", model.to(DEVICE), gpt2_loss)
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
