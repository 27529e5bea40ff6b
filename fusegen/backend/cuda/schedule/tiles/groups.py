"""What warpgroups multiply and have (sm_90a): units and sizes of any block of the wgmma engine."""

from __future__ import annotations

from dataclasses import dataclass

GROUP, GROUP_ROWS = 128, 64  # threads and rows of a warpgroup
STEP = 16  # numbers of 16 bits that one product takes
CHUNK = 64  # numbers of 16 bits that lie together: 128 bytes, the width of a swizzled tile
SHARED_BYTES = 227 << 10  # of a block
_ALL_REGISTERS = 65536  # of a multiprocessor, which has one block


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTiles:
    """Sizes of any of the engine's blocks: warpgroups that look at scores, and one that copies."""

    warpgroups: int
    stages: int
    length: int  # of the vectors that meet

    @property
    def rows(self) -> int:
        return GROUP_ROWS * self.warpgroups

    @property
    def threads(self) -> int:
        return GROUP * (self.warpgroups + 1)

    @property
    def chunks(self) -> int:
        """Of a vector's numbers, in shared memory."""
        return -(-self.length // CHUNK)

    @property
    def shares_registers(self) -> bool:
        """Does the copying warpgroup give any away? One that folds has enough."""
        return self.warpgroups > 1

    @property
    def producer_registers(self) -> int:
        """Of a thread; the copying warpgroup gives the rest of its share away."""
        return 40 if self.warpgroups <= 2 else 32

    @property
    def consumer_registers(self) -> int:
        """setmaxnreg waits for ever where all together ask for more than the launch allots."""
        share = _ALL_REGISTERS // self.threads // 8 * 8
        spare = share * (self.warpgroups + 1) - self.producer_registers
        return min(240, spare // self.warpgroups // 8 * 8)
