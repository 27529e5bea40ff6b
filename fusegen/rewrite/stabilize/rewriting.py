"""A text traced in safe form: what its results become, and how that is known."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fusegen.ir import graph as g
from fusegen.ir.derivation import Obligation
from fusegen.ir.nesting import alike
from fusegen.lang.trace import inline, trace
from fusegen.lang.value import Value
from fusegen.rewrite.build import name_of
from fusegen.rewrite.stabilize.findings import Finding
from fusegen.rewrite.stabilize.proofs import equality
from fusegen.rewrite.stabilize.rules import Rewriter


@dataclass(frozen=True, slots=True)
class Rewriting:
    """What was found in one trace of a text, and what became of it."""

    findings: tuple[Finding, ...]
    mended: frozenset[Finding]
    left: frozenset[Finding]
    obligations: tuple[Obligation, ...]  # one per output that was rewritten


class _Text:
    """A function as the tracer takes it."""

    like: tuple[str, ...] = ()

    def __init__(self, fn: Callable[..., Any], allow_cancellation: bool) -> None:
        self.name, self.fn, self.allow_cancellation = fn.__name__, fn, allow_cancellation


@dataclass(frozen=True, slots=True)
class Retraced:
    """The graph of a safe text, and how it came about."""

    graph: g.Graph
    rewriting: Rewriting


def traced_rewriting(
    fn: Callable[..., Any], present: frozenset[str], constants: dict[str, Any], *,
    allow_cancellation: bool = False, prove: bool = True,
) -> Retraced:
    """Trace the safe text of `fn`, proved or for a first look. Raises TraceError as `fn` does."""
    record: list[Rewriting] = []
    text = _Text(safe_text(fn, record, prove), allow_cancellation)
    return Retraced(trace(text, present, constants), record[-1])


def safe_text(
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
                         old, new[i])
        obligations.append(proof)
        if proof.status != "proved":
            new[i] = old
    used = set(g.topological(tuple(new)))
    mended = rewriter.mended(used) if new != outputs else frozenset()
    record.append(Rewriting(tuple(rewriter.findings.values()), mended, rewriter.left(used),
                            tuple(obligations)))
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
