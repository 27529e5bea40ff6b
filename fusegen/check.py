"""fg.check: derive again from nothing, then try to break every merged operator on numbers.

The proofs speak of finite reals. Here rows are cut into random pieces, folded and merged in random
order and shape in float64, empty pieces, single elements, −inf and zeros among them, and compared
with the text as written.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen import graph as g
from fusegen.compiler import Work
from fusegen.derivation import Derivation, Refusal
from fusegen.dtypes import BOOL, FLOAT64, INT64, DType
from fusegen.errors import ArgumentError, LawViolation
from fusegen.kernel import Kernel
from fusegen.kinds import DTypes
from fusegen.own import OwnMonoid
from fusegen.pipeline import Pipeline
from fusegen.replay import Folder, RowReplay, State
from fusegen.runtime.numpy_path import oracle

TOLERANCE = 1e-9  # relative, float64; pieces of a row lose a few digits to polynomial moves
_LENGTHS = (1, 2, 3, 7, 24)
_TRIALS = 12  # splits and merge orders per row


@dataclass(frozen=True, slots=True)
class Report:
    """What `fg.check` established."""

    pipeline: str
    derivation: Derivation
    rows: int
    merges: int

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return self.derivation.refusals

    def __str__(self) -> str:
        proved = [o for o in self.derivation.obligations if o.status == "proved"]
        n = len(self.derivation.obligations)
        lines = [f"{self.pipeline}: {len(proved)} of {n} obligations "
                 f"proved in {self.derivation.seconds * 1e3:.0f} ms"]  # fmt: skip
        lines += [f"  {o.status:<10} {o.name}: {o.statement}" for o in self.derivation.obligations]
        for refusal in self.refusals:
            first, *rest = str(refusal).splitlines()
            lines += [f"  own sweep  {first}", *(f"  {'':9}{line}" for line in rest)]
        lines.append(f"  replayed   {self.rows} rows, {self.merges} random merges: "
                     "all equal to the text")  # fmt: skip
        return "\n".join(lines)


def check(pipeline: Pipeline | OwnMonoid, *, seed: int = 0, **constants: Any) -> Report:
    """Prove and replay a pipeline's merged operators. Raises LawViolation with a counterexample.

    A monoid made by `fg.monoid` is checked as the pipeline that reduces its elements with it; also
    raises UnprovedLaw where a law of it is neither proved nor refuted, and not assumed.
    Optional inputs are included. Takes well under a second for a library pipeline.
    """
    dtype: DTypes = "float64"
    if isinstance(pipeline, OwnMonoid):
        kinds = {v.name: v.kind for v in pipeline.operator.elements if v.varying}
        dtype = {n: {"float": FLOAT64, "int": INT64, "bool": BOOL}[k] for n, k in kinds.items()}
        pipeline = reducing(pipeline)
    if not isinstance(pipeline, Pipeline):
        raise ArgumentError(f"check takes a pipeline or a monoid, got {type(pipeline).__name__}",
                            fix="Decorate the function with @fg.pipeline.")  # fmt: skip
    from fusegen.algebra.derive import derive

    inputs = tuple(pipeline.signature.optional)
    work = pipeline.work(form="online", dtype=dtype, inputs=inputs, **constants)
    derivation = derive(work.graph)
    failed = [o for o in derivation.obligations if o.status == "not proved"]
    if failed:
        raise LawViolation(f"{pipeline.name}: {failed[0].name} is not proved",
                           where=work.graph.loc, why=failed[0].statement)  # fmt: skip
    fresh = Work(work.traced, work.dtypes, "online", work.target, work.problem)
    fresh.known["derive"] = derivation
    return replay(fresh, derivation, np.random.default_rng(seed))


def reducing(monoid: OwnMonoid) -> Pipeline:
    """The pipeline that reduces its inputs, the monoid's elements, with it."""

    def reduced(*elements: Any) -> Any:
        return monoid.over(elements, monoid.loc)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(n, kind) for n in monoid.elements]
    reduced.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    reduced.__name__ = monoid.name
    reduced.__wrapped__ = monoid.merge  # type: ignore[attr-defined]  # whose text explains it
    return Pipeline(reduced)


def replay(work: Work, derivation: Derivation, rng: np.random.Generator) -> Report:
    """Compare random splits of random rows with the reference."""
    from fusegen.lower.program import lower

    program = lower(work.graph, derivation, work.fusion, work.dtypes, "rows")
    (kernel,) = program.kernels
    smallest = max([n.k for n in work.graph.nodes if isinstance(n, g.TopK)], default=1)
    rows = merges = 0
    for n_cols in (n for n in (*_LENGTHS, smallest, smallest + 5) if n >= smallest):
        for special in (None, 0.0, -np.inf):
            inputs = _random_row(work, n_cols, special, rng)
            wanted = _by_text(work, inputs, n_cols)
            splitter = _Splitter(rng)
            for _ in range(_TRIALS):
                found = RowReplay(kernel, _named(work, inputs), n_cols).run(splitter)
                _compare(work, kernel, found, wanted, inputs, splitter.pieces)
            rows += 1
            merges += splitter.merges
    return Report(work.graph.name, derivation, rows, merges)


