"""Sums that only need another pivot get one: see docs/proofs.md, "Another pivot"."""
