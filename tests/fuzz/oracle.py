"""Is an accepted entry true? Replays what the derivation says, at 70 digits, against the text.

Nothing here knows how the derivation was found: it takes each entry at its word (fold pieces at
their own pivots, transport, add, read out) and compares with the text on the whole row.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import mpmath as mp

from fusegen.ir import graph as g
from fusegen.ir.derivation import Base, Commuted, Dependent, Derivation, Refused, Shifted
from fusegen.ir.expr import variables
from fusegen.ir.monoid import move_name

from .exact import Piece, apply, best, folded, is_nan, spoken
from .rounding import text_error
from .rows import DESIGNS, random_pieces, random_row

TOLERANCE = mp.mpf(10) ** -25  # relative to the sum of the magnitudes that were added
LONGEST = 9


@dataclass(frozen=True, slots=True)
class Wrong:
    """A row on which an accepted entry and the text disagree."""

    entry: str
    why: str
    row: str


@dataclass
class Tally:
    """How many comparisons were made, and how many rows have no value by the text."""

    compared: int = 0
    undefined: int = 0
    lost: dict[str, float] = field(default_factory=dict)  # entry → see `_lost`


@dataclass(frozen=True, slots=True)
class Sums:
    """An entry's state over some columns: Σ h_k at the columns' own pivots, and Σ |…| of all that
    was added on the way."""

    piece: Piece
    sums: tuple[Any, ...]
    sizes: tuple[Any, ...]


def check_entries(
    graph: g.Graph, derivation: Derivation, rng: random.Random, n_rows: int, tally: Tally
) -> list[Wrong]:
    """Every accepted entry of the derivation that random rows refute."""
    found: dict[str, Wrong] = {}
    inputs = tuple(i.name for i in graph.inputs)
    designs = list(DESIGNS)
    rng.shuffle(designs)
    for i in range(n_rows):
        n_cols = rng.choice((1, 2, 2, 3, 4, 5, 7, LONGEST))
        row = random_row(rng, inputs, n_cols, designs[i % len(designs)])
        whole = Piece(row, tuple(range(n_cols)), n_cols)
        pieces = [replace(whole, columns=c, known={}) for c in random_pieces(rng, n_cols)]
        for entry in derivation:
            if entry.name in found or isinstance(entry, Refused):
                continue
            if isinstance(entry, Base):
                why = _check_base(graph, entry, whole, pieces)
            elif isinstance(entry, Dependent):
                why = _check_sum(graph, derivation, entry, whole, pieces, rng, tally)
            else:
                why = _check_order(graph, entry, whole, tally)
            if why is not None:
                found[entry.name] = Wrong(entry.name, why, _shown(row, pieces))
    return list(found.values())


def _shown(row: Mapping[str, Any], pieces: list[Piece]) -> str:
    values = ", ".join(f"{n} = {[float(v) for v in vs]}" for n, vs in row.items())
    return f"{values}, pieces {[list(p.columns) for p in pieces]}"


def _check_base(graph: g.Graph, entry: Base, whole: Piece, pieces: list[Piece]) -> str | None:
    """The folds of the pieces must fold to that of the row, whatever the pieces are."""
    node = graph[entry.name]
    if isinstance(node, g.TopK) or node.fold in (g.Fold.ARGMAX, g.Fold.ARGMIN):
        depends = [graph.names[r] for r in g.reductions_of(node.arg)]
        return f"it depends on {', '.join(depends)}" if depends else None
    wanted = whole.value(node)
    if is_nan(wanted):
        return None
    mean = node.fold is g.Fold.MEAN
    counts = [len(p.columns) if mean else 1 for p in pieces]
    parts = [apply("mul", (p.value(node), n)) for p, n in zip(pieces, counts, strict=True)]
    got = folded(g.Fold.SUM if mean else node.fold, parts, range(len(parts)))
    got = got / len(whole.columns) if mean else got
    size = abs(wanted) + mp.fsum((v for v in parts if not is_nan(v)), absolute=True)
    if not is_nan(got) and abs(got - wanted) <= TOLERANCE * size:
        return None
    return f"got {mp.nstr(got, 12)}, the text gives {mp.nstr(wanted, 12)}"


# ---- sums ----


def _check_sum(
    graph: g.Graph, derivation: Derivation, entry: Dependent, whole: Piece, pieces: list[Piece],
    rng: random.Random, tally: Tally,
) -> str | None:
    node = graph[entry.name]
    assert isinstance(node, g.Reduce)
    wanted = whole.value(node)
    if is_nan(wanted):
        tally.undefined += 1
        return None
    for shift in entry.shifts:
        late = unknown_on_a_piece(graph, derivation, shift)
        if late:
            return f"its pivot {shift.pivot} needs {late}, which no piece of the row knows"
    states = [fold(graph, entry, piece) for piece in pieces]
    while len(states) > 1:
        a = states.pop(rng.randrange(len(states)))
        i = rng.randrange(len(states))
        states[i] = merge(graph, entry, a, states[i])
    (state,) = states
    got, size = read_out(graph, entry, state)
    if node.fold is g.Fold.MEAN:
        got, size = got / len(whole.columns), size / len(whole.columns)
    tally.compared += 1
    tally.lost[entry.name] = max(tally.lost.get(entry.name, 1.0), _lost(node, whole, size, rng))
    if is_nan(got):
        return f"got no number, the text gives {mp.nstr(wanted, 12)}"
    if abs(got - wanted) > TOLERANCE * (size + abs(wanted)):
        return f"got {mp.nstr(got, 12)}, the text gives {mp.nstr(wanted, 12)}"
    return None


def _lost(node: g.Reduce, whole: Piece, size: Any, rng: random.Random) -> float:
    """How many times more rounding the merged sum meets than the text: the magnitudes that were
    added on the way, over those that the text adds and the errors it makes itself."""
    count = len(whole.columns) if node.fold is g.Fold.MEAN else 1
    plain = mp.fsum(whole.element(node.arg), absolute=True) / count
    if size <= 10 * plain:
        return 1.0
    own = text_error(node, whole, rng)
    return float(size * count / own) if own else 1.0


def unknown_on_a_piece(graph: g.Graph, derivation: Derivation, shift: Shifted) -> str:
    """A reduction below the pivot or its unit that is not part of the state, or ""."""
    for name in (shift.pivot, *([shift.unit] if shift.unit else [])):
        for reduction in g.reductions_of(graph[name]):
            if not isinstance(derivation[graph.names[reduction]], Base | Dependent):
                return graph.names[reduction]
    return ""


def anchor(graph: g.Graph, name: str, action: str, piece: Piece) -> Any:
    """A pivot over a piece; where it is no usable number, 0 to shift by or 1 to scale by."""
    value = piece.value(graph[name])
    if action == "scale":
        return mp.mpf(1) if is_nan(value) or value == 0 else value
    return mp.mpf(0) if is_nan(value) else value


def _seen(action: str, value: Any, pivot: Any) -> Any:
    """A value as seen from a pivot."""
    match action:
        case "shift":
            return value - pivot
        case "scale":
            return value / pivot
        case "same":
            return mp.mpf(1 if value == pivot else 0)
        case _:
            raise NotImplementedError(action)


def relative(graph: g.Graph, shift: Shifted, value: Any, piece: Piece) -> Any:
    """u of a value (an element, or a pivot that moves here), at the piece's own pivots."""
    seen = _seen(shift.action, value, anchor(graph, shift.pivot, shift.action, piece))
    return seen / anchor(graph, shift.unit, "scale", piece) if shift.unit else seen


