"""What comes with a refusal: a counterexample that fits its kind, and what the user can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from fusegen.algebra.disorder import disorder
from fusegen.algebra.floats.witness import stray
from fusegen.algebra.pivot import Closed
from fusegen.algebra.reading import read_setting
from fusegen.algebra.refute import confusion, ratio
from fusegen.algebra.setting import Setting
from fusegen.algebra.symbols import Unmodelled
from fusegen.ir import graph as g
from fusegen.ir.derivation import Entry, Refusal, RefusalKind, Refused
from fusegen.ir.errors import FusegenError
from fusegen.ir.witness import Witness


def with_witness(
    graph: g.Graph, node: g.Reduce | g.TopK, entry: Entry, entries: Mapping[g.Node, Entry]
) -> Entry:
    """The entry; a refusal with its witness, where a small one is found. Never raises for that."""
    if not isinstance(entry, Refused) or entry.refusal.witness is not None:
        return entry
    try:
        witness = _witness(graph, node, entry.refusal.kind, entries)
    except (FusegenError, Unmodelled, ArithmeticError, ValueError):
        return entry  # the text takes no small floating-point rows
    return replace(entry, refusal=replace(entry.refusal, witness=witness))


def with_stray(
    graph: g.Graph, node: g.Reduce | g.TopK, entry: Refused, setting: Setting, closed: Closed
) -> Refused:
    """A refusal for what the merge is in floats, with a row on which it is wrong, if there is a
    short one."""
    try:
        witness = stray(graph, node, setting, closed, entry.refusal.kind)
    except (FusegenError, ArithmeticError, TypeError, ValueError):
        return entry  # the text takes no small floating-point rows
    return replace(entry, refusal=replace(entry.refusal, witness=witness))


def _witness(
    graph: g.Graph, node: g.Reduce | g.TopK, kind: RefusalKind, entries: Mapping[g.Node, Entry]
) -> Witness | None:
    match kind:
        case RefusalKind.NON_MONOTONE:
            setting = read_setting(graph, node.arg, entries)
            return disorder(graph, node, setting) or confusion(graph, node)
        case RefusalKind.KINK | RefusalKind.STUCK_ATOM:
            return confusion(graph, node) or ratio(graph, node)
        case RefusalKind.ORDER | RefusalKind.UNPROVED | RefusalKind.TOO_MANY_STATES:
            return confusion(graph, node)
        case RefusalKind.UNBOUNDED | RefusalKind.RANGE | RefusalKind.DRIFT:
            return None  # see with_stray
        case RefusalKind.MIXED_SIGN | RefusalKind.SPECIAL | RefusalKind.SIMPLER:
            return None
        case RefusalKind.DEFECT | RefusalKind.LATE:
            return None
        case _:
            assert_never(kind)


ROUNDED = """Over the reals its condition is decided; in floats, where exp(x - m) is 0 at last
and infinities less themselves are NaN, it is a switch at a value that moves with the row."""


def advice(kind: RefusalKind) -> str:
    """How a text that was refused could share a sweep."""
    match kind:
        case RefusalKind.KINK:
            return "To share the sweep, switch at a constant or at an fg.PerRow input."
        case RefusalKind.STUCK_ATOM:
            return ("To share the sweep, use row values only as x - m or x / a, "
                    "in powers, polynomials and exp of them.")
        case RefusalKind.UNBOUNDED:
            return "To share the sweep, measure from the greatest: exp(x - fg.max(x)) is bounded."
        case RefusalKind.RANGE:
            return "To share the sweep, divide by a maximum or a sum of magnitudes: fg.abs(x)."
        case RefusalKind.DRIFT:
            return ("To share the sweep, centre the element on its own mean, under the weights of "
                    "its own terms, or on its own extreme.")
        case RefusalKind.SPECIAL:
            return ("To share the sweep, measure from an extreme of the very element, and ask for "
                    "infinities before the reduction: fg.where(fg.isinf(x), 0, x).")
        case RefusalKind.SIMPLER:
            return "To share the sweep, write the simpler expression."
        case RefusalKind.TOO_MANY_STATES:
            return "To share the sweep, lower the degree, or return simpler sums."
        case RefusalKind.MIXED_SIGN:
            return ("To share the sweep, centre the element on a value of the elements alone, as "
                    "x - fg.mean(x), or accept the lost digits: "
                    "@fg.pipeline(allow_cancellation=True).")
        case RefusalKind.NON_MONOTONE:
            return "To share the sweep, order by x itself, or by exp, softmax or tanh of it."
        case RefusalKind.ORDER:
            return "To share the sweep, use the row's maximum, or an fg.PerRow input, instead."
        case RefusalKind.LATE:
            return "To share the sweep, write it in simpler sums."
        case RefusalKind.DEFECT:
            return "This is a defect of fusegen, not of the text: please report it."
        case RefusalKind.UNPROVED:
            return "To share the sweep, write it as sums, maxima or minima of simpler expressions."
        case _:
            assert_never(kind)


def refused(
    graph: g.Graph, node: g.Reduce | g.TopK, needs: tuple[str, ...], kind: RefusalKind, why: str,
    todo: str = "",
) -> Refused:
    """Of a reduction whose sweep others have to precede."""
    what = node.fold.value if isinstance(node, g.Reduce) else f"topk({node.k})"
    others = ", ".join(needs)
    shown = f"{what} ({graph.names[node]}) cannot join the sweep of {others}: {kind.value}"
    fix = f"{todo or advice(kind)}\nIt keeps a sweep of its own; the result is the same."
    return Refused(graph.names[node], needs, Refusal(kind, node.loc, shown, why, fix))
