"""GPUs: the only importer of CuPy, and only when asked to run.

Arrays are used where they lie; kernels run on the stream that the caller works on, on the device of
the arrays.
"""

from __future__ import annotations

from fusegen.backend.cuda.run.bound import Bound
from fusegen.backend.cuda.run.chain import Chain
from fusegen.backend.cuda.run.device import (
    available,
    context_reader,
    current_target,
    device_name,
    need_device,
    on_device,
    synchronize,
    time_calls,
)
from fusegen.backend.cuda.run.executable import CudaExecutable, capturing, flusher
from fusegen.backend.cuda.run.families import Family, cupy_family, family_of, torch_family
from fusegen.backend.cuda.run.foreign import (
    caller_stream,
    from_foreign,
    to_device,
    to_foreign,
    to_host,
)
from fusegen.backend.cuda.run.meets import Meets
from fusegen.backend.cuda.run.products import ProductExecutable, multiply
from fusegen.backend.cuda.run.seals import seals_launch

__all__ = [
    "Bound", "Chain", "CudaExecutable", "Family", "Meets", "ProductExecutable", "available",
    "caller_stream", "capturing", "context_reader", "cupy_family", "current_target", "device_name",
    "family_of", "flusher", "from_foreign", "multiply", "need_device", "on_device", "seals_launch",
    "synchronize", "time_calls", "to_device", "to_foreign", "to_host", "torch_family",
]
