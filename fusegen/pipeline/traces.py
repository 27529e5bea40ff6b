"""What one pipeline's text was traced to, for as long as all that it uses stays as it was."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from fusegen.compile.passes import trace_pipeline
from fusegen.compile.typed import Traced, Typed
from fusegen.ir.dtypes import DType
from fusegen.ir.literals import constant_key
from fusegen.ir.shared import Recent, steady
from fusegen.ir.varying import Guard, Number, magnitude_of, raw
from fusegen.ir.watches import Watches
from fusegen.lang.signature import constants_key
from fusegen.lang.trace import Traceable, apart, is_tracing, varying
from fusegen.lang.value import builder
from fusegen.pipeline.remembered import Recall
from fusegen.pipeline.variants import Choices, Variants

_MOST_KINDS = 1024  # of calls
_MOST_ANSWERS = 16  # sets of answers that a text may get about its constants
MOST = 256  # combinations of constants, inputs and types that a pipeline remembers


class Kinds:
    """What was found of calls, for all constants of which their text says the same: found again
    by a key that has `Traces.alike`, and by the answers to what the text asked."""

    def __init__(self) -> None:
        self._held: Recent[Any, tuple[tuple[tuple[Guard, ...], Any], ...]] = Recent(_MOST_KINDS)

    def find(self, key: Any, constants: Mapping[str, Any]) -> Any:
        """None for what is not known."""
        for guards, found in self._held.get(key) or ():
            if all(guard.holds(constants) for guard in guards):
                return found
        return None

    def put(self, key: Any, traced: Traced, found: Any) -> Any:
        """What was found of calls of this text."""
        guards = tuple(one for one in traced.graph.guards  # the key has the constants' magnitudes
                       if one.question != "magnitude" or not isinstance(one.args[0], str))
        known = (self._held.get(key) or ())[1 - _MOST_ANSWERS :]
        self._held.put(key, (*known, (guards, found)))
        return found


class Traces:
    """Graphs by inputs and constants, variants by types, and calls, of one text.

    `settled`: floats that graphs are made for the values of, with the reasons; graphs are made for
    all values of the others, as far as the text's own questions have the same answers.

    `watches` say where the values were found that the text uses besides its parameters. When one
    of them has changed, the text is traced again; what equal graphs compile to is kept.
    """

    def __init__(
        self, pipeline: Traceable, arrays: tuple[str, ...], fixed: Collection[str] = ()
    ) -> None:
        self.pipeline, self._arrays = pipeline, arrays
        self.watches = Watches()
        self.graphs: Recent[Any, Traced] = Recent(MOST)
        self.general: Recent[Any, tuple[Traced, ...]] = Recent(MOST)
        self._fixed = dict.fromkeys(fixed, "it is annotated fg.Constant")
        self.settled: Mapping[str, str] = self._fixed
        self.variants: Recent[Any, Variants] = Recent(MOST)
        self.alone: Recent[Any, bool] = Recent(MOST)  # of which every value has variants of its own
        self.recall = Recall(arrays)
        self.kinds = Kinds()
        self.roles: Recent[Any, Any] = Recent(MOST)  # programs of states by types and constants

    def are_stale(self) -> bool:
        """Has a value changed? Then all that was traced is forgotten."""
        if not self.watches.changed():
            return False
        fresh = self.watches.renewed()
        if fresh is None:
            self.graphs, self.general, self.watches = Recent(MOST), Recent(MOST), Watches()
            self.settled, self.recall = self._fixed, Recall(self._arrays)
            self.kinds, self.roles = Kinds(), Recent(MOST)
        else:
            self.watches = fresh
        return fresh is None

    def traced(self, present: frozenset[str], constants: dict[str, Any]) -> Traced:
        """The graph for these inputs and these very constants; for those of a text that is being
        traced, which vary there. Raises TraceError."""
        if any(type(v) is Number for v in constants.values()):
            return self._within(present, constants)
        self.are_stale()
        key = (present, constants_key(constants))
        found = self.graphs.get(key)
        if found is None:
            found = self.graphs.put(key, trace_pipeline(self.pipeline, present, constants))
            self.watches = self.watches + found.graph.captured
        if is_tracing():  # what uses the graph uses what it was traced from
            builder().watches += found.graph.captured
        return found

    def _within(self, present: frozenset[str], constants: dict[str, Any]) -> Traced:
        """For the text that is being traced, which is asked all that this one asks."""
        with apart():
            found = self.varied(present, {n: raw(v) for n, v in constants.items()})
        for name, value in constants.items():
            if type(value) is Number and name not in found.graph.varying:
                value.number(f"{self.pipeline.name} needs the number {name}")
        for guard in found.graph.guards:
            guard.ask(constants)
        builder().watches += found.graph.captured
        return found

    def forget(self, present: frozenset[str], constants: tuple[Any, ...]) -> None:
        """One graph, by the key of its constants: it is made again when it is asked for."""
        self.graphs.pop((present, constants))

    def varied(self, present: frozenset[str], constants: dict[str, Any]) -> Traced:
        """The graph for these inputs and all constants like these: floats that the text only
        computes with are its scalars. Raises TraceError."""
        self.are_stale()
        names = frozenset(n for n, v in constants.items()
                          if magnitude_of(v) and n not in self.settled)
        if not names:
            return self.traced(present, constants)
        rest = {n: v for n, v in constants.items() if n not in names}
        key = (present, names, constants_key(rest))
        known = self.general.get(key) or ()
        for found in known:
            if all(guard.holds(constants) for guard in found.graph.guards):
                return found
        if len(known) < _MOST_ANSWERS:
            made = self._varied(present, constants, names)
            if made is not None:
                self.general.put(key, (*known, made))
                self.watches = self.watches + made.graph.captured
                return made
        else:
            self.settle(dict.fromkeys(names, "the text asks too much of its number"))
        return self.varied(present, constants)  # with fewer names

    def _varied(
        self, present: frozenset[str], constants: dict[str, Any], names: frozenset[str]
    ) -> Traced | None:
        """None where some of the constants are settled instead."""
        given, book = varying(constants, names)
        made = None
        with suppress(Exception):
            made = trace_pipeline(self.pipeline, present, given)
        if made is None:
            self.traced(present, constants)  # raises what is wrong with the text
            self.settle(dict.fromkeys(names, "the text does not run without its number"))
            return None
        self.settle(book.settled)
        return None if book.settled else made

    def alike(self, constants: Mapping[str, Any]) -> tuple[Any, ...]:
        """The same for constants that differ in numbers alone for which the text may have one
        graph. Hashable where they are."""
        return tuple([(n, m) if n not in self.settled and (m := magnitude_of(v)) else
                      (n, constant_key(v)) for n, v in constants.items()])

    def settle(self, why: Mapping[str, str]) -> None:
        """Constants that are part of the kernel from now on, each with the reason."""
        self.settled = {**why, **self.settled}

    def of_types(
        self, dtypes: Mapping[str, DType], constants: dict[str, Any], choices: Choices
    ) -> Variants:
        """What runs for arrays of these types. Raises what is wrong with the text."""
        with steady():
            traced = self.varied(frozenset(dtypes), constants)
            key = (traced.digest, traced.graph.guards, tuple(dtypes.items()), choices)
            if self.alone.get(key):
                return self._alone(dtypes, constants, choices)
            found = self.variants.get(key)
            if found is None:
                typed = Typed(traced, dtypes, choices.form, choices.role)
                if traced.graph.scalars and self._merges_more(typed, constants):
                    self.alone.put(key, True)
                    return self._alone(dtypes, constants, choices)
                if len(self.variants) >= MOST:  # calls would keep what goes from the table
                    self.recall = Recall(self._arrays)
                found = self.variants.put(key, Variants(typed, choices))
        return found

    def _alone(
        self, dtypes: Mapping[str, DType], constants: dict[str, Any], choices: Choices
    ) -> Variants:
        """What runs for these very constants."""
        traced = self.traced(frozenset(dtypes), constants)
        key = (traced.digest, (), tuple(dtypes.items()), choices)
        return self.variants.get_or_make(
            key, lambda: Variants(Typed(traced, dtypes, choices.form, choices.role), choices))

    def _merges_more(self, typed: Typed, constants: dict[str, Any]) -> bool:
        """Is something merged for these very numbers that is not for all like them?"""
        if typed.form not in ("auto", "online") or not typed.derivation.refusals:
            return False
        fixed = self.traced(frozenset(typed.dtypes), constants)
        alone = Typed(fixed, typed.dtypes, typed.form, typed.role).derivation
        return len(alone.refusals) < len(typed.derivation.refusals)
