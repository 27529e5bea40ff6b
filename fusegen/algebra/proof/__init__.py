"""Derivations for people and machines: a short argument as text, LaTeX or HTML, and exact JSON."""
