"""Runs unmodified CUDA C++ kernels on the CPU and reports what would be undefined on a GPU."""

from simt.executor import SimtError, SimtModule, compile_module
from simt.tensor_maps import TensorMap
from simt.toolchain import available

__all__ = ["SimtError", "SimtModule", "TensorMap", "available", "compile_module"]
