"""fg.stabilize: a pipeline whose text is the safe form of another's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any

from fusegen import graph as g
from fusegen.blame import blames
from fusegen.derivation import Obligation
from fusegen.errors import ArgumentError, TraceError, UnknownName
from fusegen.nesting import alike
from fusegen.pipeline import Pipeline
from fusegen.rewrite.build import name_of
from fusegen.signature import REQUIRED
from fusegen.stabilize.findings import Finding
from fusegen.stabilize.proofs import equality
from fusegen.stabilize.rules import Rewriter
from fusegen.trace import inline, trace
from fusegen.value import Value

if TYPE_CHECKING:
    from fusegen.report.explain import Explanation


@dataclass(frozen=True, slots=True)
class Rewriting:
    """What was found in one trace of a text, and what became of it."""

    findings: tuple[Finding, ...]
    mended: frozenset[Finding]
    left: frozenset[Finding]
    obligations: tuple[Obligation, ...]  # one per output that was rewritten


@blames
def stabilize(pipeline: Pipeline) -> Pipeline:
    """The pipeline in safe text: the same signature, no overflow or cancellation on the way.

    Exponential sums are taken relative to their greatest exponent (Milakov & Gimelshein 2018,
    algorithm 1 → 2, which fuses to 3), raw second moments about the mean (Chan, Golub & LeVeque
    1979), norms relative to the greatest magnitude (BLAS nrm2). Each output that changes is proved
    equal to the text in exact arithmetic by sympy; one that is not proved stays as written.

    On rows where the naive text overflows or cancels results differ: that is the point. Elsewhere
    they differ by rounding alone. Special values follow the safe text: docs/special_values.md.

    A text that needs nothing comes back as the same object. Works as a decorator above
    `@fg.pipeline`. Raises ArgumentError for anything but a pipeline.
    """
    if not isinstance(pipeline, Pipeline):
        raise ArgumentError(f"stabilize takes a pipeline, got {type(pipeline).__name__}",
                            fix="Write @fg.stabilize above @fg.pipeline.")  # fmt: skip
    return Stabilized(pipeline) if _may_change(pipeline) else pipeline


class Stabilized(Pipeline):
    """A pipeline made by `fg.stabilize`; `.original` is the one with the user's text."""

    def __init__(self, original: Pipeline) -> None:
        super().__init__(_safe_text(original.fn, [], True),
                         allow_cancellation=original.allow_cancellation)  # fmt: skip
        self.original = original

    def again(self, given: Any) -> Pipeline:
        return stabilize(self.original.again(MethodType(self.original.fn, given.__self__)))

    def recipe(self) -> tuple[Any, ...]:
        return stabilize, (self.original,)

    def rewriting(self, *, inputs: Collection[str] = (), **constants: Any) -> Rewriting:
        """What was rewritten, with its proofs; `inputs` names optional inputs to include."""
        absent = self.signature.optional - set(inputs)
        present = frozenset(n for n in self.signature.arrays if n not in absent)
        return traced_rewriting(
            self.original.fn, present, self.signature.bind_constants(constants)
        ).rewriting

    def explain(self, **more: Any) -> Explanation:
        """As Pipeline.explain, with what was rewritten and its proof."""
        from fusegen.report.explain import Explanation

        return Explanation(self.name, self.original.fn, self.work(**more), stabilized=True)


@dataclass(frozen=True, slots=True)
class Retraced:
    """The graph of a safe text, and how it came about."""

    graph: g.Graph
    rewriting: Rewriting


def traced_rewriting(
    fn: Callable[..., Any], present: frozenset[str], constants: dict[str, Any], *,
    allow_cancellation: bool = False, prove: bool = True,
) -> Retraced:  # fmt: skip
    """Trace the safe text of `fn`, proved or for a first look. Raises TraceError as `fn` does."""
    record: list[Rewriting] = []
    text = Pipeline(_safe_text(fn, record, prove), allow_cancellation=allow_cancellation)
    return Retraced(trace(text, present, constants), record[-1])


def _may_change(pipeline: Pipeline) -> bool:
    """Does a rule apply to the text, with and without its optional inputs?"""
    signature = pipeline.signature
    if any(v is REQUIRED for v in signature.constants.values()):
        return True  # known only when it is called
    for present in (set(signature.arrays), set(signature.arrays) - signature.optional):
        try:
            found = traced_rewriting(
                pipeline.fn, frozenset(present), dict(signature.constants), prove=False
            )
        except (NameError, UnknownName):
            return True  # it uses what the file defines further down, or a method's instance
        except TraceError:
            continue  # these inputs do not go together
        if found.rewriting.mended:
            return True
    return False


def _safe_text(
    original: Callable[..., Any], record: list[Rewriting], prove: bool
) -> Callable[..., Any]:
    """A function that traces `original` and returns its results rewritten."""

    @functools.wraps(original)
    def text(*arrays: Any, **constants: Any) -> Any:
        # No local variable here holds a Value: the tracer would take its name.
        return _rewritten(inline(original, arrays, constants), record, prove)

    return text


def _rewritten(result: Any, record: list[Rewriting], prove: bool) -> Any:
    """The results of a text in safe form, nested as they were."""
    outputs: list[g.Node] = []

    def collect(value: Value) -> None:
        outputs.append(value.node)

    _each(result, collect)
    rewriter = Rewriter()
    new, obligations = list(rewriter.run(outputs)), []
    for i, old in enumerate(outputs):
        if new[i] is old or not prove:
            continue
        proof = equality(name_of(old) or ("result" if len(outputs) == 1 else f"result {i + 1}"),
                         old, new[i])  # fmt: skip
        obligations.append(proof)
        if proof.status != "proved":
            new[i] = old
    used = set(g.topological(tuple(new)))
    mended = rewriter.mended(used) if new != outputs else frozenset()
    record.append(Rewriting(tuple(rewriter.findings.values()), mended, rewriter.left(used),
                            tuple(obligations)))  # fmt: skip
    fresh = iter(new)
    return _each(result, lambda _: Value(next(fresh)))


def _each(result: Any, change: Callable[[Value], Any]) -> Any:
    """The results with every value changed, in order."""
    if isinstance(result, Value):
        return change(result)
    if isinstance(result, tuple | list):
        return alike(result, [_each(item, change) for item in result])
    if isinstance(result, dict):
        return {key: _each(item, change) for key, item in result.items()}
    return result
