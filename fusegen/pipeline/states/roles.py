"""The programs that make, merge and finish states of inputs of some types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fusegen.backend.scalars import scalars_in
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType
from fusegen.ir.forms import Role
from fusegen.ir.shared import Recent, lazy
from fusegen.ir.state_layout import StateLayout
from fusegen.lang.signature import Signature, constants_key
from fusegen.lang.trace import is_tracing
from fusegen.pipeline.variants import Choices, Variants


class Pipeline(Protocol):
    """What states need of a fusegen.Pipeline."""

    @property
    def name(self) -> str: ...

    @property
    def signature(self) -> Signature: ...

    @property
    def vectors(self) -> frozenset[str]:
        """Inputs that hold vectors."""

    def of_types(
        self, dtypes: Mapping[str, DType], constants: dict[str, Any], choices: Choices
    ) -> Variants: ...

    def known_roles(self) -> Recent[Any, Any]:
        """Roles by types and constants, for as long as the text is what it was."""


@dataclass(frozen=True)
class Roles:
    """The programs that make, merge and finish states of inputs of these types, each of them looked
    up once. Raises PipelineError where the text has no states."""

    pipeline: Pipeline
    dtypes: Mapping[str, DType]
    constants: dict[str, Any]

    @lazy
    def fold(self) -> Variants:
        return self._of("fold")

    @lazy
    def steady_fold(self) -> Variants:
        """The fold whose bits depend on a piece, its types and the device alone."""
        return self.pipeline.of_types(self.dtypes, self.constants,
                                      Choices(role="fold", deterministic=True))

    @lazy
    def merge(self) -> Variants:
        return self._of("merge")

    @lazy
    def finish(self) -> Variants:
        return self._of("finish")

    @lazy
    def map(self) -> Variants:
        return self._of("map")

    @lazy
    def graph(self) -> g.Graph:
        return self.merge.graph

    @lazy
    def full_rows(self) -> tuple[str, ...]:
        """Results that have a value for every element."""
        graph = self.graph
        return tuple(name for node, name in zip(graph.outputs, graph.output_names, strict=True)
                     if g.extent(node) is g.Extent.ELEMENT)

    @lazy
    def layout(self) -> StateLayout:
        return self.merge.states

    @lazy
    def ordered(self) -> bool:
        """Must states merge in the order of their columns?"""
        return any(s.monoid.ordered for s in self.merge.program.sweeps)

    @lazy
    def numbered(self) -> bool:
        """Does a state depend on where in its row the piece was?"""
        return self.ordered or self.fold.numbered

    def scalars(self, variants: Variants) -> dict[str, Any]:
        """Numbers that a program takes beside arrays, by parameter name."""
        return scalars_in(variants.graph, variants.params, self.constants)

    def _of(self, role: Role) -> Variants:
        return self.pipeline.of_types(self.dtypes, self.constants, Choices(role=role))


def roles_for(
    pipeline: Pipeline, dtypes: Mapping[str, DType], constants: Mapping[str, Any]
) -> Roles:
    """Those that are known, or new ones. Raises PipelineError as they do."""
    if is_tracing():  # the text that is traced has to see what it uses
        return Roles(pipeline, dict(dtypes), dict(constants))
    key = (tuple(dtypes.items()), constants_key(constants))
    found: Roles = pipeline.known_roles().get_or_make(
        key, lambda: Roles(pipeline, dict(dtypes), dict(constants)))
    return found
