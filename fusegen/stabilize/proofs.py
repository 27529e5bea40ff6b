"""Proofs that a rewritten text equals the original, kept on disk."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict

from fusegen import graph as g
from fusegen.derivation import Obligation
from fusegen.digest import attributes
from fusegen.errors import BackendError
from fusegen.runtime.cache import load_bytes, store_bytes
from fusegen.sources import sources_digest


def equality(name: str, old: g.Node, new: g.Node) -> Obligation:
    """The obligation that `new` equals `old`, proved now or by an earlier process."""
    key = ("equality", sources_digest(), name, _fingerprint(old, new))
    with suppress(BackendError):  # without a private folder nothing is kept
        kept = load_bytes(key, ".json")
        if kept is not None:
            return Obligation(**json.loads(kept))
    from fusegen.algebra.equality import prove_equal

    found = prove_equal(name, old, new)
    with suppress(BackendError):
        store_bytes(key, ".json", json.dumps(asdict(found)).encode())
    return found


def _fingerprint(*ends: g.Node) -> str:
    """A hash of what the nodes compute."""
    number = {n: i for i, n in enumerate(g.topological(ends))}
    rows = [(attributes(n), [number[a] for a in g.operands(n)]) for n in number]
    return hashlib.sha256(repr((rows, [number[e] for e in ends])).encode()).hexdigest()