class _Splitter:
    """Makes a sweep's state from random pieces, merged along a random tree."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.merges = 0
        self.pieces: list[list[int]] = []

    def __call__(self, folder: Folder, n_cols: int) -> State:
        rng = self.rng
        ordered = folder.monoid.ordered
        mixed = not ordered and rng.random() < 0.3
        columns = rng.permutation(n_cols) if mixed else np.arange(n_cols)
        n_cuts = int(rng.integers(0, n_cols + 2))
        cuts = np.sort(rng.integers(0, n_cols + 1, n_cuts))  # equal cuts make empty pieces
        self.pieces = [p.tolist() for p in np.split(columns, cuts)]
        states = [folder.fold(p) for p in self.pieces]
        while len(states) > 1:
            i = int(rng.integers(len(states) - ordered))
            a = states.pop(i)
            j = i if ordered else int(rng.integers(len(states)))
            states[j] = folder.merge(a, states[j])
            self.merges += 1
        return states[0]


def _random_row(
    work: Work, n_cols: int, special: float | None, rng: np.random.Generator
) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for node in work.graph.inputs:
        size = 1 if node.axis is g.Axis.PER_ROW else n_cols
        values = _random_values(work.dtypes[node.name], size, n_cols, rng)
        if special is not None and node.axis is g.Axis.ELEMENT and values.dtype.kind == "f":
            values[rng.random(size) < 0.4] = special
        row[node.name] = values
    return row


def _random_values(dtype: DType, size: int, n_cols: int, rng: np.random.Generator) -> Any:
    if dtype.kind == "bool":
        return rng.random(size) < 0.5
    if dtype.kind == "int":
        return rng.integers(0, n_cols, size)
    return rng.normal(0, 3, size) if rng.random() < 0.7 else rng.uniform(0.1, 4, size)


def _named(work: Work, inputs: dict[str, Any]) -> dict[str, Any]:
    """Rows under the kernel's names; per-row inputs as one number."""
    return {
        work.graph.names[i]: inputs[i.name][0] if i.axis is g.Axis.PER_ROW else inputs[i.name]
        for i in work.graph.inputs
    }


def _by_text(work: Work, inputs: dict[str, Any], n_cols: int) -> dict[str, Any]:
    run = oracle(work.graph, {n: FLOAT64 if d.kind == "float" else INT64 if d.kind == "int" else d
                              for n, d in work.dtypes.items()})  # fmt: skip
    arrays = {
        work.graph.names[i]: inputs[i.name][None, :] if i.axis is g.Axis.ELEMENT else inputs[i.name]
        for i in work.graph.inputs
    }
    sizes = {"row": None, "element": n_cols}
    results = {}
    for p in run.outputs:
        cols = p.k if p.shape == "list" else sizes[p.shape]
        results[p.name] = np.empty((1,) if cols is None else (1, cols), p.dtype.numpy)
    run({**arrays, **results}, 1, n_cols, threads=1)
    return {n: r[0] for n, r in results.items()}


def _compare(
    work: Work, kernel: Kernel, found: dict[str, Any], wanted: dict[str, Any],
    inputs: dict[str, Any], pieces: list[list[int]],
) -> None:  # fmt: skip
    for name, want in wanted.items():
        got = np.asarray(found[name])
        if got.dtype.kind == "f" and want.dtype.kind == "f":
            scale = _scale(inputs, want)
            same = np.isclose(got, want, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True)
            # Where infinite data leads the text out of the reals (0 · inf), monoid.py's guard
            # policy decides, not the proof.
            same = same | (~np.isfinite(want) & _has_infinity(inputs))
        else:
            same = np.asarray(got.astype(want.dtype) == want)
        if not np.all(same):
            shown = ", ".join(f"{n} = {v.tolist()}" for n, v in inputs.items())
            raise LawViolation(
                f"{kernel.name}: {name} differs from the text", where=work.graph.loc,
                why=f"Row {shown}, merged from columns {pieces}: got {got.tolist()}, "
                f"the text gives {want.tolist()}.",
                fix="Please report this: a proof and its replay disagree.",
            )  # fmt: skip


def _has_infinity(inputs: dict[str, Any]) -> bool:
    return any(bool(np.any(np.isinf(v))) for v in inputs.values() if v.dtype.kind == "f")


def _scale(inputs: dict[str, Any], want: Any) -> float:
    """The size of the numbers that met in the result, for sums that cancel."""
    sizes = [_largest(np.asarray(v, float)) for v in inputs.values()]
    return max([1.0, _largest(np.atleast_1d(want)), *[s * s for s in sizes]])


def _largest(values: Any) -> float:
    """The greatest finite magnitude; 0 if there is none."""
    return float(np.max(np.abs(values[np.isfinite(values)]), initial=0.0))
