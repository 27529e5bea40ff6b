"""A pipeline as a shared library: which programs are in it, and what it says of itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from fusegen.backend.arrays.columns import MOST, rules
from fusegen.backend.export.build import write
from fusegen.backend.export.library import Library, Rule, Variant
from fusegen.backend.exported import Exporting, Wish
from fusegen.backend.registry import backend_of, target_named
from fusegen.compile.typed import Typed
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType, dtype_of
from fusegen.ir.errors import ArgumentError
from fusegen.ir.forms import check_form
from fusegen.ir.kinds import DTypes
from fusegen.ir.names import identifier
from fusegen.lang import signature as sg
from fusegen.pipeline.variants import Choices, Variants


class Exportable(Protocol):
    """See `Pipeline`."""

    name: str
    signature: sg.Signature

    def assumed(
        self, dtype: DTypes, inputs: Collection[str], constants: Mapping[str, Any]
    ) -> tuple[dict[str, DType], dict[str, Any]]: ...

    def of_types(
        self, dtypes: Mapping[str, DType], constants: dict[str, Any], choices: Choices
    ) -> Variants: ...


_OWN_WORDS = {"folder", "targets", "dtypes", "row_lengths"}


def export(
    pipeline: Exportable, folder: Path, *, targets: Collection[str], dtypes: Collection[str],
    row_lengths: Collection[int], form: str, inputs: Collection[str], constants: Mapping[str, Any],
) -> Path:
    """See `Pipeline.export`."""
    taken = sorted(_OWN_WORDS & set(pipeline.signature.constants))
    if taken:
        raise ArgumentError(f"export has a word of its own for {taken[0]}",
                            fix="Give the constant another name.")
    lengths = tuple(n for length in row_lengths
                    if (n := sg.check_count("row_lengths", length)) is not None)
    by_backend = list(_by_backend(sg.check_names("targets", targets)))
    choices = Choices(form=check_form(form), fixed=True)
    found: dict[str, tuple[Typed, Variant]] = {}
    for dtype in dict.fromkeys(dtype_of(d).name for d in sg.check_names("dtypes", dtypes)):
        wish = Wish(lengths=lengths, symbols=identifier(pipeline.name), variant=dtype)
        types, values = pipeline.assumed(dtype, inputs, constants)
        typed = pipeline.of_types(types, values, choices).typed
        found[dtype] = typed, _variant(typed, by_backend, wish)
    if not found:
        raise ArgumentError("nothing is to be exported", fix="Name a type: dtypes=('float32',).")
    typed, _ = next(iter(found.values()))
    return write(Library(
        name=identifier(pipeline.name), about=tuple(_about(pipeline, typed.graph)),
        variants=tuple(v for _, v in found.values()), rules=tuple(_rules(typed.graph)),
        record=_record(pipeline, {n: w for n, (w, _) in found.items()})), folder)


def _variant(
    typed: Typed, by_backend: list[tuple[Exporting, list[str]]], wish: Wish
) -> Variant:
    """All code of a text with types."""
    program, graph = typed.program(), typed.graph
    places = [graph.names[i] for i in graph.inputs]
    inputs = sorted(program.inputs, key=lambda p: places.index(p.name))
    params = (*inputs, *program.outputs)
    wish = replace(wish, order=tuple(p.name for p in params))
    parts = []
    for backend, names in by_backend:
        made = []
        for target in backend.exported_targets(tuple(names)):
            made.append(backend.part(typed, target, wish))
        parts.append((backend.place(), tuple(made)))
    return Variant(wish.variant, params, tuple(parts))


def _by_backend(targets: Collection[str]) -> Iterator[tuple[Exporting, list[str]]]:
    """Those that are asked for code, and for which of their targets."""
    found: dict[str, tuple[Exporting, list[str]]] = {}
    for name in dict.fromkeys(targets):
        backend = backend_of(target_named(name))
        if not isinstance(backend, Exporting):
            raise ArgumentError(f"target {name!r} has nothing that a library could hold",
                                why=f"It runs on {backend.title}, in Python.",
                                fix="Name a processor's level or a GPU.")
        found.setdefault(backend.name, (backend, []))[1].append(name)
    if not found:
        raise ArgumentError("nothing is to be exported", fix="Name a target: targets=('cpu',).")
    yield from found.values()


def _about(pipeline: Exportable, graph: g.Graph) -> Iterator[str]:
    summary = (pipeline.__doc__ or "").strip().splitlines()
    if summary:
        yield summary[0]
    for name, value in graph.constants:
        yield f"{name} = {value!r}"


def _rules(graph: g.Graph) -> Iterator[Rule]:
    for rule in dict.fromkeys((r.least, r.most, r.multiple) for r in rules(graph)):
        least, most, multiple = rule
        asked = [f"at least {least}"] if least > 1 else []
        asked += [f"at most {most}"] if most < MOST else []
        asked += [f"a multiple of {multiple}"] if multiple > 1 else []
        if asked:
            yield Rule(f"the text asks for {' and '.join(asked)}", least, most, multiple)


# ---- what `loaded` reads ----


def _record(pipeline: Exportable, texts: Mapping[str, Typed]) -> dict[str, Any]:
    """texts: by the label of their variant."""
    graph, signature = next(iter(texts.values())).graph, pipeline.signature
    return {
        "name": pipeline.name, "arrays": list(signature.arrays),
        "optional": [n for n in signature.arrays if n not in {i.name for i in graph.inputs}],
        "constants": {n: repr(v) for n, v in graph.constants},
        "inputs": [[i.name, graph.names[i], i.axis.value] for i in graph.inputs],
        "structure": _nesting(graph.structure),
        "rules": [{**asdict(r), "where": None} for r in rules(graph)],
        "variants": {label: {n: d.name for n, d in typed.dtypes.items()}
                     for label, typed in texts.items()},
    }


def _nesting(structure: g.Structure) -> Any:
    """As JSON; a named tuple is a tuple to who loads it."""
    match structure:
        case int():
            return structure
        case dict():
            if not all(type(k) is str for k in structure):
                raise ArgumentError("results in a dict whose keys are no strings",
                                    fix="Name the results by strings, or return a tuple.")
            return {"dict": [[k, _nesting(s)] for k, s in structure.items()]}
        case list():
            return {"list": [_nesting(s) for s in structure]}
        case _:
            return {"tuple": [_nesting(s) for s in structure]}
