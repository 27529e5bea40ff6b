"""Naive text to safe text: what overflows or cancels is rewritten, and proved equal."""

from __future__ import annotations

from fusegen.stabilize.stabilized import stabilize

__all__ = ["stabilize"]
