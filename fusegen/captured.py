"""What a text uses besides its parameters: globals, closures, attributes, defaults, containers.

Such values are read while the text is traced. Each is then watched: the place where it was found,
and the very object that stood there. A look at a place is one C call and one comparison, so every
call can afford it; where something else stands now, the text is traced again.

Found are the functions that ran during the trace, and from them whatever their code names: globals
and cells, then attributes of modules, classes and objects, then the items of short lists, sets,
tuples and dicts. What only a computation reaches (`getattr`, `__getattr__`, the numbers inside an
array, a file) is read once.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import is_
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

_MOST_ITEMS = 1000  # of a container that is watched; longer ones are read once
_KEPT = frozenset({"fusegen", "numpy", *sys.stdlib_module_names})  # what they hold is as it is
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Watches:
    """Places where values were found, and the values."""

    items: tuple[tuple[Mapping[str, Any], str, Any], ...] = ()  # held[name] is value
    others: tuple[tuple[Callable[[Any], Any], Any, Any], ...] = ()  # read(place) is value

    def __add__(self, more: Watches) -> Watches:
        known = {(id(held), name) for held, name, _ in self.items}
        fresh = (i for i in more.items if (id(i[0]), i[1]) not in known)
        return Watches((*self.items, *fresh), (*self.others, *more.others))

    def changed(self) -> bool:
        """Does anything else stand where a value was found? Asked at every call."""
        try:
            for held, name, value in self.items:
                if held[name] is not value:
                    return True
            for read, place, value in self.others:
                if read(place) is not value:
                    return True
        except (KeyError, AttributeError, ValueError):  # nothing stands there now
            return True
        return False

    def renewed(self) -> Watches | None:
        """The same watches, if equal numbers took the place of equal ones and that is all."""
        try:
            items = [(held, name, value, held[name]) for held, name, value in self.items]
            others = [(read, place, value, read(place)) for read, place, value in self.others]
        except (KeyError, AttributeError, ValueError):
            return None
        if not all(_same(*found[2:]) for found in (*items, *others)):
            return None
        return Watches(
            tuple((held, name, now) for held, name, _, now in items),
            tuple((read, place, now) for read, place, _, now in others),
        )


def _same(value: object, now: object) -> bool:
    plain = type(now) is type(value) and isinstance(now, _PLAIN)
    return now is value or (plain and repr(now) == repr(value))


def watches_of(functions: Iterable[object], ran: set[CodeType]) -> Watches:
    """Watches on all that these functions, and those that they call, use besides parameters.

    ran: the code that was executed while the text was traced.
    """
    search = _Search(ran)
    search.todo.extend(functions)
    return search.run()


@dataclass(frozen=True, slots=True)
class _Items:
    """What a container held."""

    keys: tuple[Any, ...]
    values: tuple[Any, ...]

    def stand_in(self, container: Any) -> bool:
        if len(container) != len(self.values):
            return False
        if isinstance(container, dict):
            return all(map(is_, container, self.keys)) and \
                all(map(is_, container.values(), self.values))  # fmt: skip
        if isinstance(container, set):
            return bool(container == set(self.values))
        return all(map(is_, container, self.values))


class _Search:
    def __init__(self, ran: set[CodeType]) -> None:
        self.ran = ran
        # Attributes of any object may be named by any of the code that ran.
        self.names = {n for code in ran if not _is_ours(code) for n in _names(code)} | {"__call__"}
        self.todo: list[object] = []
        self.seen: dict[int, object] = {}
        self.items: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]] = {}
        self.others: list[tuple[Callable[[Any], Any], Any, Any]] = []

    def run(self) -> Watches:
        while self.todo:
            value = self.todo.pop()
            if not isinstance(value, _PLAIN) and id(value) not in self.seen:
                self.seen[id(value)] = value
                self._visit(value)
        return Watches(tuple(self.items.values()), tuple(self.others))

    def _item(self, owner: object, held: Mapping[str, Any], name: str) -> None:
        self.todo.append(held[name])
        if not _is_fixed(held[name]):
            self.items.setdefault((id(owner), name), (held, name, held[name]))

    def _other(self, read: Callable[[Any], Any], place: object, value: object) -> None:
        self.todo.append(value)
        if not _is_fixed(value):
            self.others.append((read, place, value))

    def _visit(self, value: Any) -> None:
        match value:
            case FunctionType():
                if value.__code__ in self.ran and not _is_foreign(value.__module__):
                    self._function(value)
            case MethodType():
                self.todo += [value.__func__, value.__self__]
            case functools.partial():
                self.todo += [value.func, *value.args, *value.keywords.values()]
            case staticmethod() | classmethod():
                self.todo.append(value.__func__)
            case property() | functools.cached_property():
                self.todo.append(value.fget if isinstance(value, property) else value.func)
            case list() | tuple() | set() | frozenset() | dict():
                self._container(value)
            case ModuleType():
                ours = _root(value.__name__) == "fusegen"
                if ours or not _is_foreign(value.__name__):
                    held = vars(value)
                    kept = {n for n, v in held.items() if not _may_be_replaced(v)} if ours else ()
                    self._attributes(value, held, kept)
            case type():
                if not _is_foreign(value.__module__):
                    for one in value.__mro__[:-1]:
                        self._attributes(one, vars(one))
            case _:
                self._object(value)

    def _function(self, fn: FunctionType) -> None:
        for name in _names(fn.__code__):
            if name in fn.__globals__:
                self._item(fn.__globals__, fn.__globals__, name)
        for cell in fn.__closure__ or ():
            with suppress(ValueError):  # not bound yet
                if _is_ours(fn.__code__):  # it only calls what a user wrote
                    self.todo.append(cell.cell_contents)
                else:
                    self._other(_in_cell, cell, cell.cell_contents)
        self.todo += [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]

    def _container(self, value: Any) -> None:
        if len(value) > _MOST_ITEMS:
            return
        items = _Items(tuple(value), tuple(value.values() if isinstance(value, dict) else value))
        self.todo += items.values
        if not isinstance(value, tuple | frozenset):
            self.others.append((items.stand_in, value, True))

    def _attributes(
        self, owner: object, held: Mapping[str, Any], kept: Collection[str] = ()
    ) -> None:
        for name in (self.names & held.keys()).difference(kept):
            self._item(owner, held, name)

    def _object(self, value: Any) -> None:
        functions = getattr(type(value), "traced_functions", None)
        if functions is not None:  # a pipeline, a monoid
            self.todo += functions(value)
            return
        if _root(type(value).__module__) in ("fusegen", "numpy"):
            return
        held = getattr(value, "__dict__", None)
        for one in type(value).__mro__[:-1]:
            for name in self.names & vars(one).keys():
                member = vars(one)[name]
                if isinstance(member, MemberDescriptorType) and hasattr(value, name):
                    self._other(member.__get__, value, getattr(value, name))
                elif isinstance(held, dict) and name not in held and not callable(member):
                    self._other(held.get, name, None)  # it would stand before the class's
        if isinstance(held, dict):
            self._attributes(value, held)
            self.todo.append(held.get("__wrapped__"))
        self.todo.append(type(value))


def _in_cell(cell: CellType) -> Any:
    return cell.cell_contents


def _names(code: CodeType) -> Iterator[str]:
    """Names of globals and attributes in the code, and in functions that are defined inside."""
    yield from (n for n in code.co_names if not n.startswith("__"))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _root(module: str | None) -> str:
    return (module or "").partition(".")[0]


_HERE = __file__.rpartition("captured")[0]


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_HERE)


def _is_foreign(module: str | None) -> bool:
    """Does the module keep what it has? Pipelines of the library may be replaced."""
    return module != "fusegen.library" and _root(module) in _KEPT


def _may_be_replaced(value: object) -> bool:
    """What is fusegen's own: pipelines, in whatever module."""
    return isinstance(value, ModuleType) or hasattr(type(value), "traced_functions")


def _is_fixed(value: object) -> bool:
    """Is it a module or function that nobody puts another in place of?"""
    match value:
        case ModuleType():
            return _is_foreign(value.__name__)
        case FunctionType() | type():
            return _is_foreign(value.__module__)
        case _:
            return isinstance(value, BuiltinFunctionType)
