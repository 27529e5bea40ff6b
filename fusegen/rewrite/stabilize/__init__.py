"""Naive text to safe text: what overflows or cancels is rewritten, and proved equal."""
