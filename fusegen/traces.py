"""What one pipeline's text was traced to, for as long as all that it uses stays as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusegen.compiler import Traced, trace_pipeline
from fusegen.dispatch import Choices, Front
from fusegen.dtypes import DType
from fusegen.shared import Recent, steady
from fusegen.signature import constants_key
from fusegen.trace import Traceable, is_tracing
from fusegen.value import builder
from fusegen.watches import Watches

MOST = 256  # combinations of constants, inputs and types that a pipeline remembers


class Traces:
    """Graphs by inputs and constants, and fronts by types, of one text.

    `watches` say where the values were found that the text uses besides its parameters. When one
    of them has changed, the text is traced again; what equal graphs compile to is kept.
    """

    def __init__(self, pipeline: Traceable) -> None:
        self.pipeline = pipeline
        self.watches = Watches()
        self.graphs: Recent[Any, Traced] = Recent(MOST)
        self.fronts: Recent[Any, Front] = Recent(MOST)
        self.by_digest: Recent[Any, Front] = Recent(MOST)

    def are_stale(self) -> bool:
        """Has a value changed? Then all that was traced is forgotten."""
        if not self.watches.changed():
            return False
        fresh = self.watches.renewed()
        if fresh is None:
            self.graphs, self.fronts, self.watches = Recent(MOST), Recent(MOST), Watches()
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

    def front(
        self, dtypes: Mapping[str, DType], constants: dict[str, Any], choices: Choices
    ) -> Front:
        self.are_stale()
        types = tuple(dtypes.items())
        key = (types, constants_key(constants), choices)
        found = self.fronts.get(key)
        if found is None:
            with steady():
                traced = self.traced(frozenset(dtypes), constants)
                same = (traced.digest, types, choices)
                found = self.by_digest.get(same)
                if found is None:
                    found = self.by_digest.put(same, Front(traced, dtypes, choices))
                self.fronts.put(key, found)
        return found
