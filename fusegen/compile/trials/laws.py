"""Each law of a merged operator by itself, in fifty digits and more, on finite rows.

States are reached by folds. A difference counts only if it stays when the digits are tripled:
rounding shrinks then, a false law does not. So sums that cancel need no tolerance of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from fusegen.compile.trials.comparable import comparable_outputs, jumps
from fusegen.compile.trials.rows import FAMILIES, SMALL, Array, Case, Row, cases, named
from fusegen.compile.trials.text import values_of
from fusegen.ir import graph as g
from fusegen.ir.derivation import Dependent, Derivation
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import LawViolation
from fusegen.ir.expr import Arithmetic, Expr, Lit, walk
from fusegen.ir.kernel import Kernel, Let
from fusegen.oracle.precise import exact, precise
from fusegen.oracle.replay import Folder, RowReplay, State

DIGITS, MORE_DIGITS = 50, 150
TOLERANCE, ROUGH = 1e-30, 1e-12  # relative; rough where a literal's exact value is not certain
_SHRINKS = 1e-50  # rounding becomes this much smaller with MORE_DIGITS

LAWS = ("identity", "commutativity", "associativity", "homomorphism", "text")


@dataclass(frozen=True, slots=True)
class Clash:
    """Two sides of a law that differ."""

    law: str
    claim: str
    component: str
    left: Any
    right: Any
    states: Mapping[str, State]

    @property
    def difference(self) -> Any:
        return abs(self.left - self.right) if _finite(self.left, self.right) else float("inf")

    @property
    def relative(self) -> float:
        if not _finite(self.left, self.right):
            return float("inf")
        return float(self.difference / max(abs(self.left), abs(self.right)))


@dataclass
class Counts:
    """How often each law was tried."""

    tried: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LAWS, 0))
    rows: int = 0
    merges: int = 0
    rough: bool = False


def try_laws(
    graph: g.Graph, kernel: Kernel, derivation: Derivation, dtypes: Mapping[str, DType],
    rng: np.random.Generator,
) -> Counts:
    """Try every law on every case. Raises LawViolation with the first, smallest counterexample."""
    counts = Counts(rough=not _literals_are_certain(graph, kernel))
    tolerance = ROUGH if counts.rough else TOLERANCE
    comparable = _comparable(graph, derivation)
    smallest = max((n.k for n in graph.nodes if isinstance(n, g.TopK)), default=1)
    for case in cases(graph.read, dtypes, smallest, rng):
        counts.rows += 1
        with_text = case.family in comparable and case.n_cols >= smallest
        first = _clashes(graph, kernel, derivation, case, DIGITS, with_text, counts)
        suspects = [c for c in first if c.relative > tolerance]
        if suspects:
            again = _clashes(
                graph, kernel, derivation, case, MORE_DIGITS, with_text, Counts()
            )
            stays = _staying(suspects, [c for c in again if c.relative > tolerance])
            if stays:
                _violated(graph, kernel, case, stays[0])
    return counts


def _staying(before: list[Clash], after: list[Clash]) -> list[Clash]:
    """Clashes that more digits do not make smaller, in the order of the laws."""
    sizes = {(c.law, c.claim, c.component): c.difference for c in before}
    kept = []
    for clash in after:
        size = sizes.get((clash.law, clash.claim, clash.component))
        grown = not np.isfinite(clash.relative)
        if size is not None and (grown or clash.difference > size * _SHRINKS):
            kept.append(clash)
    return sorted(kept, key=lambda c: LAWS.index(c.law))


def _finite(*values: Any) -> bool:
    return all(abs(v) < float("inf") for v in values)  # False for NaN too


def _equal(left: Any, right: Any) -> bool:
    return bool(left == right or (left != left and right != right))


@dataclass
class _Laws:
    """A sweep's state by way of all laws; called by RowReplay once for every sweep."""

    case: Case
    counts: Counts
    clashes: list[Clash] = field(default_factory=list)

    def __call__(self, folder: Folder, n_cols: int) -> State:
        pieces = self.case.in_order if folder.monoid.ordered else self.case.pieces
        a, b, c = (folder.fold(p) for p in pieces)
        whole, one = folder.fold(range(n_cols)), folder.fold(())
        own = [v for state in whole.own.values() for v in state.values()]
        if folder.monoid.is_empty or not _finite(*whole.parts.values(), *own):
            return whole  # outside the reals: float64 trials say what happens there
        merged = folder.merge
        both = merged(a, b)
        left = merged(both, c)
        self._expect("identity", "e ⊕ A = A", merged(one, a), a, A=a)
        self._expect("identity", "A ⊕ e = A", merged(a, one), a, A=a)
        if not folder.monoid.ordered:
            self._expect("commutativity", "A ⊕ B = B ⊕ A", both, merged(b, a), A=a, B=b)
            self._expect("commutativity", "A ⊕ C = C ⊕ A", merged(a, c), merged(c, a), A=a, C=c)
        self._expect("associativity", "(A ⊕ B) ⊕ C = A ⊕ (B ⊕ C)", left,
                     merged(a, merged(b, c)), A=a, B=b, C=c)
        joined = folder.fold([*pieces[0], *pieces[1]])
        self._expect("homomorphism", "fold(A and B) = A ⊕ B", joined, both, A=a, B=b)
        self._expect("homomorphism", "fold(A, B and C) = (A ⊕ B) ⊕ C", whole, left, A=a, B=b, C=c)
        self.counts.merges += 10
        return left

    def _expect(self, law: str, claim: str, left: State, right: State, **states: State) -> None:
        self.counts.tried[law] += 1
        pairs = [(n, v, right.parts[n]) for n, v in left.parts.items()]
        pairs += [(f"{name}.{n}", v + 0, right.own[name][n] + 0)  # conditions as numbers
                  for name, state in left.own.items() for n, v in state.items()]
        for name, best in left.best.items():
            pairs += _pairs_differ(name, [best] if best else [],
                                   [right.best[name]] if right.best[name] else [])
        for name, entries in left.lists.items():
            pairs += _pairs_differ(name, entries, right.lists[name])
        self.clashes += [
            Clash(law, claim, name, x, y, states) for name, x, y in pairs if not _equal(x, y)
        ]


