"""Lists that a team's lanes hold together (<fusegen/topk/team_lists.cuh>): what each lane keeps of
its items, and what merging these takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb

from fusegen.backend.cuda.schedule.networks import made_to_straighten
from fusegen.backend.target import WARP

_RARELY = 0.02  # of warps have a lane with more entries of a list than it keeps


@cache
def kept_by_lane(k: int, items: int, lanes: int) -> int:
    """Items that a lane sorts at first: as many as it has of a list of k, but for few rows whose
    elements lie anywhere. Of k entries that are dealt to lanes each has (k, 1 / lanes) binomially
    many."""
    most, rest = min(k, items), 1.0
    for kept in range(1, most):
        chosen = kept - 1
        rest -= comb(k, chosen) * (lanes - 1) ** (k - chosen) / lanes**k
        if WARP * rest <= _RARELY and kept * lanes >= k:  # rest: of lanes that have as many or more
            return kept
    return most


@dataclass(frozen=True, slots=True)
class Merging:
    """What a lane does until its list and the other lanes' are one."""

    made: int  # keys of others
    settled: int  # keys that are the better or the worse of two lanes'
    sent: int  # keys that go to another lane


@cache
def merging(k: int, kept: int, lanes: int) -> Merging:
    """Of lists of so many keys, one a lane, the best k."""
    made = settled = sent = 0
    mine, merged = kept, 1
    while merged < lanes:
        merged *= 2
        found = min(mine, -(-k // merged))
        theirs = min(found, mine // 2)
        steps = merged.bit_length() - 1
        made += min(found, mine - found) + made_to_straighten(found)
        settled += found * steps
        sent += theirs + found * steps
        mine = found
    return Merging(made, settled, sent + (mine if lanes > 2 else 0))
