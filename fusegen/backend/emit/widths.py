"""What a backend's states cannot hold yet is refused, and not computed in part."""

from __future__ import annotations

from fusegen.ir.errors import BackendError
from fusegen.ir.kernel import Program


def check_widths(program: Program, kernels: str) -> None:
    """Every component of every state is one number. Raises BackendError for vectors."""
    for kernel in program.kernels:
        for param in kernel.params:
            if param.shape in ("row_vector", "column_vector"):
                raise BackendError(
                    f"{program.name}: {kernels} do not make elements of vectors "
                    f"({param.name}): give arrays on the CPU"
                )
    for sweep in program.sweeps:
        wide = [c for c in sweep.monoid.components if c.width != 1]
        if wide:
            raise BackendError(
                f"{program.name}, sweep {sweep.number}: {wide[0].name} is a vector of "
                f"{wide[0].width} numbers; {kernels} keep one in each component of a state"
            )
