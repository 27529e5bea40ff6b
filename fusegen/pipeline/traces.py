"""What one pipeline's text was traced to, for as long as all that it uses stays as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusegen.compile.passes import Traced, Typed, trace_pipeline
from fusegen.ir.dtypes import DType
from fusegen.ir.shared import Recent, steady
from fusegen.ir.watches import Watches
from fusegen.lang.signature import constants_key
from fusegen.lang.trace import Traceable, is_tracing
from fusegen.lang.value import builder
from fusegen.pipeline.remembered import Recall
from fusegen.pipeline.variants import Choices, Variants

MOST = 256  # combinations of constants, inputs and types that a pipeline remembers


class Traces:
    """Graphs by inputs and constants, variants by types, and calls, of one text.

    `watches` say where the values were found that the text uses besides its parameters. When one
    of them has changed, the text is traced again; what equal graphs compile to is kept.
    """

    def __init__(self, pipeline: Traceable, arrays: tuple[str, ...]) -> None:
        self.pipeline, self._arrays = pipeline, arrays
        self.watches = Watches()
        self.graphs: Recent[Any, Traced] = Recent(MOST)
        self.variants: Recent[Any, Variants] = Recent(MOST)
        self.by_digest: Recent[Any, Variants] = Recent(MOST)
        self.recall = Recall(arrays)

    def are_stale(self) -> bool:
        """Has a value changed? Then all that was traced is forgotten."""
        if not self.watches.changed():
            return False
        fresh = self.watches.renewed()
        if fresh is None:
            self.graphs, self.variants, self.watches = Recent(MOST), Recent(MOST), Watches()
            self.recall = Recall(self._arrays)
        else:
            self.watches = fresh
        return fresh is None

    def traced(self, present: frozenset[str], constants: dict[str, Any]) -> Traced:
        """The graph for these inputs and constants. Raises TraceError."""
        self.are_stale()
        key = (present, constants_key(constants))
        found = self.graphs.get(key)
        if found is None:
            found = self.graphs.put(key, trace_pipeline(self.pipeline, present, constants))
            self.watches = self.watches + found.graph.captured
        if is_tracing():  # what uses the graph uses what it was traced from
            builder().watches += found.graph.captured
        return found

    def forget(self, present: frozenset[str], constants: tuple[Any, ...]) -> None:
        """One graph, by the key of its constants: it is made again when it is asked for."""
        self.graphs.pop((present, constants))

    def of_types(
        self, dtypes: Mapping[str, DType], constants: dict[str, Any], choices: Choices
    ) -> Variants:
        """What runs for arrays of these types. Raises what is wrong with the text."""
        self.are_stale()
        types = tuple(dtypes.items())
        key = (types, constants_key(constants), choices)
        found = self.variants.get(key)
        if found is None:
            with steady():
                traced = self.traced(frozenset(dtypes), constants)
                same = (traced.digest, types, choices)
                found = self.by_digest.get(same)
                if found is None:
                    typed = Typed(traced, dtypes, choices.form, choices.role)
                    found = self.by_digest.put(same, Variants(typed, choices))
                if len(self.variants) >= MOST:  # calls would keep what goes from the table
                    self.recall = Recall(self._arrays)
                self.variants.put(key, found)
        return found
