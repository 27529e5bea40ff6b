"""What a rank says of its states before them: a header of fixed size, the same for every call.

    0   8  magic and version
    8   8  0: states follow; 1: this rank has failed
    16  8  rows
    24  8  bytes of a row's state
    32  8  columns of this rank's shard
    40  8  number of the first of them
    48  8  1: the caller gave that number; 0: it is what this rank believes
    56  8  columns of a whole row; -1: not given
    64 32  seal: SHA-256 of all that must be the same on every rank

Whole numbers are little-endian.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

MAGIC = int.from_bytes(b"fgshard\x01", "little")
SEAL_BYTES = 32
_HEADER = np.dtype([
    ("magic", "<i8"), ("failed", "<i8"), ("n_rows", "<i8"), ("n_bytes", "<i8"), ("n_cols", "<i8"),
    ("at", "<i8"), ("told", "<i8"), ("columns", "<i8"), ("seal", "u1", SEAL_BYTES),
])
HEADER_BYTES = _HEADER.itemsize
_COUNTS = ("n_rows", "n_bytes", "n_cols", "at", "columns")
NO_SEAL = bytes(SEAL_BYTES)


@dataclass(frozen=True, slots=True)
class Header:
    """What one rank says of its shard."""

    n_rows: int = 0
    n_bytes: int = 0
    n_cols: int = 0
    at: int = 0
    told: bool = False
    columns: int = -1
    seal: bytes = NO_SEAL
    failed: bool = False
    is_ours: bool = True  # did fusegen write it?

    @property
    def size(self) -> int:
        """Bytes of the states of all rows, of one piece of columns."""
        return self.n_rows * self.n_bytes


def unsealed(table: Any, seal: Any, wrong: Any) -> Any:
    """bool (): does a packet of the table, int64 (ranks, words), begin with another seal? `wrong`,
    bool (), becomes true then, too."""
    heads = table.as_strided((len(table), len(seal)), (table.stride(0), 1))
    found = heads.ne(seal).any()
    wrong.logical_or_(found)
    return found


def poison(states: Any, wrong: Any) -> None:
    """Fill a tensor of states with 0xff if `wrong`, a bool () beside it, says so: they are NaN, and
    columns of -1."""
    states.view(torch.int64).masked_fill_(wrong, -1)


def seal_of(*said: Any) -> bytes:
    """A word for values whose repr says all of them, the same in every process."""
    return hashlib.sha256(repr(said).encode()).digest()


def written(h: Header) -> np.ndarray[Any, Any]:
    """The header as bytes, uint8 (HEADER_BYTES,)."""
    record = np.zeros((), _HEADER)
    record["magic"], record["failed"], record["told"] = MAGIC, h.failed, h.told
    for name in _COUNTS:
        record[name] = getattr(h, name)
    record["seal"] = np.frombuffer(h.seal, np.uint8)
    return record.reshape(1).view(np.uint8)


def read(table: np.ndarray[Any, Any]) -> list[Header]:
    """The headers in the rows of a table, uint8 (ranks, HEADER_BYTES)."""
    records = np.ascontiguousarray(table).view(_HEADER)[:, 0]
    return [Header(**{n: int(r[n]) for n in _COUNTS}, told=bool(r["told"]),
                   seal=r["seal"].tobytes(), failed=bool(r["failed"]),
                   is_ours=int(r["magic"]) == MAGIC)
            for r in records]
