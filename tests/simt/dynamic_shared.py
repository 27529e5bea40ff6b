"""The dynamic array in shared memory: one, under all names that kernels declare for it."""

from __future__ import annotations

import re
from collections.abc import Collection

_MAX_BYTES = 227 * 1024  # the most that any GPU gives to one block
_BOUNDARY = 128


def boundary(text: str) -> int:
    """Where the dynamic array begins: at what kernels declare for it, where it is much."""
    declared = re.findall(r"\bextern\s+__shared__\s+__align__\((\d+)\)", text)
    return max([_BOUNDARY, *map(int, declared)])


def assembly(names: Collection[str], boundary: int) -> str:
    """Define the dynamic shared array once, under all names that kernels declare for it."""
    capacity = _MAX_BYTES if names else 1  # an empty segment would not exist
    lines = ['.section .tbss, "awT", @nobits', f".balign {boundary}"]
    for name in ["simt_dynamic_shared", *names]:
        lines += [f".globl {name}", f".hidden {name}", f".type {name}, @tls_object", f"{name}:"]
    lines += [f".zero {capacity}", '.section .note.GNU-stack, "", @progbits', ""]
    return "\n".join(lines)
