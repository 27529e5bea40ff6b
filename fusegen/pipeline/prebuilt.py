"""What `fusegen.load` finds of one pipeline with types: code by the memory that it works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusegen.backend.executable import Executable
from fusegen.backend.exported import Exporting
from fusegen.backend.memory import Memory
from fusegen.backend.registry import BACKENDS
from fusegen.ir import graph as g
from fusegen.ir.codec import Unreadable
from fusegen.ir.errors import ArgumentError, BackendError
from fusegen.ir.kernel import Param
from fusegen.ir.shared import Lock


@dataclass
class Prebuilt:
    """`parts`: records by backend; `graph` has inputs and a structure alone."""

    graph: g.Graph
    library: Any
    parts: Mapping[str, Sequence[Mapping[str, Any]]]
    _found: dict[str, Executable] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def on(self, memory: Memory) -> Executable:
        """What runs where the arrays are. Raises ArgumentError, BackendError."""
        found = self._found.get(memory.name)
        if found is None:
            with self._lock.held():
                found = self._found[memory.name] = self._made(memory)
        return found

    def _made(self, memory: Memory) -> Executable:
        for backend in BACKENDS:
            if backend.name in self.parts and backend.memory.name == memory.name:
                assert isinstance(backend, Exporting)
                try:
                    return backend.prebuilt(self.library, self.parts[backend.name])
                except Unreadable as error:
                    raise BackendError(f"the library's programs cannot be read ({error}): export "
                                       "it again.") from error
        raise ArgumentError(f"the library has no code for arrays on {memory.name}",
                            why=f"It was exported for {', '.join(self.parts)}.",
                            fix="Export it for that target as well, or move the arrays.")

    def params(self, memory: Memory) -> tuple[Param, ...]:
        program = self.on(memory).program
        return (*program.inputs, *program.outputs)
