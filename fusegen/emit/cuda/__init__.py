"""Programs as CUDA C++: one translation unit that compiles as it stands under nvcc and NVRTC."""

from __future__ import annotations

from fusegen.emit.cuda.source import cuda_source

__all__ = ["cuda_source"]
