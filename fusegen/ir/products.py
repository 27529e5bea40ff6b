"""Products of floats that are one number wherever they are used.

Compilers contract a·b + c into one operation that does not round a·b, each place as it likes. Where
a·b is used elsewhere, it would be two numbers, and an element beyond its own maximum; where the sum
is made twice, as for a maximum and to be compared with it, no element may be equal to it. Such
products are rounded by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

from fusegen.ir import graph as g
from fusegen.ir.dtypes import Kind
from fusegen.ir.kinds import whole_power

_COMPARED = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_SUMS = frozenset(("add", "sub"))  # which compilers contract products with


def shared_products(graph: g.Graph, kinds: Mapping[g.Node, Kind]) -> frozenset[g.Node]:
    """Products that are used more than once, however they are spelled (x·x and x², x·y and y·x), as
    by a maximum and beside it; and those in sums that what is compared is made of."""
    values = _Values()
    users = (n for n in graph.nodes if _without_sign(n) is n)  # those of the others are counted
    uses = Counter(values.of(a) for n in users for a in g.operands(n))
    uses.update(map(values.of, graph.outputs))
    # A higher power is made of squares, which compilers find, too.
    raised = (n for n in graph.nodes if (whole_power(n) or 0) > 2)
    uses.update(values.square_of(g.operands(n)[0]) for n in raised)
    found = {n for n in graph.nodes if _factors(n) and uses[values.of(n)] > 1}
    compared = (n for n in graph.nodes if isinstance(n, g.Map) and n.op in _COMPARED)
    for node in g.topological(compared, lambda n: not isinstance(n, g.Map)):
        if isinstance(node, g.Map) and node.op in _SUMS:
            found.update(a for a in map(_without_sign, node.args) if _factors(a))
    return frozenset(n for n in found if kinds[n] == "float")


def _factors(node: g.Node) -> tuple[g.Node, ...]:
    """What a product is of; () of what is none."""
    match node:
        case g.Map(op="mul", args=(a, b)):
            return a, b
        case g.Map(op="square", args=(a,)):
            return a, a
        case g.Map(op="pow", args=(a, g.Literal(value=power))) if power == 2:
            return a, a
        case _:
            return ()


def _without_sign(node: g.Node) -> g.Node:
    while isinstance(node, g.Map) and node.op == "neg":
        (node,) = node.args
    return node


class _Values:
    """A number for every value that compilers make once, whatever its sign."""

    def __init__(self) -> None:
        self._of: dict[g.Node, int] = {}
        self._numbers: dict[Hashable, int] = {}

    def of(self, node: g.Node) -> int:
        for n in g.topological((node,), self._of.__contains__):
            self._of[n] = self._made(n)
        return self._of[node]

    def square_of(self, node: g.Node) -> int:
        return self._joined("mul", (node, node))

    def _made(self, node: g.Node) -> int:
        match node:
            case g.Map(op="neg", args=(a,)):
                return self._of[a]
            case g.Map(op=op, args=args):
                factors = _factors(node)
                return self._joined("mul", factors) if factors else self._joined(op, args)
            case _:
                return self._number(node)

    def _joined(self, op: str, args: tuple[g.Node, ...]) -> int:
        """Sums and products in either order."""
        numbers = map(self.of, args)
        return self._number((op, *(sorted(numbers) if op in ("add", "mul") else numbers)))

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
