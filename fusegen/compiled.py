"""A pipeline compiled for given types, and what stands for arrays that are not there yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusegen.blame import blames
from fusegen.compiler import Work
from fusegen.derivation import Derivation
from fusegen.dispatch import Choices, Front, Key, no_source, prepare
from fusegen.dtypes import DType, dtype_of
from fusegen.errors import ArgumentError
from fusegen.plan import Plan
from fusegen.recall import MISS, Recall
from fusegen.runtime import arrays as ar
from fusegen.runtime.rows import Axes, Rows, plain_axis
from fusegen.schedule.target import CudaTarget, Target, host_cpu, target_named
from fusegen.signature import Signature, check_flag
from fusegen.tuning import Tuned


@dataclass(frozen=True, slots=True)
class Spec:
    """An array that is not there yet: for compiling without data."""

    shape: tuple[int, ...]
    dtype: Any = "float32"


class Compiled:
    """A pipeline compiled for given types, constants, form and target; call it with arrays.

    `.source` generated text, `.plan` sweeps and accesses, `.schedule` the backend's choices,
    `.derivation` what was proved, `.tuned` what was measured, if anything. Other shapes than those
    compiled for are served too. Globals and attributes that the text uses are those of the moment
    of compiling.
    """

    def __init__(
        self, signature: Signature, choices: Choices, front: Front, rows: Rows,
        recipe: tuple[Any, dict[str, Any]],
    ) -> None:  # fmt: skip
        self.signature, self.choices, self._recipe = signature, choices, recipe
        self.tuned: Tuned | None = None
        self._front, self._recall = front, Recall(signature.arrays)
        target = choices.target or host_cpu()
        key = Key("cpu", 0, (rows.n_rows, rows.n_cols))
        self.work: Work = checked(front.work(target, front.problem(key)))
        if not choices.numpy and not isinstance(target, CudaTarget) and rows.n_rows:
            front.executable(key)

    @blames
    def __call__(
        self, *arrays: Any, axis: Axes = -1, out: Any = None, keepdims: bool = False, **named: Any
    ) -> Any:
        """Run on arrays of the types compiled for; see Pipeline.__call__."""
        if axis.__class__ is not int:
            axis = plain_axis(axis)
        rest = (axis, keepdims)
        done = self._recall.find(arrays, named, out, rest)
        if done is not MISS:
            return done
        present = self.signature.bind_arrays(arrays, named)
        adopted = {n: ar.adopt(n, a) for n, a in present.items()}
        found = {n: a.dtype for n, a in adopted.items()}
        if found != dict(self._front.dtypes):
            wanted = ", ".join(f"{n} {d}" for n, d in self._front.dtypes.items())
            shown = ", ".join(f"{n} {d}" for n, d in found.items())
            raise ArgumentError(f"compiled for {wanted}; called with {shown}",
                                fix="Compile again, or convert the arrays.")  # fmt: skip
        place = ar.one_device(adopted, "auto")
        call = prepare(self._front, adopted, place, axis, out, check_flag("keepdims", keepdims))
        call.run()
        self._recall.learn(call, arrays, named, out, rest)
        return call.hand_back()

    def __reduce__(self) -> tuple[Any, ...]:
        """Compiled again where it is unpickled, or copied: for that machine, and nothing measured.

        Raises ArgumentError where `tune` was asked for."""
        if self.choices.tune:
            raise ArgumentError("what was tuned is not pickled", why="It is of this GPU's times.",
                                fix="Pickle the pipeline, and tune there: what was measured is "
                                "kept on disk.")  # fmt: skip
        target = self.choices.target
        owner, asked = self._recipe
        if isinstance(target, CudaTarget):
            asked = {**asked, "target": target.name}
        return _again, (owner, asked)

    def tune(self, adopted: Mapping[str, ar.Adopted], given: Mapping[str, Any]) -> None:
        """Measure the choice for these arrays. Raises ArgumentError where that is impossible."""
        missing = [n for n in given if n not in adopted]
        if missing:
            raise ArgumentError(f"tune measures on arrays, {', '.join(missing)} is a Spec",
                                why="There are no data to run on.",
                                fix="Give arrays on a GPU, or leave tune out.")  # fmt: skip
        call = prepare(self._front, adopted, ar.one_device(adopted, "auto"), -1, None)
        if call.rows.n_rows:
            self.work, self.tuned = call.tune()

    def load(self, adopted: Mapping[str, ar.Adopted]) -> None:
        """Make the kernels for arrays on a GPU: then calls with others like them, also the first,
        may be captured into a graph."""
        on_gpu = all(a.device == "cuda" for a in adopted.values())
        if on_gpu and isinstance(self.choices.target, CudaTarget):
            call = prepare(self._front, adopted, "cuda", -1, None)
            if call.rows.n_rows:
                call.load()

    @property
    def source(self) -> str:
        if self.choices.numpy:
            raise no_source()
        return self.work.source

    @property
    def plan(self) -> Plan:
        return self.work.plan

    @property
    def schedule(self) -> Any:
        return self.work.schedule

    @property
    def derivation(self) -> Derivation:
        return self.work.derivation


def asked_for(
    present: Mapping[str, Any], there: Mapping[str, ar.Adopted]
) -> tuple[dict[str, ar.Shape], dict[str, DType]]:
    """Shapes and types by name: of the arrays that are there, and as `Spec`s say of the others."""
    shapes = {n: tuple(there[n].array.shape if n in there else a.shape) for n, a in present.items()}
    dtypes = {n: there[n].dtype if n in there else dtype_of(a.dtype) for n, a in present.items()}
    return shapes, dtypes


def checked(work: Work) -> Work:
    """The work, if its target can have the chunk that is asked for. Raises ArgumentError."""
    if work.chunk is not None:
        _ = work.schedule
    return work


def _again(pipeline: Any, asked: dict[str, Any]) -> Compiled:
    found: Compiled = pipeline.compile(**asked)
    return found


def target_of(adopted: Mapping[str, ar.Adopted]) -> Target:
    """Where the arrays live; this machine's CPU without any."""
    if not adopted or ar.one_device(adopted, "auto") == "cpu":
        return host_cpu()
    with ar.caller_stream(adopted):
        return ar.cuda_target()


def asked_target(name: object) -> Target | None:
    """The target of that name; None for "numpy". Raises ArgumentError."""
    return None if isinstance(name, str) and name == "numpy" else target_named(name)
