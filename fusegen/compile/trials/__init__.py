"""Trials of merged operators on numbers, independent of the proofs: laws, text, lists, specials."""
