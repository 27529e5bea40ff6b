"""What tasks hold of a call: the text, types, constants, and where rows and columns are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fusegen.backend.arrays.rows import Rows
from fusegen.dask.shipped import arrived, shipped
from fusegen.ir.digest import meaning
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import ArgumentError, PipelineError
from fusegen.ir.forms import Role
from fusegen.ir.version import __version__
from fusegen.lang.signature import constants_key
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.states.roles import Roles
from fusegen.pipeline.variants import Choices, Variants

Spans = Literal["both", "kept", "rows", "columns"]
"""Axes that an input has of all axes of rows and columns. kept: of rows, and ones for columns."""


@dataclass(frozen=True)
class Input:
    """An array of the call."""

    name: str
    dtype: DType
    spans: Spans


@dataclass(frozen=True)
class Text:
    """A pipeline with the types of its inputs, in their order, and its constants; None stands for
    an optional input that is not there.

    meaning: of the graph, which says what workers must run. rows: of the whole arrays. pieces: what
    `states` is asked for, {} where bits may depend on chunks.
    """

    pipeline: Pipeline
    inputs: tuple[Input | None, ...]
    constants: dict[str, Any]
    meaning: str
    rows: Rows
    pieces: Mapping[str, Any]

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        """Equal texts have equal tasks: names in graphs are the same in every process."""
        return (__version__, self.pipeline.name, self.meaning, repr(self.inputs),
                repr(constants_key(self.constants)), repr(self.rows), repr(self.pieces))

    def __reduce__(self) -> tuple[Any, ...]:
        return _text, (shipped(self.pipeline), self.inputs, self.constants, self.meaning, self.rows,
                       self.pieces)

    @property
    def there(self) -> tuple[Input, ...]:
        return tuple(i for i in self.inputs if i is not None)

    @property
    def present(self) -> dict[str, DType]:
        return {i.name: i.dtype for i in self.there}

    @property
    def roles(self) -> Roles:
        """The programs of states. Raises PipelineError where the text has none."""
        return Roles(self.pipeline, self.present, self.constants)

    @property
    def has_states(self) -> bool:
        try:
            return bool(self.roles.layout)
        except PipelineError:
            return False

    def check_states(self) -> None:
        """Raises PipelineError where the text has no states, for rows that are cut."""
        try:
            _ = self.roles.layout
        except PipelineError as error:
            axes = ", ".join(f"{a}: -1" for a in self.rows.axes)
            raise PipelineError(
                error.what, where=error.where, why=error.why,
                fix=f"Chunks of whole rows need none: x.rechunk({{{axes}}}). {error.fix}") from None

    @property
    def of_rows(self) -> tuple[str, ...]:
        """Inputs of rows that results are made of beside states."""
        roles = self.roles
        variants = roles.map if roles.full_rows else roles.finish
        read = {p.name for p in variants.program.inputs}
        names = {n.name: variants.graph.names[n] for n in variants.graph.inputs}
        return tuple(i.name for i in self.there
                     if i.spans in ("rows", "kept") and names[i.name] in read)

    @property
    def numbered(self) -> bool:
        """Do states, or full rows made of them, depend on the columns' numbers or order?"""
        roles = self.roles
        return bool(self.pieces) or roles.numbered or (bool(roles.full_rows) and roles.map.numbered)

    def variants(self, role: Role) -> Variants:
        """What runs. Raises PipelineError where the text has no states, and ArgumentError where
        this process has another text of that name."""
        present = self.present
        traced = self.pipeline.traced(frozenset(present), self.constants)
        if meaning(traced.graph) != self.meaning:
            raise ArgumentError(
                f"{self.pipeline.name} is another text here than where the graph was made",
                why="The module that has it, or what the text uses, differs on this worker.",
                fix="Give all workers the same files, and start them again.")
        return self.pipeline.of_types(present, self.constants, Choices(role=role))


def text_of(
    pipeline: Pipeline, inputs: tuple[Input | None, ...], constants: dict[str, Any], rows: Rows,
    pieces: Mapping[str, Any],
) -> Text:
    """Of this process's pipeline."""
    present = frozenset(i.name for i in inputs if i is not None)
    graph = pipeline.traced(present, constants).graph
    return Text(pipeline, inputs, constants, meaning(graph), rows, pieces)


def _text(data: bytes, *rest: Any) -> Text:
    return Text(arrived(data), *rest)
