"""Names that functions of a kernel over vectors use: what it was given, and what is known of a row.

A kernel's parameters are members of `given`; a row's values, as soon as they are known, of `mine`.
A function begins with declarations of those that its lines use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.emit.places import array_name, pointer_of, pointer_type
from fusegen.backend.cuda.schedule.launch import Launch
from fusegen.backend.emit.lines import Line, uses_of
from fusegen.backend.emit.vector_sums import sums_of_state, vector_sums
from fusegen.ir.kernel import N_COLS, ROW, Let, Step
from fusegen.ir.kernel_walk import names_in


@dataclass(frozen=True)
class Member:
    """Of `given`: a parameter of the kernel."""

    type: str
    name: str


@dataclass
class Scope:
    """The names of one kernel."""

    launch: Launch
    dialect: CudaDialect
    types_of_scratch: dict[str, str]  # C++ types of states and keys
    types: dict[str, str] = field(init=False)  # of row values
    kept: dict[str, str] = field(init=False)  # those that one function leaves for another
    members: tuple[Member, ...] = field(init=False)

    def __post_init__(self) -> None:
        kernel = self.launch.kernel
        rows = [p for p in self.launch.params if p.shape == "row" and not p.output]
        self.types = {p.name: self.dialect.type_of(p.dtype.kind) for p in rows}
        for step in (*kernel.prelude, *(s for w in kernel.sweeps for s in w.steps)):
            self.types[step.name] = self._type_of(step)
        self.kept = self._kept()
        self.members = tuple(self._members())

    def _type_of(self, step: Step) -> str:
        value = step.expr if isinstance(step, Let) else step.value
        return self.dialect.type_of(value.kind)

    def _kept(self) -> dict[str, str]:
        """Row values that another place uses than the one that computes them: before the sweeps,
        or behind one."""
        kernel = self.launch.kernel
        rows = [p.name for p in self.launch.params if p.shape == "row" and not p.output]
        places = [[*rows, *(s.name for s in kernel.prelude)],
                  *([s.name for s in w.steps] for w in kernel.sweeps)]
        found = [n for i, names in enumerate(places) for n in names
                 if n in names_in(kernel.sweeps[i:])]
        return {n: self.types[n] for n in (*found, *self.of_vectors)}

    @property
    def of_vectors(self) -> list[str]:
        """Sums over the index of a row's own vectors, whose lanes find them together, beside
        lists, from which a warp goes on."""
        kernel = self.launch.kernel
        return [s.name for w in kernel.sweeps if w.monoid.lists for s in w.steps
                if sums_of_state(s, [v.name for v in vector_sums(kernel, w)])]

    def found(self, number: int) -> tuple[str, ...]:
        """Row values that sweeps before this one have found, or it for what follows from lists: a
        row's lanes have them, and a warp goes on."""
        sweeps = self.launch.kernel.sweeps
        before = {s.name for w in sweeps if w.number < number for s in w.steps}
        own = {s.name for w in sweeps if w.number == number for s in w.steps}
        return tuple(n for n in self.kept
                     if n in before or (n in own and n in self.of_vectors))

    def _members(self) -> Iterable[Member]:
        for p in self.launch.params:
            kind = C_TYPES[p.dtype.name] if p.shape == "scalar" else pointer_type(p)
            yield Member(kind, array_name(p))
        for s in self.launch.scratch:
            kind = {"tickets": "unsigned long long", "sums": self.dialect.real}.get(
                s.kind, self.types_of_scratch.get(s.name, ""))
            yield Member(f"{kind}*", s.name)
        for name in self.launch.scalars:
            yield Member("column_t" if name == N_COLS.name else "long long", name)

    # ---- declarations ----

    def opened(self, lines: Iterable[Line]) -> list[Line]:
        """The lines behind declarations of what they use."""
        lines = [*lines]
        return [*self.declared(lines), *lines]

    def declared(self, lines: Iterable[Line]) -> list[Line]:
        """Declarations of what these lines use of `given` and `mine`."""
        lines = [*lines]
        uses = {*uses_of(lines)}
        declared = {ln.declares for ln in lines}
        pointers = self._row_pointers(uses)
        uses |= uses_of(pointers)
        found = [Line(f"const auto {m.name} = given.{m.name};", frozenset(["given"]), m.name)
                 for m in self.members if m.name in uses]
        found += [Line(f"const {kind} {name} = mine.{name};", frozenset(["mine"]), name)
                  for name, kind in self.kept.items() if name in uses and name not in declared]
        if ROW.name in uses and ROW.name not in declared:
            found.append(Line("const long long row = mine.number;", frozenset(["mine"]), ROW.name))
        return [*found, *pointers]

    def _row_pointers(self, uses: Iterable[str]) -> list[Line]:
        """A row's elements, and what columns of its batch have."""
        found = []
        for p in self.launch.params:
            pointer = f"{p.name}_columns" if p.shape == "column_vector" else pointer_of(p)
            if pointer not in uses or p.shape not in ("element", "column_vector", "columns"):
                continue
            name, kind = array_name(p), pointer_type(p)
            start, used = "", []
            if p.shape == "element":
                start, used = f" + row * {p.name}_stride", [f"{p.name}_stride", ROW.name]
            found.append(Line(f"{kind} {pointer} = {name}{start};", frozenset([name, *used]),
                              pointer))
        return found

    def batched(self) -> list[str]:
        """Statements that move `given` to the batch of a row."""
        found = []
        for p in self.launch.params:
            if p.shape in ("column_vector", "columns"):
                step = "batch_stride" if p.shape == "column_vector" else "stride"
                found.append(f"given.{array_name(p)} += quotient(row, given.{p.name}_rows) * "
                             f"given.{p.name}_{step};")
        return found
