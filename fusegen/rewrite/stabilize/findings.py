"""What the rules found in a text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fusegen.ir import graph as g


class Hazard(Enum):
    """What goes wrong in a text's own arithmetic."""

    OVERFLOW = "overflow"
    CANCELLATION = "cancellation"
    SCALE = "scale"


@dataclass(frozen=True, slots=True)
class Finding:
    """A row value of the text with a hazard, and the safe sum that stands for it."""

    hazard: Hazard
    node: g.Node
    safe: g.Node
    bare: bool  # nothing in the text holds the exponential down
