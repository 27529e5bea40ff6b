"""Derivation of merged operators, and their proofs. The only importer of sympy."""
