"""What one pipeline's text was traced to, for as long as all that it uses stays as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusegen.captured import Watch, changed, renewed
from fusegen.compiler import Traced, trace_pipeline
from fusegen.dispatch import Choices, Front
from fusegen.dtypes import DType
from fusegen.signature import constants_key
from fusegen.trace import Traceable, is_tracing
from fusegen.value import builder


class Traces:
    """Graphs by inputs and constants, and fronts by types, of one text.

    `watches` say where the values were found that the text uses besides its parameters. When one
    of them has changed, the text is traced again; what equal graphs compile to is kept.
    """

    def __init__(self, pipeline: Traceable) -> None:
        self.pipeline = pipeline
        self.watches: tuple[Watch, ...] = ()
        self._traced: dict[Any, Traced] = {}
        self._fronts: dict[Any, Front] = {}
        self._by_digest: dict[Any, Front] = {}

    def are_stale(self) -> bool:
        """Has a value changed? Then all that was traced is forgotten."""
        if not changed(self.watches):
            return False
        fresh = renewed(self.watches)
        if fresh is None:
            self._traced, self._fronts, self.watches = {}, {}, ()
        else:
            self.watches = fresh
        return fresh is None

    def traced(self, present: frozenset[str], constants: dict[str, Any]) -> Traced:
        """The graph for these inputs and constants. Raises TraceError."""
        self.are_stale()
        key = (present, constants_key(constants))
        found = self._traced.get(key)
        if found is None:
            found = self._traced[key] = trace_pipeline(self.pipeline, present, constants)
            known = {id(place): None for _, place, _ in ()}
            self.watches = tuple(dict.fromkeys((*self.watches, *found.graph.captured)))
        if is_tracing():  # what uses the graph uses what it was traced from
            builder().watches += found.graph.captured
        return found

    def front(
        self, dtypes: Mapping[str, DType], constants: dict[str, Any], choices: Choices
    ) -> Front:
        self.are_stale()
        types = tuple(dtypes.items())
        key = (types, constants_key(constants), choices)
        found = self._fronts.get(key)
        if found is None:
            traced = self.traced(frozenset(dtypes), constants)
            same = (traced.digest, types, choices)
            found = self._by_digest.get(same)
            if found is None:
                found = self._by_digest[same] = Front(traced, dtypes, choices)
            self._fronts[key] = found
        return found
