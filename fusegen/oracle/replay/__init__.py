"""A program's merged operators on numbers, by monoid.py's own words.

An independent second reading of the kernel IR: states of pieces of a row are made, merged in any
order, and read out. One row at a time, in float64 or in as many digits as wanted
(fusegen.oracle.precise); or many rows at once, in the kernels' own float32 or float64 (`rows.py`).
Nothing is shared with the emitters.
"""

from fusegen.oracle.replay.row import RowReplay, Split
from fusegen.oracle.replay.rows import ROUNDED, RowsReplay, balanced, chain
from fusegen.oracle.replay.states import Folder, State, first_of_both, rank

__all__ = [
    "ROUNDED", "Folder", "RowReplay", "RowsReplay", "Split", "State", "balanced", "chain",
    "first_of_both", "rank",
]
