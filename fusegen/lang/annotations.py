"""What a parameter's annotation says of an array (per column, per row, or of elements), and of a
constant (positive, or part of the kernel).

Annotations are the user's: classes, unions, or texts of them (`from __future__ import annotations`,
quotes). Texts are parsed and their names looked up where the function sees them; nothing is
evaluated or imported. What says nothing of rows and columns (another library's arrays, `Any`, a
word for the reader) is an element input. What means to say it and does not is refused.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from fusegen.ir import graph as g
from fusegen.ir.errors import TraceError
from fusegen.ir.nearest import closest, nearest
from fusegen.lang.written import parameter_loc, tree_of, written

Words = Mapping[str, Any]
_AXES: Words = {
    "PerColumn": g.Axis.PER_COLUMN, "PerRow": g.Axis.PER_ROW,
    "RowVector": g.Axis.ROW_VECTOR, "ColumnVector": g.Axis.COLUMN_VECTOR,
}
_CONSTANTS: Words = {"Positive": "positive", "Constant": "constant"}
_MISSING = object()

if TYPE_CHECKING:
    Constant = float
    Positive = float
else:

    class Constant:
        """Annotates a constant that is part of the kernel: another value is another kernel."""

    class Positive:
        """Annotates a constant that is a finite number greater than 0, for which merges are
        proved; calls with others are refused. Whole numbers are floats there."""


def axis_of(fn: Callable[..., Any], name: str, annotation: object) -> g.Axis:
    """Which input the parameter `name` of `fn` is. Raises TraceError where the annotation names
    what fusegen does not have, or something like PerRow that is not it, or both kinds."""
    found = set(_Reader(fn, name, _AXES).read(annotation))
    if len(found) > 1:
        said = " and ".join(sorted(axis.value for axis in found))
        raise TraceError(f"the annotation of {name} says {said}",
                         where=parameter_loc(fn, name), why="An input is one of them.",
                         fix="Give each kind a parameter of its own.")
    return found.pop() if found else g.Axis.ELEMENT


def constant_of(fn: Callable[..., Any], name: str, annotation: object) -> frozenset[str]:
    """What the constant `name` of `fn` is said to be: "positive", "constant". Raises as axis_of."""
    return frozenset(_Reader(fn, name, _CONSTANTS).read(annotation))


class _Reader:
    """Reads one annotation: what every one of fusegen's words in it means."""

    def __init__(self, fn: Callable[..., Any], parameter: str, words: Words) -> None:
        self.fn, self.parameter, self.words = fn, parameter, words
        self.others = "elements" if words is _AXES else "other constants"
        self.offered = " or ".join(f"fg.{word}" for word in reversed([*words]))
        self.seen: dict[object, object] = {}  # aliases may mean themselves

    def read(self, given: Any) -> Iterator[Any]:
        """An annotation as an object, or as the text of one."""
        key = given if isinstance(given, str) else id(given)
        if given is None or key in self.seen:
            return
        self.seen[key] = given
        match given:
            case str():
                yield from self._text(given)
            case typing.ForwardRef():
                yield from self._text(given.__forward_arg__)
            case type() if not typing.get_args(given):
                yield from (self.words[c.__name__] for c in given.__mro__
                            if c.__name__ in self.words)
            case typing.TypeVar():
                yield from self._each((given.__bound__, *given.__constraints__))
            case typing.NewType():
                yield from self.read(given.__supertype__)
            case _ if type(given).__name__ == "TypeAliasType":  # Python 3.12's `type A = …`
                yield from self.read(given.__value__)
            case _ if hasattr(given, "__metadata__"):
                yield from self.read(given.__origin__)
                yield from self._each(m for m in given.__metadata__ if not isinstance(m, str))
            case _ if typing.get_origin(given) in (typing.Union, types.UnionType):
                yield from self._each(typing.get_args(given))
            case _:
                inner = [a for a in typing.get_args(given) if not isinstance(a, str)]
                self._refuse_inner(self._each(inner))

    def _each(self, given: Any) -> Iterator[Any]:
        for one in given:
            yield from self.read(one)

    def _refuse_inner(self, axes: Iterator[Any]) -> None:
        """Of what a list, a tuple, … holds: an input is one array."""
        if any(True for _ in axes):
            first = self.offered.partition(" ")[0]
            self._refuse(f"holds {' or '.join(self.words)} inside of something else",
                         "An input is one array.",
                         f"Write {self.offered} alone, or {first} | None.")

    # ---- texts ----

    def _text(self, text: str) -> Iterator[Any]:
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError):  # words for the reader
            words = re.findall(r"\w+", text)
            for word in (*words, "".join(words)):
                yield from self._word(word, text)
            return
        yield from self._syntax(tree)

    def _syntax(self, node: ast.expr) -> Iterator[Any]:
        match node:
            case ast.Constant(value=str() as text):
                yield from self.read(text)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                yield from self._syntax(left)
                yield from self._syntax(right)
            case ast.Subscript(value=of, slice=inner):
                yield from self._generic(of, inner)
            case ast.Name() | ast.Attribute():
                found = self._found(node)
                if found is not _MISSING:
                    yield from self.read(found)
                else:
                    yield from self._unknown(node)
            case ast.Constant():
                return
            case _:  # a call, a condition: words for the reader
                parts = [n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute)]
                if any(True for part in parts for _ in self._syntax(part)):
                    self._refuse("is computed", "Annotations are read, not run.",
                                 f"Write {self.offered}.")

    def _generic(self, of: ast.expr, inner: ast.expr) -> Iterator[Any]:
        """Optional[…], Union[…] and Annotated[…] say what they hold; others hold no input."""
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        found = self._found(of)
        word = _last(of) if found is _MISSING else getattr(found, "__name__", str(found))
        match word.rpartition(".")[2]:
            case "Optional" | "Union":
                for part in parts:
                    yield from self._syntax(part)
            case "Annotated":
                yield from self._syntax(parts[0])
                for part in parts[1:]:
                    if isinstance(part, ast.Name | ast.Attribute):
                        yield from self._syntax(part)
            case _:
                yield from self._syntax(of)
                named = [p for p in parts if not isinstance(p, ast.Constant)]
                self._refuse_inner(axis for p in named for axis in self._syntax(p))

    def _found(self, node: ast.expr) -> Any:
        """What a dotted name stands for, as far as it can be looked up."""
        match node:
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(value=of, attr=name):
                owner = self._found(of)
                if owner is _MISSING:
                    return _MISSING
                if isinstance(owner, types.ModuleType) and _is_ours(owner.__name__):
                    return self._ours(owner, name)
                with suppress(Exception):  # modules that are loaded when they are asked
                    return getattr(owner, name)
                return _MISSING
            case _:
                return _MISSING

    def _ours(self, module: types.ModuleType, name: str) -> Any:
        if name not in vars(module):
            guess = self._alike(name) or nearest(name, self.words)
            self._refuse(f"names {name}, which fusegen does not have", "",
                         guess or f"Write {self.offered}; {self.others} need no annotation.")
        return vars(module)[name]

    def _name(self, name: str) -> Any:
        """In the function's type parameters, its closure, its module and Python's own; then as
        its file imports or assigns it elsewhere: for type checkers alone, or within a function."""
        own = written(self.fn)
        for parameter in getattr(own, "__type_params__", ()):
            if parameter.__name__ == name:
                return parameter
        for free, cell in zip(own.__code__.co_freevars, own.__closure__ or (), strict=True):
            if free == name:
                with suppress(ValueError):  # not bound yet
                    return cell.cell_contents
        for scope in (own.__globals__, vars(builtins)):
            if name in scope:
                return scope[name]
        for node in ast.walk(tree_of(self.fn)):
            found = self._bound(node, name)
            if found is not _MISSING:
                return found
        return sys.modules[name] if name == "fusegen" else _MISSING

    def _bound(self, node: ast.AST, name: str) -> Any:
        """What a statement binds the name to, if that is a module that is loaded, or in one."""
        match node:
            case ast.Import(names=names):
                for one in names:
                    root = one.name.partition(".")[0]
                    if (one.asname or root) == name:
                        return sys.modules.get(one.name if one.asname else root, _MISSING)
            case ast.ImportFrom(module=str() as module, names=names, level=0):
                for one in names:
                    if (one.asname or one.name) == name:
                        held = sys.modules.get(module)
                        if held is not None and _is_ours(module):
                            return self._ours(held, one.name)
                        return _MISSING if held is None else vars(held).get(one.name, _MISSING)
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                return _text_of(value)
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if (
                target == name
            ):
                return _text_of(value)
        return _MISSING

    def _unknown(self, node: ast.expr) -> Iterator[Any]:
        """A name that is nowhere: what its last word says, for that is all there is."""
        yield from self._word(_last(node), ast.unparse(node))

    def _word(self, word: str, text: str) -> Iterator[Any]:
        if word in self.words:
            yield self.words[word]
        elif fix := self._alike(word):
            self._refuse(f"is {text!r}, which is nowhere defined", "", fix)

    def _alike(self, word: str) -> str:
        """A sentence that offers fusegen's word for what is nearly that."""
        plain, known = word.lower().replace("_", ""), {name.lower(): name for name in self.words}
        found = closest(plain, known, cutoff=0.75)
        return f"Did you mean fg.{known[found]}?" if found and plain[0] == found[0] else ""

    def _refuse(self, what: str, why: str, fix: str) -> NoReturn:
        raise TraceError(f"the annotation of {self.parameter} {what}",
                         where=parameter_loc(self.fn, self.parameter),
                         why=why, fix=fix)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "fusegen"


def _text_of(value: ast.expr) -> Any:
    """What an alias stands for, unless that is a computation of something else."""
    dotted = isinstance(value, ast.Name | ast.Attribute | ast.BinOp | ast.Subscript | ast.Constant)
    return ast.unparse(value) if dotted else _MISSING


def _last(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
