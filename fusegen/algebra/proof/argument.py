"""A derivation as an argument: what is put, kept, moved, read and proved, in rows.

Everything a renderer shows is decided here, once; the renderers only spell it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from fusegen.algebra.proof.notation import Folded, Math, Relation
from fusegen.algebra.proof.symbols import Symbols, primed, together
from fusegen.algebra.proof.terms import ZERO, combination
from fusegen.algebra.proof.theorems import COCYCLE, FLOATS, MONOTONE, Theorem
from fusegen.ir.derivation import (
    Base,
    Commuted,
    Definition,
    Dependent,
    Derivation,
    Entry,
    Obligation,
    Own,
    Refused,
    Repair,
)
from fusegen.ir.expr import Expr, Var, call, substitute, variables

_MOST_NAMES = 60  # told under "where": a page, not a listing

Phrase = tuple[str | Math, ...]
"""Prose and formulas in turn."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the argument; an empty label continues the row above."""

    label: str
    phrase: Phrase
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """What is said about one reduction."""

    heading: Phrase
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class Argument:
    """The whole: sections in the order of the text, and the theorems they lean on."""

    title: str
    sections: tuple[Section, ...]
    theorems: tuple[Theorem, ...]


def argument_of(derivation: Derivation) -> Argument:
    """The derivation, ready to be spelled."""
    teller = _Teller(derivation)
    bases = [e for e in derivation if isinstance(e, Base)]
    sections = [_together(bases, teller)] if bases else []
    sections += [teller.section(e) for e in derivation if not isinstance(e, Base)]
    sections += [teller.repair(r) for r in derivation.repairs]
    kinds = {type(e) for e in derivation}
    theorems = [t for kind, t in ((Dependent, COCYCLE), (Dependent, FLOATS), (Commuted, MONOTONE))
                if kind in kinds]
    return Argument(_title(derivation), tuple(sections), tuple(theorems))


def _title(derivation: Derivation) -> str:
    count = {kind: sum(isinstance(e, kind) for e in derivation)
             for kind in (Base, Dependent, Commuted, Own, Refused)}
    shown = [
        f"{n} {word}{'s' if n > 1 and plural else ''}"
        for (n, word, plural) in (
            (count[Base], "base monoid", True), (count[Dependent], "merged sum", True),
            (count[Commuted], "commuted", False),
            (count[Own], "monoid of your own", False), (count[Refused], "refused", False),
        ) if n
    ]
    total = len(derivation.obligations)
    proved = sum(o.status == "proved" for o in derivation.obligations)
    tried = sum(o.status == "tried" for o in derivation.obligations)
    tail = f"; {proved} of {total} obligations proved" if total else ""
    tail += f", {tried} tried" if tried else ""
    return f"{derivation.pipeline}: {', '.join(shown) or 'no reductions'}{tail}"


def _together(bases: Iterable[Base], teller: _Teller) -> Section:
    phrase: list[str | Math] = []
    for base in bases:
        phrase += [teller.stated(base.name), ","]
    return Section(("base monoids:", *phrase[:-1]))


