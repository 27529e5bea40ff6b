"""fg.stabilize: a pipeline whose text is the safe form of another's."""

from __future__ import annotations

from collections.abc import Collection
from types import MethodType
from typing import TYPE_CHECKING, Any

from fusegen.ir.errors import ArgumentError, TraceError, UnknownName
from fusegen.lang.blame import blames
from fusegen.lang.signature import REQUIRED
from fusegen.pipeline.pipeline import Pipeline
from fusegen.rewrite.stabilize.rewriting import Rewriting, safe_text, traced_rewriting

if TYPE_CHECKING:
    from fusegen.pipeline.explain import Explanation


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
                            fix="Write @fg.stabilize above @fg.pipeline.")
    return Stabilized(pipeline) if _may_change(pipeline) else pipeline


class Stabilized(Pipeline):
    """A pipeline made by `fg.stabilize`; `.original` is the one with the user's text."""

    def __init__(self, original: Pipeline) -> None:
        super().__init__(safe_text(original.fn, [], True),
                         allow_cancellation=original.allow_cancellation)
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
        from fusegen.pipeline.explain import Explanation

        work = self.work(**more)
        return Explanation(self.name, self.original.fn, work, self.traces.settled, stabilized=True)


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
