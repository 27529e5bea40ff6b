"""The look at the seals of packets from other ranks: torch's operations, and one kernel on GPUs."""

from __future__ import annotations

import numpy as np
import pytest
import simt
from support.emulated import emulated

from fusegen.backend.cuda.run.seals import SYMBOL, source

torch = pytest.importorskip("torch", reason="torch is not installed")

from fusegen.distributed.packets import poison, unsealed  # noqa: E402

WORDS, APART = 5000, 9


def tables() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(what differs, packets of 70 ranks, this rank's seal)."""
    rng = np.random.default_rng(3)
    packets = rng.integers(-(2**63), 2**63, (70, APART))
    packets[:, :4] = seal = packets[0, :4].copy()
    found = [("nothing", packets, seal)]
    for rank, word in ((0, 0), (69, 3), (31, 1), (64, 2)):
        other = packets.copy()
        other[rank, word] ^= 1
        found.append((f"word {word} of rank {rank}", other, seal))
    return found


@emulated
def test_one_wrong_seal_poisons_all_states() -> None:
    """Words behind the seals differ from rank to rank."""
    module = simt.compile_module(source())
    for what, packets, seal in tables():
        states, wrong = np.arange(WORDS), np.zeros(1, np.uint8)
        module.launch(SYMBOL, (3,), (256,), [packets, seal, states, wrong, 70, APART, WORDS],
                      outputs={2, 3}, initialised={2, 3})
        same = what == "nothing"
        assert wrong[0] == (not same), what
        np.testing.assert_array_equal(states, np.arange(WORDS) if same else -np.ones(WORDS, int))


def test_by_torch() -> None:
    for what, packets, seal in tables():
        states, wrong = torch.arange(WORDS).view(torch.uint8), torch.zeros((), dtype=torch.bool)
        poison(states, unsealed(torch.from_numpy(packets), torch.from_numpy(seal), wrong))
        same = what == "nothing"
        assert bool(wrong) == (not same), what
        assert torch.equal(states.view(torch.int64), torch.arange(WORDS)) == same
        assert bool((states == 255).all()) == (not same)
        assert not unsealed(torch.from_numpy(tables()[0][1]), torch.from_numpy(seal), wrong)
        assert bool(wrong) == (not same), "it stays"