class _Teller:
    """Tells entries one after the other; symbols stay the same through the whole argument."""

    def __init__(self, derivation: Derivation) -> None:
        self.definitions: Mapping[str, Definition] = {d.name: d for d in derivation.definitions}
        self.symbols = Symbols(derivation)

    def stated(self, name: str) -> Math:
        """The user's line: name = Σ …"""
        found = self.definitions.get(name)
        return Var(name) if found is None else _stated(found)

    def section(self, entry: Entry) -> Section:
        """One reduction. A new kind of entry is told by a new case here."""
        match entry:
            case Base(name=name):
                return Section((self.stated(name),))
            case Dependent():
                return self._dependent(entry)
            case Commuted():
                return self._commuted(entry)
            case Refused(name=name, refusal=refusal):
                first, *rest = str(refusal).splitlines()
                rows = [Row("refused", (first,)), *(Row("", (line.strip(),)) for line in rest)]
                return Section((self.stated(name),), (*self._where(name), *rows))
            case Own():
                return self._own(entry)
            case _:
                assert_never(entry)

    def repair(self, entry: Repair) -> Section:
        """A sum that is read out of sums about another pivot."""
        pivots = _listed([Var(p) for p in entry.pivots])
        about = (", kept about", *pivots) if pivots else (", kept without a pivot",)
        rows = [
            *_behind(entry), Row("since", (entry.why,)),
            Row("read", (Relation(Var(entry.name), entry.readout),)),
            *_proof_of(entry.obligation, (entry.obligation.statement,)),
        ]
        return Section((_stated(entry.text), *about), tuple(rows))

    def _own(self, entry: Own) -> Section:
        rows = [row for o in entry.obligations for row in self._proved(o, entry)]
        if entry.ordered:
            rows.append(Row("order", (f"kept, as the row has it: {entry.note}",)))
        for i, line in enumerate(str(entry.refusal).splitlines() if entry.refusal else []):
            rows.append(Row("" if i else "refused", (line.strip(),)))
        stated = f"is the state of your monoid {entry.monoid}"
        return Section((Var(entry.name), stated), tuple(rows))

    # ---- sums ----

    def _dependent(self, entry: Dependent) -> Section:
        pivots = list(dict.fromkeys(n for s in entry.shifts for n in (s.pivot, s.unit) if n))
        verb = "moves" if len(pivots) == 1 else "move"
        moving = (", and", *_listed([Var(p) for p in pivots]), f"{verb} as the row is read")
        rows = [
            *self._where(entry.name, [*pivots, *(s.atom for s in entry.shifts),
                                      *(v for b in entry.basis for v in variables(b.lift))]),
            *_behind(entry), *self._put(entry), *self._keep(entry),
            *self._move(entry), *self._zeros(entry), *self._read(entry),
            *(row for o in entry.obligations for row in self._proved(o, entry)),
            Row("so", (f"it merges, by the {COCYCLE.name} and the {FLOATS.name}",)),
        ]
        return Section((self.stated(entry.name), *(moving if pivots else ())), tuple(rows))

    def _where(self, name: str, also: Iterable[str] = ()) -> Iterator[Row]:
        """The user's names inside the formula, down to reductions and inputs."""
        found: dict[str, Definition] = {}
        queue = deque(dict.fromkeys((name, *also)))
        seen = set(queue)
        while queue and len(found) < _MOST_NAMES:
            known = self.definitions.get(queue.popleft())
            if known is None or (known.fold and known.name != name):
                continue
            if known.name != name:
                found[known.name] = known
            inner = [v for v in variables(known.formula) if v not in seen]
            seen.update(inner)
            queue.extend(inner)
        for i, one in enumerate(found.values()):
            yield Row("" if i else "where", (Relation(Var(one.name), one.formula),))
        if queue:
            yield Row("", (f"and so on: the first {_MOST_NAMES} are shown",))

    def _put(self, entry: Dependent) -> Iterator[Row]:
        if entry.shifts:
            yield Row("put", _listed(self.symbols.put(s) for s in entry.shifts))

    def _keep(self, entry: Dependent) -> Iterator[Row]:
        sums = [Relation(self.symbols.sum(b), Folded("Σ", self.symbols.shown(b.lift)))
                for b in entry.basis]
        yield Row("keep", _listed(sums))

    def _move(self, entry: Dependent) -> Iterator[Row]:
        """Every kept sum at the new pivot, from the sums at the old one."""
        for i, shifts in enumerate(together(entry.shifts)):
            places = dict.fromkeys(n for s in shifts for n in (s.pivot, s.unit) if n)
            ways = _listed(Relation(Var(n), primed(Var(n)), "→") for n in places)
            moves = dict.fromkeys(m for s in shifts for m in self.symbols.moves(s))
            shown = _listed([*moves, *(self.symbols.moved(s) for s in shifts)])
            yield Row("" if i else "move", (*ways, ":", *shown))
        for basis in entry.basis:
            terms = [(self.symbols.shown(t), self.symbols.sum(entry.basis[j]))
                     for j, t in basis.transport]
            own = self.symbols.sum(basis)
            if combination(terms) != own:
                yield Row("", (Relation(primed(own), combination(terms)),))

    def _zeros(self, entry: Dependent) -> Iterator[Row]:
        zeros = [Relation(self.symbols.sum(entry.basis[k]), ZERO) for k in entry.known_zero]
        if zeros:
            why = ", exactly; kept only for what the rounding of the pivot leaves"
            yield Row("zero", (*_listed(zeros), why))

    def _read(self, entry: Dependent) -> Iterator[Row]:
        terms = [(self.symbols.shown(c), self.symbols.sum(b))
                 for c, b in zip(entry.readout, entry.basis, strict=True)]
        value = combination(terms)
        stated = self.definitions.get(entry.name)
        if stated is not None and stated.fold == "mean":
            value = call("div", value, self.symbols.count)
        yield Row("read", (Relation(Var(entry.name), value),))
        if entry.taken is not None:
            count = Relation(self.symbols.sum(entry.basis[entry.taken]), ZERO)
            yield Row("", (Relation(Var(entry.name), ZERO), "where", count, ": nothing is taken"))

    def _proved(
        self, obligation: Obligation, entry: Dependent | Commuted | Own
    ) -> Iterator[Row]:
        shown: tuple[str | Math, ...] = tuple(obligation.statement.split("\n"))
        if isinstance(entry, Dependent):
            match obligation.name:
                case "pointwise identity":
                    shown = tuple(self._pointwise(entry))
                case "read-out" if entry.name in self.definitions:
                    shown = (self._separated(entry),)
        yield from _proof_of(obligation, shown)

    def _pointwise(self, entry: Dependent) -> Iterator[Math]:
        """h(u′) = T h(u), basis function by basis function."""
        moved: dict[str, Expr] = {s.name: primed(self.symbols.u(s)) for s in entry.shifts}
        for basis in entry.basis:
            left = substitute(basis.lift, moved)
            if left != basis.lift:
                right = [(self.symbols.shown(t), self.symbols.shown(entry.basis[j].lift))
                         for j, t in basis.transport]
                yield Relation(left, combination(right))

    def _separated(self, entry: Dependent) -> Math:
        terms = [(self.symbols.shown(c), self.symbols.shown(b.lift))
                 for c, b in zip(entry.readout, entry.basis, strict=True)]
        return Relation(self.definitions[entry.name].formula, combination(terms))

    # ---- orders ----

    def _commuted(self, entry: Commuted) -> Section:
        stated = self.definitions.get(entry.name)
        word = stated.fold if stated is not None else "the reduction"
        order = "the order" if entry.increasing else "the reverse order"
        keep: Phrase = (Folded(word, Var(entry.atom)),)
        if not entry.increasing:
            keep = (*keep, "in reverse order")
        rows = [
            *self._where(entry.name, [entry.atom]), *_behind(entry),
            Row("since", (f"it has {order} of", Var(entry.atom), ", whatever",
                          *_listed([Var(n) for n in entry.depends_on]), "will be")),
            Row("keep", keep),
            Row("read", ("the text, at the elements that are left",)),
            *(row for o in entry.obligations for row in self._proved(o, entry)),
            Row("so", (f"it merges, by the {MONOTONE.name}",)),
        ]
        return Section((self.stated(entry.name),), tuple(rows))


def _stated(found: Definition) -> Math:
    """A line of the text: name = Σ …"""
    word = "Σ" if found.fold == "sum" else found.fold
    return Relation(Var(found.name), Folded(word, found.formula) if word else found.formula)


def _behind(entry: Dependent | Commuted | Repair) -> Iterator[Row]:
    """What is a number in this sweep."""
    if entry.after:
        told = ", finished in a sweep before: given, as inputs per row are"
        yield Row("behind", (*_listed([Var(n) for n in entry.after]), told))


def _proof_of(obligation: Obligation, shown: Phrase) -> Iterator[Row]:
    note = f"{obligation.engine}, {obligation.seconds * 1e3:.0f} ms"
    yield Row(obligation.status, (f"{obligation.name}:", *shown[:1]), note)
    yield from (Row("", (" " * len(f"{obligation.name}:"), more)) for more in shown[1:])


def _listed(items: Iterable[Math]) -> Phrase:
    phrase: list[str | Math] = []
    for item in items:
        phrase += [item, ","]
    return tuple(phrase[:-1])
