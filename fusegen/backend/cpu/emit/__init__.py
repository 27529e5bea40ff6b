"""Programs as C++17: one translation unit for gcc and clang, with their vector extensions."""

from __future__ import annotations

from fusegen.backend.cpu.emit.source import cpu_source

__all__ = ["cpu_source"]
