"""How much the text itself loses in float32: the yardstick for what a merged sum may lose."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import mpmath as mp

from fusegen.ir import graph as g

from .exact import Piece, is_nan

_STEP = mp.mpf(2) ** -24
_EXACT_OPS = {"neg", "abs", "sign", "maximum", "minimum", "where", "gt", "lt", "ge", "le", "eq",
              "ne", "and", "or", "not"}


def text_error(node: g.Reduce, piece: Piece, rng: random.Random) -> Any:
    """What the text itself loses on this row, in units of float32's last bit: the sum of the
    magnitudes it adds, and the greatest change seen under random last bits."""
    exact = piece.element(node.arg)
    changes = []
    for _ in range(3):
        rough = _Rough(piece.row, piece.columns, piece.length, rng=rng).element(node.arg)
        pairs = [(a, b) for a, b in zip(rough, exact, strict=True) if not is_nan(a)]
        changes.append(mp.fsum(abs(a - b) for a, b in pairs))
    return mp.fsum(exact, absolute=True) + max(changes) / _STEP


@dataclass
class _Rough(Piece):
    """A piece whose operations are each off by up to one last bit of float32."""

    rng: random.Random = field(default_factory=random.Random)

    def _off(self, value: Any) -> Any:
        return value * (1 + _STEP * mp.mpf(self.rng.randint(-1000, 1000)) / 1000)

    def _made(self, node: g.Node) -> Any:
        value = Piece._made(self, node)
        match node:
            case g.Map(op=op) if op not in _EXACT_OPS:
                pass
            case g.Reduce(fold=g.Fold.SUM | g.Fold.MEAN, arg=arg):
                size = mp.fsum((v for v in self.element(arg) if not is_nan(v)), absolute=True)
                size = size / len(self.columns) if node.fold is g.Fold.MEAN else size
                return value + _STEP * size * mp.mpf(self.rng.randint(-1000, 1000)) / 1000
            case _:
                return value
        return [self._off(v) for v in value] if isinstance(value, list) else self._off(value)
