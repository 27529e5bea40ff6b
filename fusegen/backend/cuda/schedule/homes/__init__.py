"""Where a row stays from its first sweep to its last: a class each, with all that it needs."""

from __future__ import annotations

from fusegen.backend.cuda.schedule.homes.band import Band
from fusegen.backend.cuda.schedule.homes.base import AnyHome, Array, Sizes, Stay, body_of_row
from fusegen.backend.cuda.schedule.homes.held import (
    MEMORY,
    Ahead,
    Memory,
    Noted,
    Once,
    Registers,
    Ring,
)
from fusegen.backend.cuda.schedule.homes.slices import Chip, Shared, as_it_lies, slice_bytes
from fusegen.backend.cuda.schedule.homes.tiers import PER_VECTOR, Tiers

Home = Memory | Ahead | Noted | Ring | Registers | Band | Shared | Chip | Tiers

__all__ = [
    "MEMORY", "PER_VECTOR", "Ahead", "AnyHome", "Array", "Band", "Chip", "Home", "Memory", "Noted",
    "Once", "Registers", "Ring", "Shared", "Sizes", "Stay", "Tiers", "as_it_lies", "body_of_row",
    "slice_bytes",
]