def moves_between(graph: g.Graph, entry: Dependent, old: Piece, new: Piece) -> dict[str, Any]:
    """Every move the transport may name."""
    moves = {}
    for s in entry.shifts:
        start = anchor(graph, s.pivot, s.action, old)
        moves[move_name(s.pivot, s.action, s.unit)] = relative(graph, s, start, new)
        if s.unit:
            units = (anchor(graph, s.unit, "scale", piece) for piece in (old, new))
            moves[move_name(s.unit, "scale")] = _seen("scale", *units)
    return moves


def fold(graph: g.Graph, entry: Dependent, piece: Piece) -> Sums:
    """Σ h_k(u) over a piece, u relative to the piece's own pivots."""
    seen = {s.name: [relative(graph, s, atom, piece) for atom in piece.element(graph[s.atom])]
            for s in entry.shifts}
    sums, sizes = [], []
    for basis in entry.basis:
        names = {n: seen[n] if n in seen else piece.element(graph[n])
                 for n in variables(basis.lift)}
        values = [
            spoken(basis.lift, {n: vs[i] for n, vs in names.items()}.__getitem__)
            for i in range(len(piece.columns))
        ]
        sums.append(mp.fsum(values))
        sizes.append(mp.fsum(values, absolute=True))
    return Sums(piece, tuple(sums), tuple(sizes))


