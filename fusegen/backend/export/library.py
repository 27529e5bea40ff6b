"""The files of an exported library, as texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fusegen.backend.emit.render import render
from fusegen.backend.export.arguments import axes_of, given_strides, told
from fusegen.backend.export.constants import Constant, check_of, scalars_of
from fusegen.backend.export.opened import called
from fusegen.backend.export.spelled import argument, c_string, declared, type_text
from fusegen.backend.exported import Part, Place, Unit
from fusegen.backend.own_files import template_root
from fusegen.ir import graph as g
from fusegen.ir.kernel import Param
from fusegen.ir.varying import Guard
from fusegen.ir.version import __version__

MOST_GIVEN = 64
"""Arrays that a function takes, and scalars: text.hpp's kMost."""

_LONGEST = 2**62


@dataclass(frozen=True, slots=True)
class Rule:
    """What a text asks of the number of columns, and how to say it."""

    why: str
    least: int = 1
    most: int = _LONGEST
    multiple: int = 1


@dataclass(frozen=True, slots=True)
class Variant:
    """The text with types: its arrays as kernels have them, what it asks of constants, and code by
    place."""

    label: str
    graph: g.Graph
    params: tuple[Param, ...]
    guards: tuple[Guard, ...]
    parts: tuple[tuple[Place, tuple[Part, ...]], ...]


@dataclass(frozen=True, slots=True)
class Library:
    """A pipeline's."""

    name: str  # plain: begins the names of functions and files
    about: tuple[str, ...]
    numbered: bool  # does the text ask for the rows' numbers?
    constants: tuple[Constant, ...]  # that come with calls
    side_by_side: bool  # have rows that lie so functions of their own?
    rules: tuple[Rule, ...]
    variants: tuple[Variant, ...]
    record: Mapping[str, Any]  # what `fusegen.load` needs beside the parts

    @property
    def package(self) -> str:
        """Of CMake and pkg-config, and the library's file."""
        return f"fusegen_{self.name}"

    @property
    def params(self) -> tuple[Param, ...]:
        return self.variants[0].params

    @property
    def parts(self) -> list[Part]:
        return [p for v in self.variants for _, parts in v.parts for p in parts]

    @property
    def units(self) -> list[Unit]:
        """As they are linked: of what several define, templates of the C++ library among it, the
        linker takes the first, which must run wherever one of the others does."""
        return sorted((u for p in self.parts for u in p.units), key=lambda u: u.level)

    @property
    def places(self) -> list[Place]:
        """Each once."""
        return list({p.name: p for v in self.variants for p, _ in v.parts}.values())

    @property
    def symbols(self) -> list[str]:
        """What others may see, as the linker's patterns."""
        own = [f.name for f in self.functions()]
        return [*own, f"{self.name}_error", f"{self.name}_manifest",
                f"__tvm_ffi_{self.name}",
                *(s for part in self.parts for s in part.symbols)]

    def functions(self, place: Place | None = None) -> Iterator[Function]:
        for variant in self.variants:
            for one, _ in variant.parts:
                if place is None or place.name == one.name:
                    yield Function.of(self, variant, one)
                    if self.side_by_side and one.side_by_side is not None:
                        yield Function.side_by_side(self, variant, one, one.side_by_side)


@dataclass(frozen=True, slots=True)
class Function:
    """Of the C ABI: one variant at one place."""

    name: str
    arguments: tuple[str, ...]
    given: tuple[str, ...]  # structs Given
    constants: tuple[str, ...]
    sizes: tuple[str, ...]  # of a struct Sizes; none where `call` names them
    call: str

    @classmethod
    def of(cls, library: Library, variant: Variant, place: Place) -> Function:
        """Of rows whose columns are neighbours."""
        sizes = ("n_rows", "n_cols", *(("last_rows",) if library.numbered else ()))
        made = cls._made(library, variant, place, ("stride",), sizes, place.call)
        return replace(made, sizes=sizes if library.numbered else (*sizes, "0"))

    @classmethod
    def side_by_side(
        cls, library: Library, variant: Variant, place: Place, call: Callable[[str], str]
    ) -> Function:
        """Of rows that are neighbours themselves."""
        return cls._made(library, variant, place, ("outer_stride", "stride"),
                         ("n_outer", "n_cols", "n_inner"), call, "_side_by_side")

    @classmethod
    def _made(
        cls, library: Library, variant: Variant, place: Place, strides: tuple[str, ...],
        sizes: tuple[str, ...], call: Callable[[str], str], ending: str = "",
    ) -> Function:
        arguments: list[str] = []
        for p in variant.params:
            arguments.append(declared(p))
            arguments += [f"int64_t {p.name}_{axis}" for axis in axes_of(p, strides)]
        numbers = tuple(c.argument for c in library.constants)
        arguments += [*(f"double {n}" for n in numbers), *(f"int64_t {n}" for n in sizes)]
        return cls(f"{library.name}_{variant.label}_{place.name}{ending}",
                   (*arguments, place.argument),
                   tuple(f"{{{argument(p.name)}, {given_strides(p, strides)}}}"
                         for p in variant.params),
                   numbers, (), call(f"{variant.label}_{place.name}"))


