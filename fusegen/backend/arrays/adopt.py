"""The arrays of a call, taken as they are, and the one place where all of them lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusegen.backend import registry
from fusegen.backend.host.memory import HOST
from fusegen.backend.memory import Adopted, Memory
from fusegen.ir.errors import ArgumentError


def adopt(name: str, given: Any) -> Adopted:
    """Take an array as it is. Raises ArgumentError or DTypeError naming it."""
    return registry.memory_of(given).adopt(name, given)


def adopt_all(arrays: Mapping[str, Any]) -> dict[str, Adopted]:
    """Every array by its name. Raises ArgumentError or DTypeError."""
    return {name: adopt(name, given) for name, given in arrays.items()}


def one_memory(adopted: Mapping[str, Adopted], wanted: str = "auto") -> Memory:
    """Where all the arrays lie. Raises ArgumentError if that is two places or not `wanted`."""
    check_places({n: a.place for n, a in adopted.items()})
    memory = next(iter(adopted.values())).memory
    if wanted not in ("auto", memory.name):
        registry.memory_named(wanted)
        raise ArgumentError(
            f"device={wanted!r}, but the arrays live on {memory.name}",
            why="Kernels run where the data is.",
            fix="Move the arrays first: cupy.asarray(x) or x.cuda(), cupy.asnumpy(x) or x.cpu().",
        )
    return memory


def check_places(places: Mapping[str, Any]) -> None:
    """Raises ArgumentError where arrays, by name, do not all lie in one place."""
    if len({*places.values()}) > 1:
        where = ", ".join(f"{n} on {place}" for n, place in places.items())
        raise ArgumentError(
            "the arrays live on different devices", why=where + ".",
            fix="Move them to one: nothing is copied between devices silently.",
        )


def on_host(adopted: Adopted) -> Adopted:
    """The same values in host memory, as NumPy's, when all that makes them is done."""
    with adopted.memory.working(adopted):
        array = adopted.memory.to_host(adopted.array, adopted.dtype)
    return Adopted(array, adopted.dtype, HOST, "numpy", array)
