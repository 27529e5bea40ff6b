"""fg.check: derive again from nothing, then try to break every merged operator on numbers.

The trials know nothing of sympy's proofs: they run the lowered operator itself, in fifty digits on
finite rows (trials.laws), in float64 on ±inf, NaN, zeros and empty pieces (trials.specials), and
exhaustively on short rows for orders (trials.orders); and in float32 on hard rows along every kind
of tree (trials.trees).
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.compile.lower.online import online_kernel
from fusegen.compile.passes import Work
from fusegen.compile.trials.laws import DIGITS, ROUGH, TOLERANCE, try_laws
from fusegen.compile.trials.orders import try_orders
from fusegen.compile.trials.short_lists import with_short_lists
from fusegen.compile.trials.specials import try_specials
from fusegen.compile.trials.trees import try_trees
from fusegen.ir.derivation import Commuted, Dependent, Derivation, Refusal, Refused
from fusegen.ir.dtypes import BOOL, FLOAT64, INT64
from fusegen.ir.errors import ArgumentError, LawViolation
from fusegen.ir.kernel import Kernel
from fusegen.ir.kinds import DTypes
from fusegen.ir.names import Taken
from fusegen.lang.blame import blames
from fusegen.lang.own import OwnMonoid
from fusegen.lang.signature import RESERVED, check_whole
from fusegen.pipeline.pipeline import Pipeline

_WIDE = {"float": FLOAT64, "int": INT64, "bool": BOOL}


@dataclass(frozen=True, slots=True)
class Report:
    """What `fg.check` established."""

    pipeline: str
    derivation: Derivation
    laws: tuple[tuple[str, int], ...]  # law → how often it was tried
    tolerance: float  # relative, of the laws
    rows: int
    merges: int
    special_rows: int
    special_merges: int
    order_merges: int  # exhaustive, of top-K lists and leaders
    float_rows: int  # of merged sums, in float32

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return self.derivation.refusals

    def __str__(self) -> str:
        proved = [o for o in self.derivation.obligations if o.status == "proved"]
        n = len(self.derivation.obligations)
        lines = [f"{self.pipeline}: {len(proved)} of {n} obligations "
                 f"proved in {self.derivation.seconds * 1e3:.0f} ms"]
        merged = (e for e in self.derivation if isinstance(e, Dependent | Commuted))
        lines += [f"  proved     {e.name}: {', '.join(o.name for o in e.obligations)}"
                  for e in merged]
        for refusal in self.refusals:
            first, *rest = str(refusal).splitlines()
            lines += [f"  own sweep  {first}", *(f"  {'':9}{line}" for line in rest)]
        laws = ", ".join(f"{law} {count}" for law, count in self.laws)
        lines += [
            f"  laws       held to {self.tolerance:g} in {DIGITS} digits: {laws}",
            f"             on {self.rows} rows in {self.merges} merges",
            f"  specials   {self.special_rows} rows, {self.special_merges} random merges in "
            "float64: all equal to the text",
        ]
        if self.float_rows:
            lines.append(f"  floats     {self.float_rows} hard rows along every kind of tree: no "
                         "farther from the text than rounding")
        if self.order_merges:
            lines.append(f"  orders     {self.order_merges} merges, every row of up to 5 values: "
                         "all as of the union")
        return "\n".join(lines)


@blames
def check(
    pipeline: Pipeline | OwnMonoid, *, dtype: DTypes | None = None, seed: int = 0, **constants: Any
) -> Report:
    """Prove again, and try to break, a pipeline's merged operators.

    A monoid made by `fg.monoid` is checked as the pipeline that reduces its elements with it; also
    raises UnprovedLaw where a law of it is neither proved nor refuted, and not assumed.
    dtype: one for all inputs, or by input name, as for `p.source`; left out, floats are float64 and
    a monoid's elements what its lift makes of them. Optional inputs are included. The same seed
    tries the same rows. Takes well under a second for a library pipeline. Raises LawViolation: the
    law that fails, with states, row and pieces.
    """
    if isinstance(pipeline, OwnMonoid):
        monoid, pipeline = pipeline, reducing(pipeline)
        if dtype is None:
            lifted = zip(pipeline.signature.arrays, monoid.operator.elements, strict=False)
            dtype = {name: _WIDE[element.kind] for name, element in lifted}
    if not isinstance(pipeline, Pipeline):
        raise ArgumentError(f"check takes a pipeline or a monoid, got {type(pipeline).__name__}",
                            fix="Decorate the function with @fg.pipeline.")
    start = check_whole("seed", seed, 0) or 0
    from fusegen.rewrite.repair.search import with_repairs
    from fusegen.rewrite.rounds import derived

    inputs = tuple(pipeline.signature.optional)
    work = pipeline.work(form="online", dtype=dtype or "float64", inputs=inputs, **constants)
    own_sweep = {e.name for e in work.derivation if isinstance(e, Refused)}
    text, types = work.typed.scalars.graph, work.typed.types
    derivation = with_repairs(text, derived(text), types, but=own_sweep)
    failed = [o for o in derivation.obligations if o.status == "not proved"]
    if failed:
        raise LawViolation(f"{pipeline.name}: {failed[0].name} is not proved",
                           where=work.graph.loc, why=failed[0].statement)
    return attempt(work, derivation, lowered(work, derivation), start)


def reducing(monoid: OwnMonoid) -> Pipeline:
    """The pipeline that reduces its inputs, the monoid's elements, with it.

    They are called as lift calls them, but for names that calls of a pipeline keep to themselves.
    """

    def reduced(*elements: Any) -> Any:
        return monoid.over(elements, monoid.loc)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    taken = Taken({*RESERVED, *monoid.elements})
    names = [taken.free(n) if n in RESERVED else n for n in monoid.elements]
    parameters = [inspect.Parameter(n, kind) for n in names]
    reduced.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    reduced.__name__ = monoid.name
    reduced.__wrapped__ = monoid.merge  # type: ignore[attr-defined]  # whose text explains it
    return Pipeline(reduced)


def lowered(work: Work, derivation: Derivation) -> Kernel:
    """The kernel that is tried, of a derivation, whatever the work knows already."""
    return online_kernel(with_short_lists(work.typed.scalars.graph), derivation, work.typed.types)


def attempt(work: Work, derivation: Derivation, kernel: Kernel, seed: int) -> Report:
    """Try to break a kernel. Raises LawViolation."""
    rng, types = np.random.default_rng(seed), work.typed.types
    text = with_short_lists(work.typed.scalars.graph)
    counts = try_laws(text, kernel, derivation, types, rng)
    special_rows, special_merges = try_specials(text, kernel, derivation, types, rng)
    return Report(
        pipeline=work.graph.name, derivation=derivation, laws=tuple(counts.tried.items()),
        tolerance=ROUGH if counts.rough else TOLERANCE, rows=counts.rows, merges=counts.merges,
        special_rows=special_rows, special_merges=special_merges, order_merges=try_orders(kernel),
        float_rows=try_trees(text, derivation, types),
    )
