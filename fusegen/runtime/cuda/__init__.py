"""GPUs: the only importer of CuPy, and only when asked to run.

Arrays are used where they lie; kernels run on the stream that the caller works on, on the device of
the arrays.
"""

from __future__ import annotations

from fusegen.runtime.cuda.device import (
    available,
    context_reader,
    current_target,
    device_name,
    on_device,
    synchronize,
    time_calls,
)
from fusegen.runtime.cuda.executable import Bound, CudaExecutable, capturing, flusher
from fusegen.runtime.cuda.families import Family, cupy_family, family_of
from fusegen.runtime.cuda.foreign import (
    caller_stream,
    from_foreign,
    to_device,
    to_foreign,
    to_host,
)

__all__ = [
    "Bound", "CudaExecutable", "Family", "available", "caller_stream", "capturing",
    "context_reader", "cupy_family", "current_target", "device_name", "family_of", "flusher",
    "from_foreign", "on_device", "synchronize", "time_calls", "to_device", "to_foreign", "to_host",
]  # fmt: skip
