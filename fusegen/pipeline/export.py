"""A pipeline as a shared library: which programs are in it, and what it says of itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from fusegen.backend.arrays.columns import MOST, check_columns, rules
from fusegen.backend.export.build import write
from fusegen.backend.export.constants import Constant, guards_of
from fusegen.backend.export.library import MOST_GIVEN, Library, Rule, Variant
from fusegen.backend.export.spelled import argument
from fusegen.backend.exported import Exporting, Wish
from fusegen.backend.registry import backend_of, target_named
from fusegen.compile.typed import Typed
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType, dtype_of
from fusegen.ir.errors import ArgumentError
from fusegen.ir.forms import check_form
from fusegen.ir.kernel import Param, Program
from fusegen.ir.kinds import DTypes
from fusegen.ir.names import Taken, c_identifier, identifier
from fusegen.ir.vectors import row_numbers
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


_OWN_WORDS = {"folder", "targets", "dtypes", "row_lengths", "side_by_side"}


def export(
    pipeline: Exportable, folder: Path, *, targets: Collection[str],
    dtypes: Collection[str | Mapping[str, str]],
    row_lengths: Collection[int], form: str, inputs: Collection[str], side_by_side: bool,
    constants: Mapping[str, Any],
) -> Path:
    """See `Pipeline.export`."""
    taken = sorted(_OWN_WORDS & set(pipeline.signature.constants))
    if taken:
        raise ArgumentError(f"export has a word of its own for {taken[0]}",
                            fix="Give the constant another name.")
    lengths = tuple(n for length in row_lengths
                    if (n := sg.check_count("row_lengths", length)) is not None)
    _check_folder(folder)
    by_backend = list(_by_backend(sg.check_names("targets", targets)))
    choices = Choices(form=check_form(form))
    texts: dict[str, Typed] = {}
    for label, dtype in _labelled(dtypes, pipeline.signature.arrays):
        types, values = pipeline.assumed(dtype, inputs, constants)
        texts[label] = pipeline.of_types(types, values, choices).typed
        for n_cols in lengths:
            check_columns(texts[label].graph, n_cols)
    if sg.check_flag("side_by_side", side_by_side):
        _check_side_by_side(by_backend, texts)
    if not texts:
        raise ArgumentError("nothing is to be exported", fix="Name a type: dtypes=('float32',).")
    numbers = _constants(pipeline.signature.constants, texts.values())
    numbering = row_numbers(next(iter(texts.values())).graph)
    wish = Wish(lengths=lengths, side_by_side=bool(side_by_side), symbols=identifier(pipeline.name),
                constants=tuple(c.name for c in numbers), row_numbers=numbering)
    variants = tuple(_variant(typed, by_backend, replace(wish, variant=label), numbers)
                     for label, typed in texts.items())
    return write(Library(
        name=identifier(pipeline.name), about=tuple(_about(pipeline, variants, numbers)),
        numbered=numbering is not None, constants=numbers, side_by_side=bool(side_by_side),
        variants=variants,
        rules=tuple(_rules(variants[0].graph)),
        record=_record(pipeline, texts, variants, numbers)), folder)


def _labelled(
    dtypes: Collection[str | Mapping[str, str]], arrays: Sequence[str]
) -> Iterator[tuple[str, str | Mapping[str, str]]]:
    """(how the functions are called after them, types) of each, once: float32, float32_128 of
    vectors of 128 numbers; of types by input, all that are named, in the order of the inputs."""
    if isinstance(dtypes, str | Mapping):
        raise ArgumentError(f"dtypes is {dtypes!r}", fix=f"It holds several: dtypes=({dtypes!r},).")
    found: dict[str, str | Mapping[str, str]] = {}
    for dtype in dtypes:
        every = [dtype[n] for n in arrays if n in dtype] if isinstance(dtype, Mapping) else [dtype]
        label = "_".join(str(dtype_of(d)).rstrip("]").replace("[", "_") for d in every)
        if found.setdefault(label, dtype) != dtype:
            raise ArgumentError(f"functions of two of the types would be called {label}",
                                why=f"They are {found[label]!r} and {dtype!r}.",
                                fix="Export them into folders of their own.")
    yield from found.items()


def _check_side_by_side(
    by_backend: list[tuple[Exporting, list[str]]], texts: Mapping[str, Typed]
) -> None:
    """Does one of the backends have kernels for rows that lie so, and for these texts?"""
    able = [b for b, _ in by_backend if b.place().side_by_side is not None]
    if not able:
        raise ArgumentError("rows side by side have kernels on GPUs alone",
                            fix="Name a GPU's target, or give processors rows whose columns are "
                            "neighbours: transpose first, and leave side_by_side out.")
    for typed in texts.values():
        if not all(b.takes_side_by_side(typed.program()) for b in able):
            raise ArgumentError("this text has no kernels for rows side by side",
                                why="Lists, vectors, and merges that keep the order of the row, "
                                "need neighbouring columns.",
                                fix="Transpose first, and leave side_by_side out.")


def _check_folder(folder: Path) -> None:
    """Can it be made? Known before the work is done."""
    there = next((p for p in (folder, *folder.absolute().parents) if p.exists()), folder)
    if not there.is_dir():
        raise ArgumentError(f"{there} is a file", why="A library is a folder of files.",
                            fix="Name a folder that is new, or one for this library alone.")


def _constants(order: Iterable[str], texts: Collection[Typed]) -> tuple[Constant, ...]:
    """Those that come with a call: what varies in one of the texts."""
    usual = dict(next(iter(texts)).graph.constants)
    varying = frozenset().union(*(t.graph.varying for t in texts))
    taken = Taken(p.name for t in texts for p in _arrays(t.program(), None))
    return tuple(Constant(n, argument(taken.free(c_identifier(n))), usual[n])
                 for n in order if n in varying)


def _arrays(program: Program, row_numbers: str | None) -> list[Param]:
    """Those that come with a call."""
    return [p for p in (*program.inputs, *program.outputs)
            if p.shape != "scalar" and p.name != row_numbers]


def _variant(
    typed: Typed, by_backend: list[tuple[Exporting, list[str]]], wish: Wish,
    numbers: tuple[Constant, ...],
) -> Variant:
    """All code of a text with types."""
    program, graph = typed.program(), typed.graph
    places = [graph.names[i] for i in graph.inputs]
    params = tuple(sorted(_arrays(program, wish.row_numbers), key=lambda p: (
        len(places) if p.output else places.index(p.name))))
    scalars = tuple(graph.names[s] for s in graph.scalars)
    _check_number(len(params), "arrays")
    _check_number(len(scalars) + len(numbers), "constants, and numbers made of them")
    wish = replace(wish, order=tuple(p.name for p in params), scalars=scalars)
    parts = []
    for backend, names in by_backend:
        made = []
        for target in backend.exported_targets(tuple(names)):
            made.append(backend.part(typed, target, wish))
        parts.append((backend.place(), tuple(made)))
    guards = guards_of(graph, {c.name: c.usual for c in numbers})
    return Variant(wish.variant, graph, params, guards, tuple(parts))


def _check_number(found: int, what: str) -> None:
    if found > MOST_GIVEN:
        raise ArgumentError(f"the text has {found} {what}",
                            why=f"A function of a library takes {MOST_GIVEN}.",
                            fix="Export it in parts, or annotate constants fg.Constant.")


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


def _about(
    pipeline: Exportable, variants: tuple[Variant, ...], numbers: tuple[Constant, ...]
) -> Iterator[str]:
    """What it is, and the constants that are part of it."""
    summary = (pipeline.__doc__ or "").strip().splitlines()
    if summary:
        yield summary[0]
    given = {c.name for c in numbers}
    for name, value in variants[0].graph.constants:
        if name not in given:
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


def _record(
    pipeline: Exportable, texts: Mapping[str, Typed], variants: tuple[Variant, ...],
    numbers: tuple[Constant, ...],
) -> dict[str, Any]:
    """texts: by the label of their variant."""
    graph, signature = variants[0].graph, pipeline.signature
    given = {c.name: c.usual for c in numbers}
    return {
        "name": pipeline.name, "arrays": list(signature.arrays),
        "optional": [n for n in signature.arrays if n not in {i.name for i in graph.inputs}],
        "constants": {n: repr(v) for n, v in graph.constants if n not in given}, "numbers": given,
        "scalars": {v.label: [[s.name, v.graph.names[s], s.formula] for s in v.graph.scalars]
                    for v in variants},
        "guards": {v.label: [[one.question, one.args, one.answer] for one in v.guards]
                   for v in variants},
        "inputs": {v.label: [[i.name, v.graph.names[i], i.axis.value] for i in v.graph.inputs]
                   for v in variants},
        "structure": _nesting(graph.structure),
        "rules": [{**asdict(r), "where": None} for r in rules(graph)],
        # All that keeps the array of the rows' numbers from being called otherwise.
        "names": None if row_numbers(graph) is None else
        sorted({*graph.names.values(), *graph.output_names}),
        "variants": {label: {n: str(d) for n, d in typed.dtypes.items()}
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
