"""Monoids of the user's own: their laws refuted by numbers, or proved by sympy."""
