"""A pipeline compiled for given types, and what stands for arrays that are not there yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from fusegen.backend.arrays.adopt import adopt, adopt_all, one_memory
from fusegen.backend.arrays.columns import check_columns
from fusegen.backend.arrays.rows import Axes, Rows, rows_of
from fusegen.backend.arrays.vectors import length_of, types_of
from fusegen.backend.backend import Target
from fusegen.backend.memory import Adopted, Shape
from fusegen.backend.registry import HERE, backend_at, backend_of, target_named
from fusegen.compile.passes import Work
from fusegen.compile.unstored import Sizes
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType, dtype_of
from fusegen.ir.errors import ArgumentError
from fusegen.lang.signature import Signature, check_flag
from fusegen.pipeline.call import prepare
from fusegen.pipeline.remembered import Recall, Served
from fusegen.pipeline.variants import Choices, Key, Variants

if TYPE_CHECKING:
    from fusegen.algebra.proof.proof import Proof
    from fusegen.compile.plan import Plan
    from fusegen.compile.tuning import Tuned


@dataclass(frozen=True, slots=True)
class Spec:
    """An array that is not there yet: for compiling without data."""

    shape: tuple[int, ...]
    dtype: Any = "float32"


class Compiled(Served):
    """A pipeline compiled for given types, constants, form and target; call it with arrays.

    `.source` generated text, `.plan` sweeps and accesses, `.schedule` the backend's choices,
    `.derivation` what was proved, `.tuned` what was measured, if anything. Other shapes than those
    compiled for are served too. Globals and attributes that the text uses are those of the moment
    of compiling.
    """

    def __init__(
        self, signature: Signature, choices: Choices, variants: Variants, rows: Rows,
        constants: Mapping[str, Any], recipe: tuple[Any, dict[str, Any]],
    ) -> None:
        self.signature, self.choices, self._recipe = signature, choices, recipe
        shapes = {n: s.shape for n, s in recipe[1].items() if isinstance(s, Spec)}
        self._sizes = Sizes(rows.lead, rows.n_cols, shapes)
        self.tuned: Tuned | None = None
        self._constants = constants
        self._variants, self._recall = variants, Recall(signature.arrays)
        target = choices.target or target_named(HERE)
        memory = backend_of(target).memory
        key = Key(memory, 0, (rows.n_rows, rows.n_cols), batch_rows=self._batch_rows(rows))
        self.work: Work = checked(variants.work(target, variants.problem(key)))
        if memory.single and rows.n_rows:
            variants.executable(key)

    def _batch_rows(self, rows: Rows) -> int | None:
        """All of them where every column has one vector; else what the arrays will say."""
        lead = [n for i in self._variants.graph.inputs if i.axis is g.Axis.COLUMN_VECTOR
                for n in self._sizes.shapes.get(i.name, ())[:-2]]
        return rows.n_rows if self._sizes.shapes and set(lead) <= {1} else None

    def _look(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any,
        rest: tuple[Axes, bool],
    ) -> Any:
        axis, keepdims = rest
        present = self.signature.bind_arrays(arrays, named)
        adopted = adopt_all(present)
        dtypes = self._variants.typed.dtypes
        found = types_of(adopted, [n for n, d in dtypes.items() if d.length])
        if found != dict(dtypes):
            wanted = ", ".join(f"{n} {d}" for n, d in dtypes.items())
            shown = ", ".join(f"{n} {d}" for n, d in found.items())
            raise ArgumentError(f"compiled for {wanted}; called with {shown}",
                                fix="Compile again, or convert the arrays.")
        one_memory(adopted)
        call = prepare(self._variants, adopted, self._constants, axis, out,
                       check_flag("keepdims", keepdims))
        call.run()
        self._recall.learn(call, arrays, named, out, rest)
        return call.hand_back()

    def __reduce__(self) -> tuple[Any, ...]:
        """Compiled again where it is unpickled, or copied: for that machine, and nothing measured.

        Raises ArgumentError where `tune` was asked for."""
        if self.choices.tune:
            raise ArgumentError("what was tuned is not pickled", why="It is of this GPU's times.",
                                fix="Pickle the pipeline, and tune there: what was measured is "
                                "kept on disk.")
        owner, asked = self._recipe
        if asked["target"] is None:
            asked = {**asked, "target": self.work.target.elsewhere}
        return _again, (owner, asked)

    def tune(self, adopted: Mapping[str, Adopted], given: Mapping[str, Any]) -> None:
        """Measure the choice for these arrays. Raises ArgumentError where that is impossible."""
        missing = [n for n in given if n not in adopted]
        if missing:
            raise ArgumentError(f"tune measures on arrays, {', '.join(missing)} is a Spec",
                                why="There are no data to run on.",
                                fix="Give arrays on a GPU, or leave tune out.")
        one_memory(adopted)
        call = prepare(self._variants, adopted, self._constants)
        if call.layout.rows.n_rows:
            self.work, self.tuned = call.tune()

    def load(self, adopted: Mapping[str, Adopted]) -> None:
        """Make the kernels where the arrays are: then calls with others like them, also the first,
        may be captured into a graph."""
        memory = self.work.backend.memory
        if all(a.memory == memory for a in adopted.values()) and not memory.single:
            call = prepare(self._variants, adopted, self._constants)
            if call.layout.rows.n_rows:
                _ = call.executable

    @property
    def source(self) -> str:
        return self.work.source

    @property
    def plan(self) -> Plan:
        return self.work.plan_for(self._sizes)

    @property
    def schedule(self) -> Any:
        return self.work.schedule

    @property
    def derivation(self) -> Proof:
        return self.work.proof


class Source(Protocol):
    """See `Pipeline`."""

    signature: Signature

    @property
    def vectors(self) -> Collection[str]:
        """Inputs that hold vectors."""

    def of_types(
        self, dtypes: Mapping[str, DType], constants: dict[str, Any], choices: Choices
    ) -> Variants: ...


def compiled_for(
    pipeline: Source, present: Mapping[str, Any], constants: dict[str, Any], choices: Choices,
    options: Mapping[str, Any],
) -> Compiled:
    """See `Pipeline.compile`. present: arrays and `Spec`s; options: what is to be asked again where
    it is unpickled."""
    there = {n: adopt(n, a) for n, a in present.items() if not isinstance(a, Spec)}
    shapes, dtypes = _asked_for(present, there, pipeline.vectors)
    if choices.target is None:
        choices = replace(choices, target=_target_of(there))
    variants = pipeline.of_types(dtypes, constants, choices)
    rows = rows_of(variants.graph.inputs, shapes, -1)
    check_columns(variants.graph, rows.n_cols)
    specs = {n: Spec(shapes[n], dtypes[n].name) for n in present}
    recipe = (pipeline, {**options, **constants, **specs})
    found = Compiled(pipeline.signature, choices, variants, rows, constants, recipe)
    if choices.tune:
        found.tune(there, present)
    if len(there) == len(present):
        found.load(there)
    return found


def _asked_for(
    present: Mapping[str, Any], there: Mapping[str, Adopted], vectors: Collection[str]
) -> tuple[dict[str, Shape], dict[str, DType]]:
    """Shapes and types by name: of the arrays that are there, and as `Spec`s say of the others."""
    shapes = {n: tuple(there[n].array.shape if n in there else a.shape) for n, a in present.items()}
    dtypes = {n: there[n].dtype if n in there else dtype_of(a.dtype) for n, a in present.items()}
    return shapes, {n: d.vector(length_of(n, shapes[n])) if n in vectors else d
                    for n, d in dtypes.items()}


def checked(work: Work) -> Work:
    """The work, if its target can have the chunk that is asked for. Raises ArgumentError."""
    if work.chunk is not None:
        _ = work.schedule
    return work


def _again(pipeline: Any, asked: dict[str, Any]) -> Compiled:
    found: Compiled = pipeline.compile(**asked)
    return found


def _target_of(adopted: Mapping[str, Adopted]) -> Target:
    """Where the arrays live; this machine's usual one without any."""
    if not adopted:
        return target_named(HERE)
    memory = one_memory(adopted)
    with memory.working(next(iter(adopted.values()))):
        return backend_at(memory).here()