def merge(graph: g.Graph, entry: Dependent, a: Sums, b: Sums) -> Sums:
    """a ⊕ b: both moved to the pivots of the union, and added."""
    union = replace(a.piece, columns=(*a.piece.columns, *b.piece.columns), known={})
    parts = [moved(graph, entry, s, union) for s in (a, b)]
    (sums_a, sizes_a), (sums_b, sizes_b) = parts
    return Sums(
        union,
        tuple(p + q for p, q in zip(sums_a, sums_b, strict=True)),
        tuple(p + q for p, q in zip(sizes_a, sizes_b, strict=True)),
    )


def moved(
    graph: g.Graph, entry: Dependent, state: Sums, union: Piece
) -> tuple[list[Any], list[Any]]:
    """T(own pivots → the union's) applied to the sums, and to their magnitudes."""
    moves = moves_between(graph, entry, state.piece, union)
    sums, sizes = [], []
    for basis in entry.basis:
        factors = [(j, spoken(t, moves.__getitem__)) for j, t in basis.transport]
        held = [(j, t) for j, t in factors if state.sums[j] != 0]  # a sum that is 0 stays 0
        sums.append(mp.fsum(t * state.sums[j] for j, t in held))
        sizes.append(mp.fsum(abs(t) * state.sizes[j] for j, t in factors))
    return sums, sizes


def read_out(graph: g.Graph, entry: Dependent, state: Sums) -> tuple[Any, Any]:
    """Σ c_k S_k over the whole row, and Σ |c_k| |S_k|."""
    coefficients = [spoken(c, lambda n: state.piece.value(graph[n])) for c in entry.readout]
    pairs = [(c, s, z) for c, s, z in zip(coefficients, state.sums, state.sizes, strict=True)
             if c != 0]
    return (mp.fsum(c * s for c, s, _ in pairs), mp.fsum(abs(c) * z for c, _, z in pairs))


# ---- orders ----


_FINE = 4000  # digits: saturating maps bring unequal elements very close together
_SATURATING = ("exp", "exp2", "sigmoid", "tanh", "erf")


def _check_order(graph: g.Graph, entry: Commuted, whole: Piece, tally: Tally) -> str | None:
    """reduce(f) must be f of the reduction of the atom, ties to the lowest column."""
    node = graph[entry.name]
    assert isinstance(node, g.Reduce | g.TopK)
    if any(is_nan(v) for v in whole.element(node.arg)):
        tally.undefined += 1
        return None
    if _saturated(graph, whole):
        tally.undefined += 1
        return None
    tally.compared += 1
    if _order_differs(graph, node, entry, whole) is None:
        return None
    with mp.workdps(_FINE):
        return _order_differs(graph, node, entry, replace(whole, known={}))


def _saturated(graph: g.Graph, whole: Piece) -> bool:
    """Do exponentials differ from a limit only beyond the digits that are looked at?"""
    return any(
        abs(v) > _FINE for n in graph.nodes if isinstance(n, g.Map) and n.op in _SATURATING
        for v in whole.element(n.args[0]) if not is_nan(v)
    )


def _order_differs(
    graph: g.Graph, node: g.Reduce | g.TopK, entry: Commuted, whole: Piece
) -> str | None:
    values, atoms = whole.element(node.arg), whole.element(graph[entry.atom])
    signed = atoms if entry.increasing else [-a for a in atoms]
    least = isinstance(node, g.Reduce) and node.fold in (g.Fold.MIN, g.Fold.ARGMIN)
    k = node.k if isinstance(node, g.TopK) else 1
    got = chosen(signed, whole.columns, k, least=least)
    want = chosen(values, whole.columns, k, least=least)
    if uses_columns(graph, node):
        return None if got == want else f"got columns {got}, the text gives {want}"
    by_column = dict(zip(whole.columns, values, strict=True))
    if [by_column[c] for c in got] == [by_column[c] for c in want]:
        return None
    return f"got the values at {got}, the text gives those at {want}"


def chosen(values: list[Any], columns: Sequence[int], k: int, *, least: bool) -> list[int]:
    """Columns of the k greatest (or least) values, ties to the lowest column."""
    return [c for _, c in best([-v for v in values] if least else values, columns)[:k]]


def uses_columns(graph: g.Graph, node: g.Reduce | g.TopK) -> bool:
    """Does the pipeline ask which columns were chosen, not only for their values?"""
    if isinstance(node, g.Reduce):
        return node.fold in (g.Fold.ARGMAX, g.Fold.ARGMIN)
    return any(isinstance(n, g.Part) and n.top is node and n.field == "indices"
               for n in graph.nodes)
