"""Which sums get another pivot: those that are refused as they stand, and merge with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from fusegen.algebra.equality import prove_equal
from fusegen.algebra.floats.partial import lost_in
from fusegen.algebra.proof.definitions import formula_of
from fusegen.ir import graph as g
from fusegen.ir.derivation import Derivation, Entry, Obligation, RefusalKind, Refused, Repair
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import DTypeError
from fusegen.ir.kinds import infer_kinds
from fusegen.rewrite.repair.condition import cancels
from fusegen.rewrite.repair.rewriting import Change, Rewriting, equal_to_text, rewritten
from fusegen.rewrite.rounds import derived

_BEYOND = (RefusalKind.KINK, RefusalKind.ORDER, RefusalKind.SIMPLER, RefusalKind.LATE,
           RefusalKind.DEFECT)
"""What no other pivot mends."""


def with_repairs(
    graph: g.Graph, text: Derivation, dtypes: Mapping[str, DType], but: Collection[str] = (),
    defects: Mapping[str, Refused] | None = None,
) -> Derivation:
    """The derivation `text` of the graph, or that of its `repaired_graph` where that saves a sweep;
    `repairs` then says what was changed. `but`: sums that are left as they are; `defects`: what
    was tried, and is not merged.
    """
    defects = defects or {}
    refused = [e for e in text if isinstance(e, Refused) and e.refusal.kind not in _BEYOND
               and e.name not in but and e.name not in defects]
    first = _repaired(graph, text, dtypes, {e.name: () for e in refused}, defects)
    # What no pivot of the whole text mends may have one behind a cut.
    before: dict[str, tuple[str, ...]] = {r.name: () for r in first.repairs}
    behind = {e.name: e.after for e in refused
              if e.after and not e.opens and e.name not in before}
    if not behind:
        return first
    more = _repaired(graph, text, dtypes, {**before, **behind}, defects)
    return more if before.keys() < {r.name for r in more.repairs} else first


def _repaired(
    graph: g.Graph, text: Derivation, dtypes: Mapping[str, DType],
    names: Mapping[str, tuple[str, ...]], defects: Mapping[str, Refused],
) -> Derivation:
    """With as many of these as can be; with each the reductions that are finished by then."""
    proofs: dict[str, Obligation] = {}
    while names:
        found = rewritten(graph, names, dtypes)
        if not found.changes or not _has_types(found.graph, dtypes):
            break
        # What does not merge is derived without reasons, and needs no proof: most texts end here.
        new = derived(found.graph, defects, groups=_hidden(found), witnesses=False)
        sound = {c.name for c in found.changes if lost_in(c.repaired.value, c.text.arg) is None}
        sound -= _failing(found, new, names)
        sound -= {c.name for c in found.changes if c.name in sound and cancels(c, found.graph)}
        if len(sound) == len(found.changes):
            if _spoilt(text, new, found):
                return text
            proofs |= {c.name: _proof(c) for c in found.changes if c.name not in proofs}
            sound = {n for n in sound if proofs[n].status == "proved"}
            if len(sound) == len(found.changes):
                return _told(new, text, found, proofs, names)
        names = {n: names[n] for n in names if n in sound}
    return text


def _hidden(found: Rewriting) -> list[frozenset[str]]:
    """The sums of each change, that are of use together alone."""
    names = found.graph.names
    return [frozenset(names[h] for h in c.hidden if h in names) for c in found.changes]


def _has_types(graph: g.Graph, dtypes: Mapping[str, DType]) -> bool:
    """Whole numbers have no mean, and are summed exactly as they are."""
    try:
        infer_kinds(graph, dtypes)
    except DTypeError:
        return False
    return True


def _proof(change: Change) -> Obligation:
    if change.repaired.proofs:
        shown = [prove() for prove in change.repaired.proofs]
        failed = [o for o in shown if o.status != "proved"]
        first, *rest = failed or shown
        return replace(first, statement=";\n".join(o.statement for o in (first, *rest)),
                       seconds=sum(o.seconds for o in shown))
    return prove_equal(change.name, change.text, change.repaired.plain,
                       equal_to_text(change.name))


def _failing(
    found: Rewriting, new: Derivation, names: Mapping[str, tuple[str, ...]]
) -> set[str]:
    """Changes with a sum of their own that does not merge either, in the sweep that is meant."""
    refused = {e.name: e for e in new if isinstance(e, Refused)}
    failing = set()
    for change, hidden in zip(found.changes, _hidden(found), strict=True):
        late = [refused[h] for h in hidden if h in refused]
        if any(not e.opens or not {*e.after} <= {*names[change.name]} for e in late):
            failing.add(change.name)
    return failing


def _spoilt(text: Derivation, new: Derivation, found: Rewriting) -> bool:
    """Has a sum that merged lost its pivot?"""
    before = {e.name for e in text if isinstance(e, Refused)}.union(*_hidden(found))
    return any(isinstance(e, Refused) and e.name not in before for e in new)


def _told(
    new: Derivation, text: Derivation, found: Rewriting, proofs: dict[str, Obligation],
    names: Mapping[str, tuple[str, ...]],
) -> Derivation:
    repairs = []
    for change in found.changes:
        entry, pivots = text[change.name], change.repaired.pivots
        assert isinstance(entry, Refused)
        repairs.append(Repair(
            change.name, next(d for d in text.definitions if d.name == change.name),
            formula_of(found.graph, change.repaired.plain),
            tuple(found.graph.names[p] for p in pivots if p in found.graph.names),
            entry.refusal.why, proofs[change.name], names[change.name],
        ))
    entries = tuple(_shown(e, text) for e in new)
    return replace(new, entries=entries, repairs=tuple(repairs), seconds=new.seconds + text.seconds)


def _shown(entry: Entry, text: Derivation) -> Entry:
    """A refusal with the row that shows why: what is refused was so in the text, over row values
    that are equal."""
    before = next((e for e in text if e.name == entry.name), None)
    if not isinstance(entry, Refused) or not isinstance(before, Refused):
        return entry
    same = entry.refusal.kind is before.refusal.kind
    witness = before.refusal.witness if same else None
    return replace(entry, refusal=replace(entry.refusal, witness=witness))
