"""What networks that sort take: keys that they make of others (<fusegen/topk/networks.cuh>)."""

from __future__ import annotations

from functools import cache
from itertools import count as numbers


@cache
def made_to_sort(count: int, best: int) -> int:
    """Keys that the `best` best of `count` keys, in order, are made of."""
    network = _Network()
    return network.used(network.sorted([network.given() for _ in range(count)], best))


def made_to_straighten(count: int) -> int:
    """Keys that so many which fall and then rise are made of, in order."""
    if count < 2:
        return 0
    half = 1 << (count - 1).bit_length() - 1
    rest = count - half
    return 2 * rest + made_to_straighten(rest) + made_to_straighten(half)


class _Network:
    """Batcher's odd-even merges; a key is a number, what it is made of is in `parents`."""

    def __init__(self) -> None:
        self.parents: dict[int, tuple[int, ...]] = {}
        self._numbers = numbers()

    def given(self, *parents: int) -> int:
        """The number of a key that is made of these."""
        number = next(self._numbers)
        self.parents[number] = parents
        return number

    def sorted(self, keys: list[int], best: int) -> list[int]:
        """The best of keys in any order."""
        if len(keys) == 1:
            return keys
        half = 1 << (len(keys) - 1).bit_length() - 1
        return self.merged(self.sorted(keys[:half], best), self.sorted(keys[half:], best), best)

    def merged(self, one: list[int], other: list[int], best: int) -> list[int]:
        """The best of keys in order."""
        one, other = one[:best], other[:best]
        if not one or not other:
            return one or other
        if len(one) == len(other) == 1:
            return [self.given(*one, *other) for _ in range(2)][:best]
        needed = best // 2 + 1
        first, *even = self.merged(one[::2], other[::2], needed)
        odd = self.merged(one[1::2], other[1::2], needed)
        found = [first]
        for pair in range(min(len(even), len(odd))):
            found += [self.given(even[pair], odd[pair]) for _ in range(2)]
        longer = max(even, odd, key=len)
        return (found + longer[min(len(even), len(odd)):])[:best]

    def used(self, keys: list[int]) -> int:
        """How many keys are made on the way to these."""
        seen, left = set(keys), [*keys]
        while left:
            more = {p for p in self.parents[left.pop()] if p not in seen}
            seen |= more
            left += more
        return sum(1 for key in seen if self.parents[key])
