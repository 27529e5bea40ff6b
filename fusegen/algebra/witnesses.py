"""A witness for every refusal: which kind of counterexample fits which kind of refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from fusegen import graph as g
from fusegen.algebra.disorder import disorder
from fusegen.algebra.numeric import cancellation, overflow
from fusegen.algebra.refute import confusion, ratio
from fusegen.algebra.setting import read_setting
from fusegen.algebra.symbols import Unmodelled
from fusegen.derivation import Entry, RefusalKind, Refused
from fusegen.errors import FusegenError
from fusegen.witness import Witness


def with_witness(
    graph: g.Graph, node: g.Reduce | g.TopK, entry: Entry, entries: Mapping[g.Node, Entry]
) -> Entry:
    """The entry; a refusal with its witness, where a small one is found. Never raises for that."""
    if not isinstance(entry, Refused):
        return entry
    try:
        witness = _witness(graph, node, entry.refusal.kind, entries)
    except (FusegenError, Unmodelled, ArithmeticError, ValueError):
        return entry  # the text takes no small floating-point rows
    return replace(entry, refusal=replace(entry.refusal, witness=witness))


def _witness(
    graph: g.Graph, node: g.Reduce | g.TopK, kind: RefusalKind, entries: Mapping[g.Node, Entry]
) -> Witness | None:
    match kind:
        case RefusalKind.NON_MONOTONE:
            setting = read_setting(node.arg, graph.names, entries)
            return disorder(graph, node, setting) or confusion(graph, node)
        case RefusalKind.MIXED_SIGN:
            return cancellation(graph, node, read_setting(node.arg, graph.names, entries))
        case RefusalKind.UNBOUNDED:
            return overflow(graph, node)
        case RefusalKind.KINK | RefusalKind.STUCK_ATOM:
            return confusion(graph, node) or ratio(graph, node)
        case RefusalKind.ORDER | RefusalKind.UNPROVED | RefusalKind.TOO_MANY_STATES:
            return confusion(graph, node)
        case _:
            assert_never(kind)
