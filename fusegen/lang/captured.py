"""What a text uses besides its parameters: globals, closures, attributes, defaults, containers.

Found are the functions that ran during the trace, with their code and defaults, and from them
whatever their code names: globals, cells and imports, then attributes of modules, classes, objects
and functions, then the items of short lists, sets, tuples, dicts and deques. Where a name could
come to stand before the one that was found (in an object before its class, in globals before a
builtin) its absence is watched. What only a computation reaches is read once.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter, is_
from types import (
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

from fusegen.ir.watches import PLAIN, Watches
from fusegen.lang.mentions import attributes_of, globals_of, imports_of, texts_of
from fusegen.lang.owners import (
    held_by,
    is_fixed,
    is_foreign,
    is_ours,
    is_pythons,
    may_be_replaced,
    root,
)

_MOST_ITEMS = 1000  # of a container that is watched; longer ones are read once


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
        if isinstance(container, dict | MappingProxyType):
            return all(map(is_, container, self.keys)) and \
                all(map(is_, container.values(), self.values))
        if isinstance(container, set):
            return bool(container == set(self.values))
        return all(map(is_, container, self.values))


class _Search:
    def __init__(self, ran: set[CodeType]) -> None:
        self.ran = ran
        # Attributes of any object may be named by any of the code that ran.
        users = [code for code in ran if not is_ours(code)]
        self.names = {name for code in users for name in attributes_of(code)}
        askers = [code for code in users if not is_pythons(code)]
        self.asked = {name for code in askers for name in texts_of(code)}  # may be absent as well
        self.todo: list[object] = []
        self.seen: dict[int, object] = {}
        self.items: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]] = {}
        self.others: list[tuple[Callable[[Any], Any], Any, Any]] = []

    def run(self) -> Watches:
        while self.todo:
            value = self.todo.pop()
            if not isinstance(value, PLAIN) and id(value) not in self.seen:
                self.seen[id(value)] = value
                self._visit(value)
        return Watches(tuple(self.items.values()), tuple(self.others))

    def _item(self, owner: object, held: Mapping[str, Any], name: str) -> None:
        self.todo.append(held[name])
        if not is_fixed(held[name], name):
            self.items.setdefault((id(owner), name), (held, name, held[name]))

    def _other(self, read: Callable[[Any], Any], place: object, value: object) -> None:
        self.todo.append(value)
        self.others.append((read, place, value))

    def _no(self, held: dict[str, Any], name: str) -> None:
        self.others.append((held.__contains__, name, False))

    def _none_of(self, names: set[str], held: dict[str, Any]) -> None:
        for name in names - held.keys():
            self._no(held, name)

    def _given(self, cls: type) -> set[str]:
        """Names that no class has, so that `__getattr__` may have given what stands there."""
        if not any("__getattr__" in vars(one) for one in cls.__mro__):
            return set()
        return self.names.difference(*map(vars, cls.__mro__))

    def _visit(self, value: Any) -> None:
        match value:
            case FunctionType():
                if not is_foreign(value.__module__):
                    self._attributes(value, vars(value))
                    if value.__code__ in self.ran:
                        self._function(value)
            case MethodType():
                self.todo += [value.__func__, value.__self__]
            case functools.partial() | functools.partialmethod():
                self._attributes(value, vars(value))
                self.todo += [value.func, value.args, value.keywords]
            case staticmethod() | classmethod():
                self.todo.append(value.__func__)
            case property() | functools.cached_property():
                self.todo.append(value.fget if isinstance(value, property) else value.func)
            case list() | tuple() | set() | frozenset() | dict() | deque() | MappingProxyType():
                self._container(value)
                if not is_foreign(type(value).__module__):
                    self._object(value)
            case ModuleType():
                ours = root(value.__name__) == "fusegen"
                if ours or not is_foreign(value.__name__):
                    held = vars(value)
                    kept = {n for n, v in held.items() if not may_be_replaced(v)} if ours else ()
                    self._attributes(value, held, kept)
                    if not ours and "__getattr__" in held:
                        self._none_of(self.names, held)
            case type():
                if not is_foreign(value.__module__):
                    self._class(value)
            case _:
                self._object(value)

    def _function(self, fn: FunctionType) -> None:
        code, held = fn.__code__, fn.__globals__
        for name in globals_of(code):
            if name in held:
                self._item(held, held, name)
            elif not is_ours(code):
                self._no(held, name)  # a builtin
        for name in imports_of(code, held):
            if name in sys.modules:
                self._item(sys.modules, sys.modules, name)
        for cell in fn.__closure__ or ():
            with suppress(ValueError):  # not bound yet
                if is_ours(code):  # it only calls what a user wrote
                    self.todo.append(cell.cell_contents)
                else:
                    self._other(_in_cell, cell, cell.cell_contents)
        if is_ours(code):
            self.todo += [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
        else:
            self._other(_CODE, fn, code)
            for read in (_DEFAULTS, _KEYWORDS):
                if read(fn):  # a call that needed none needs none later
                    self.others.append((read, fn, read(fn)))
            self.todo.append(fn.__defaults__)
            keywords = fn.__kwdefaults__ or {}
            for name in keywords:
                self._item(keywords, keywords, name)

    def _class(self, cls: type) -> None:
        self.others.append((_MRO, cls, cls.__mro__))
        # What a class below could come to stand before.
        above = self.asked | self._given(cls) | self._given(type(cls))
        for one in reversed(cls.__mro__[:-1]):
            held = _dict_of(one)
            self._none_of(above, held)
            ran = {n for n, member in held.items() if _code(member) in self.ran}  # also operators
            named = (self.names & held.keys()) | ran
            above |= named
            for name in named:
                self._item(one, held, name)
        self.todo.append(type(cls))

    def _container(self, value: Any) -> None:
        if len(value) > _MOST_ITEMS:
            return
        items = _Items(tuple(value), tuple(value.values() if isinstance(value, dict) else value))
        self.todo += items.values
        if not isinstance(value, tuple | frozenset):
            self.others.append((items.stand_in, value, True))

    def _attributes(
        self, owner: object, held: dict[str, Any], kept: Collection[str] = ()
    ) -> None:
        for name in (self.names & held.keys()).difference(kept):
            self._item(owner, held, name)
        if not kept:
            self._none_of(self.asked, held)

    def _object(self, value: Any) -> None:
        functions = held_by(type(value), "traced_functions")
        if functions is not None:  # a pipeline, a monoid
            self.todo += functions(value)
            return
        if root(type(value).__module__) in ("fusegen", "numpy"):
            return
        held = getattr(value, "__dict__", None)
        cls = type(value)
        for one in cls.__mro__[:-1]:
            for name in self.names & vars(one).keys():
                member = vars(one)[name]
                if isinstance(member, MemberDescriptorType) and hasattr(value, name):
                    self._other(member.__get__, value, getattr(value, name))
                elif isinstance(held, dict) and name not in held and not _sets(member):
                    self._no(held, name)  # it would stand before the class's
        if isinstance(held, dict):
            self._attributes(value, held)
            self._none_of(self._given(cls), held)
            self.others.append((_DICT, value, held))
            self.todo.append(held.get("__wrapped__"))
            if root(cls.__module__) == "collections":  # ChainMap, UserDict: all that they hold
                self.todo += held.values()
        if not is_foreign(cls.__module__):
            self.others.append((type, value, cls))
        self.todo.append(cls)


_CODE, _DEFAULTS, _KEYWORDS = map(attrgetter, ("__code__", "__defaults__", "__kwdefaults__"))
_DICT = attrgetter("__dict__")
_MRO = attrgetter("__mro__")  # another one when a class gets other bases


def _dict_of(cls: type) -> dict[str, Any]:
    """The dict itself: `vars` makes another view of it every time, and looks are slower there."""
    found: dict[str, Any] = gc.get_referents(vars(cls))[0]
    return found


def _sets(member: object) -> bool:
    """Does the member of a class stand before what the object itself holds?"""
    return hasattr(type(member), "__set__")


def _code(member: Any) -> object:
    """Of a method, whatever it is wrapped in."""
    return getattr(getattr(member, "__func__", member), "__code__", None)


def _in_cell(cell: CellType) -> Any:
    return cell.cell_contents
