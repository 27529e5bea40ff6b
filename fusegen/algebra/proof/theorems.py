"""What arguments lean on; each is proved in docs/proofs.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Theorem:
    """Proved in docs/proofs.md; a derivation discharges its conditions."""

    name: str
    statement: tuple[str, ...]


COCYCLE = Theorem("cocycle theorem", (
    "If h(u at q) = T(p→q)·h(u at p) for every element, T(p→p) = 1 and T(q→r)·T(p→q) = T(p→r),",
    "then (p, S) ⊕ (q, R) = (p·q, T(p→p·q)·S + T(q→p·q)·R) is associative and commutative, the",
    "empty row is its identity, and folding a row, in any order and tree, gives (p, Σ h(u at p)).",
))
FLOATS = Theorem("lemma of partial rows", (
    "If at every part of a row |T|·Σ |h(u at p)|, moved to the last pivot, is at most K times what",
    "it is there, a tree of depth d is off by at most K·d·c·ε times that; one move rounds by c·ε.",
    "K = 1 under a pivot that dominates the element, 4ᵏ for a power k about its own mean.",
))
MONOTONE = Theorem("monotone lemma", (
    "If f rises strictly, the order of f(x) is the order of x: max, min, argmax, argmin and top-K",
    "commute with f. If f falls strictly, they commute with the reverse order. If f never falls",
    "(or never rises), results are the same, but not the columns of those that f makes equal.",
))