def texts(library: Library) -> Iterator[tuple[str, str]]:
    """(path in the folder, text) of every file but the library itself."""
    common = {"name": library.name, "package": library.package, "version": __version__}
    values = {**common, **_printed(library)}
    yield f"src/{library.package}.cpp", render("export/library.cpp.j2", values)
    yield f"src/{library.package}.map", render("export/symbols.map.j2", values)
    yield f"include/fusegen/{library.name}.h", render("export/header.h.j2", values)
    cmake = f"lib/cmake/{library.package}/{library.package}-config"
    yield f"{cmake}.cmake", render("export/config.cmake.j2", values)
    yield f"{cmake}-version.cmake", render("export/version.cmake.j2", values)
    yield f"lib/pkgconfig/{library.package}.pc", render("export/package.pc.j2", values)
    for unit in library.units:
        yield f"src/{unit.name}", unit.text
    for part in library.parts:
        for image in part.images:
            yield f"src/{image.name}.cu", image.source


def headers() -> Iterator[tuple[str, str]]:
    """(path in the folder, text) of the fixed headers that its sources include."""
    root = template_root()
    calls = [root / "cpu" / "calls" / name for name in ("pages.hpp", "plan.hpp", "pool.hpp")]
    for path in sorted([*(root / "export").glob("*.hpp"), *calls]):
        yield f"src/{path.name}", path.read_text(encoding="utf-8")


def _printed(library: Library) -> dict[str, Any]:
    tables = [
        {"label": v.label, "parameters": v.params, "types": [type_text(p.dtype) for p in v.params],
         "checks": [check_of(guard, library.constants) for guard in v.guards],
         "scalars": list(scalars_of(v.graph, library.constants)),
         "tables": [place.table(f"{v.label}_{place.name}", tuple(p.entry for p in parts))
                    for place, parts in v.parts]}
        for v in library.variants
    ]
    record = {"fusegen": __version__, "called": called(), **library.record,
              "parts": [{"variant": v.label, "backend": place.name, **part.record}
                        for v in library.variants for place, parts in v.parts for part in parts]}
    return {
        "about": [*library.about, "", *told({v.label: v.params for v in library.variants},
                                             side_by_side=library.side_by_side,
                                             numbered=library.numbered), *_numbers(library)],
        "constants": ["".join(c_string(c.name, 1000)) for c in library.constants],
        "guard": f"FUSEGEN_{library.name.upper()}_H", "macro": library.name.upper(),
        "includes": [*(p.header for p in library.places), "tvm_ffi.hpp"], "parts": library.parts,
        "n_parameters": len(library.params), "numbered": library.numbered, "variants": tables,
        "symbols": library.symbols,
        "rules": [{"least": r.least, "most": f"INT64_C({r.most})", "multiple": r.multiple,
                   "why": "".join(c_string(r.why, 1000))} for r in library.rules],
        "functions": list(library.functions()),
        "codes": [{"device": place.device, "variant": f"{v.label}_variant",
                   "call": place.tensors(f"{v.label}_{place.name}")}
                  for v in library.variants for place, _ in v.parts],
        "places": [{"about": p.about, "functions": list(library.functions(p))}
                   for p in library.places],
        "manifest": list(c_string(json.dumps(record, separators=(",", ":")))),
    }


def _numbers(library: Library) -> Iterator[str]:
    """What it says of constants."""
    for c in library.constants:
        asked = dict.fromkeys(guard.said for v in library.variants for guard in v.guards
                              if c.name in guard.names)
        yield f"  {c.argument}: a number; {', '.join([*asked, f'{c.usual!r} at the export'])}"