def _pairs_differ(name: str, left: list[Any], right: list[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Lists agree entry by entry; a missing entry is a column −1."""
    for i in range(max(len(left), len(right))):
        x = left[i] if i < len(left) else (np.nan, -1)
        y = right[i] if i < len(right) else (np.nan, -1)
        yield f"{name}[{i}] value", x[0], y[0]
        # A wrong column is no rounding: it must not look like a small difference.
        yield f"{name}[{i}] column", x[1], y[1] if x[1] == y[1] else np.nan


def _clashes(
    graph: g.Graph, kernel: Kernel, derivation: Derivation, case: Case, digits: int,
    with_text: bool, counts: Counts,
) -> list[Clash]:
    arithmetic = precise(digits)
    row: Row = {n: _exactly(v, arithmetic) for n, v in case.row.items()}
    laws = _Laws(case, counts)
    found = RowReplay(kernel, named(graph, row), case.n_cols, arithmetic).run(laws)
    if with_text:
        counts.tried["text"] += 1
        known = values_of(graph, row, case.n_cols, arithmetic)
        comparable = comparable_outputs(graph, derivation, known)
        for node, name in zip(graph.outputs, graph.output_names, strict=True):
            if name in comparable:
                laws.clashes += _unlike_text(name, np.ravel(found[name]), np.ravel(known[node]))
    return laws.clashes


def _exactly(values: Array, arithmetic: Arithmetic) -> Array:
    """Numbers that keep their digits: more than float64's, and integers without an end."""
    if values.dtype.kind == "f":
        return np.asarray(arithmetic.functions["to_float"](values))
    return values.astype(object) if values.dtype.kind == "i" else values


def _unlike_text(name: str, found: Any, wanted: Any) -> Iterator[Clash]:
    if len(wanted) not in (1, len(found)):
        claim = "the output has as many entries as the text's"
        yield Clash("text", claim, name, len(found), len(wanted), {})
        return
    spread = np.broadcast_to(wanted, found.shape)
    for i, (x, y) in enumerate(zip(found, spread, strict=True)):
        if _finite(y) and not _equal(x, y):
            shown = name if len(found) == 1 else f"{name}[{i}]"
            yield Clash("text", "the merged state reads out the text", shown, x, y, {})


def _violated(graph: g.Graph, kernel: Kernel, case: Case, clash: Clash) -> None:
    states = "".join(f"\n  {name} = {_state(s)}" for name, s in clash.states.items())
    exactly = 10 if clash.relative > 1e-8 else 40
    raise LawViolation(
        f"{kernel.name}: {clash.law} fails for {clash.component}", where=graph.loc,
        why=f"{clash.claim} is false for the {case}:{states}\n  "
        f"left {_number(clash.left, exactly)}, right {_number(clash.right, exactly)}",
        fix="Please report this: a proof and its replay disagree.",
    )


def _state(state: State) -> str:
    parts = [f"{n} = {_number(v, 10)}" for n, v in state.parts.items()]
    parts += [f"{name}.{n} = {_number(v, 10)}" for name, own in state.own.items()
              for n, v in own.items()]
    parts += [f"{n} = {p and p[1]}" for n, p in state.best.items()]
    parts += [f"{n} = {[c for _, c in pairs]}" for n, pairs in state.lists.items()]
    return f"({', '.join(parts)})"


def _number(value: Any, digits: int) -> str:
    return str(value) if not hasattr(value, "context") else str(value.context.nstr(value, digits))


def _literals_are_certain(graph: g.Graph, kernel: Kernel) -> bool:
    """Do the floats in text and operator determine the numbers that they stand for?"""
    written = {n.value for n in graph.nodes if isinstance(n, g.Literal)}
    held = [part.value for e in _derived(kernel) for part in walk(e) if isinstance(part, Lit)]
    decimals = [v for v in written if abs(v) < float("inf")]
    return all(exact(v)[1] for v in held if v not in written) and all(
        exact(v)[0] == Fraction(repr(float(v))) for v in decimals
    )


def _derived(kernel: Kernel) -> Iterator[Expr]:
    """Expressions that the algebra may have written: lifts, transports, read-outs."""
    for sweep in kernel.sweeps:
        for moving in sweep.monoid.moving:
            yield from (moving.lift, *(factor for _, factor in moving.transport))
        yield from (step.expr for step in sweep.steps if isinstance(step, Let))
        yield from (store.value for store in sweep.row_stores)


def _comparable(graph: g.Graph, derivation: Derivation) -> frozenset[str]:
    """Families of rows on which the last digit decides nothing that the text says: an operation
    that jumps, on a merged sum, sees exact ties of small integers."""
    found = set(FAMILIES)
    merged = {e.name for e in derivation if isinstance(e, Dependent)}
    touched: set[g.Node] = set()
    for node in graph.nodes:
        if any(a in touched for a in g.operands(node)):
            touched.add(node)
            if jumps(node):
                found -= SMALL
        if graph.names[node] in merged:
            touched.add(node)
    return frozenset(found)
