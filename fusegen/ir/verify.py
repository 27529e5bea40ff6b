"""What every program of the Kernel IR holds to, whoever made it."""

from __future__ import annotations

from fusegen.ir.errors import InternalError
from fusegen.ir.kernel import Kernel, Program


def verify_program(program: Program) -> None:
    """Sweeps are numbered in order, touch only arrays that their kernel has, and keep something in
    every component of their states. Raises InternalError."""
    if [s.number for s in program.sweeps] != list(range(1, len(program.sweeps) + 1)):
        raise InternalError(f"{program.name}: sweeps are not numbered in order")
    for kernel in program.kernels:
        _verify_kernel(kernel)


def _verify_kernel(kernel: Kernel) -> None:
    outputs = {p.name for p in kernel.params if p.output}
    inputs = {p.name for p in kernel.params} - outputs
    for sweep in kernel.sweeps:
        wrong = ({*sweep.reads} - inputs) | ({s.param for s in sweep.stores} - outputs)
        if wrong:
            raise InternalError(f"{kernel.name}, sweep {sweep.number}: unknown {sorted(wrong)}")
        empty = [c.name for c in sweep.monoid.components if c.width < 1]
        if empty:
            raise InternalError(f"{kernel.name}, sweep {sweep.number}: {empty} hold nothing")
