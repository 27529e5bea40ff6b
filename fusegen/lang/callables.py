"""What may be written as a pipeline: functions, methods, partials, callable objects; and how a
pipeline is found again, as a method of an instance and by pickle."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from fusegen.ir.errors import ArgumentError, TraceError
from fusegen.lang.advice import instead
from fusegen.lang.blame import LIBRARIES
from fusegen.lang.written import def_loc

Fn = Callable[..., Any]


def function_of(given: Any) -> Fn:
    """A function that does what `given` does, with `__wrapped__` the one that was written.

    `__self__`, where it has that, is the partial, or what a method is bound to. Raises
    ArgumentError for what no def stands behind, TraceError for coroutines and generators.
    """
    if isinstance(given, staticmethod):
        given = given.__func__
    written = _written(given)
    if written is None:
        raise ArgumentError(
            f"pipeline takes a function, got {type(given).__name__}",
            why="It runs the text once, on symbols, so there must be a def.",
            fix="Write @classmethod alone, and fg.pipeline(Class.name) after the class."
            if isinstance(given, classmethod) else "Write @fg.pipeline above def.",
        )
    _check_own(written)
    _check(written)
    if hasattr(given, "__code__") and not isinstance(given, MethodType):
        return given  # type: ignore[no-any-return]

    @functools.wraps(written)
    def text(*arrays: Any, **constants: Any) -> Any:
        return given(*arrays, **constants)

    text.__signature__ = inspect.signature(given)  # type: ignore[attr-defined]
    text.__self__ = getattr(given, "__self__", given)  # type: ignore[attr-defined]
    if not isinstance(given, functools.partial | MethodType):
        text.__name__ = text.__qualname__ = type(given).__name__
    return text


def _written(given: Any) -> FunctionType | None:
    """The Python function behind a callable."""
    while True:
        given = inspect.unwrap(given) if callable(given) else given
        match given:
            case FunctionType():
                return given
            case functools.partial():
                given = given.func
            case MethodType():
                given = given.__func__
            case type():
                return None
            case _:
                call = getattr(type(given), "__call__", None)  # noqa: B004
                return call if isinstance(call, FunctionType) else None


def _check_own(fn: FunctionType) -> None:
    """Raises ArgumentError for a function of a library of arrays: its text is for arrays."""
    library = (fn.__module__ or "").partition(".")[0]
    if library in LIBRARIES:
        raise ArgumentError(
            f"pipeline takes a text of yours, got {library}'s {fn.__name__}",
            why="It runs the text on symbols, with fusegen's operations.",
            fix=f"{instead(fn.__name__) or 'Write it with those.'} The def that has it is yours.",
        )


def _check(fn: FunctionType) -> None:
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise TraceError(f"{fn.__name__} is a coroutine", where=def_loc(fn),
                         why="A text describes one row; there is nothing to wait for.",
                         fix="Write def, and await what you need outside.")
    if inspect.isgeneratorfunction(fn):
        raise TraceError(f"{fn.__name__} is a generator", where=def_loc(fn),
                         why="A text returns all its results at once.",
                         fix="Return a tuple.")


class _Methods(dict[str, "Held"]):
    """Pipelines bound to an instance, by name; no part of what a copy or a pickle of it holds."""

    def __init__(self, instance: Any = None) -> None:
        super().__init__()
        self.instance = instance

    def __reduce__(self) -> tuple[Any, ...]:
        return _Methods, ()


class Held:
    """A pipeline as Python holds it: bound to instances like a function, pickled by name."""

    given: Any  # what the user decorated
    fn: Fn
    allow_cancellation: bool
    _method: tuple[str, bool] | None = None  # the name it has in its class; does it bind?
    _bound: tuple[Any, str] | None = None  # the instance, and its name there

    def __set_name__(self, owner: type, name: str) -> None:
        own = getattr(self, "__qualname__", "") == f"{owner.__qualname__}.{name}"
        self._method = (name, own and not isinstance(self.given, staticmethod))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The pipeline of one instance: `self` in its text is that. The instance keeps it."""
        if instance is None or self._method is None or not self._method[1]:
            return self
        name, own = self._method[0], getattr(instance, "__dict__", {})
        kept = own.get("_fusegen_methods")
        if kept is None or kept.instance is not instance:
            kept = own["_fusegen_methods"] = _Methods(instance)
        found = kept.get(name)
        if found is None:
            found = kept[name] = self.again(MethodType(self.fn, instance))
            found._bound = (instance, name)
        return found

    def again(self, given: Any) -> Any:
        """A pipeline like this one of another function."""
        return self._maker()(given)

    def _maker(self) -> Any:
        kind: Any = type(self)
        return functools.partial(kind, allow_cancellation=self.allow_cancellation)

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._bound is not None:
            return getattr, self._bound
        name: str = getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self, "__module__", ""))
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else self.recipe()

    def recipe(self) -> tuple[Any, ...]:
        """How to make it again, where no name leads to it."""
        return self._maker(), (self.given,)
