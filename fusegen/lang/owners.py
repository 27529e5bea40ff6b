"""Whose they are, the code and the objects that a text uses: its user's, a library's, or ours."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from fusegen.lang.blame import PACKAGE

_KEPT = frozenset({"fusegen", "numpy", *sys.stdlib_module_names})  # what they hold is as it is


def root(module: str | None) -> str:
    return (module or "").partition(".")[0]


_PYTHONS = sysconfig.get_path("stdlib") + os.sep


def users(code: CodeType) -> bool:
    """Is it what a user wrote, and no library's?"""
    return not ("-packages" in code.co_filename or is_ours(code) or is_pythons(code))


def is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE)


def is_pythons(code: CodeType) -> bool:
    """Is it the standard library's? It asks its own objects; which of its code runs at all, such as
    the getter of an enumeration's names, depends on Python's version."""
    file = code.co_filename
    return file.startswith((_PYTHONS, "<frozen ")) and "-packages" not in file


def is_foreign(module: str | None) -> bool:
    """Does the module keep what it has? Pipelines of the library may be replaced."""
    return module not in ("fusegen.library", "fusegen.library.texts") and root(module) in _KEPT


def may_be_replaced(value: object) -> bool:
    """What is fusegen's own: pipelines, in whatever module."""
    functions = held_by(type(value), "traced_functions")
    return isinstance(value, ModuleType) or functions is not None


def held_by(cls: type, name: str) -> Any:
    """What the class or one of its bases has; its metaclass, which may make it up, is not asked."""
    return next((vars(one)[name] for one in cls.__mro__ if name in vars(one)), None)


def is_fixed(value: object, name: str) -> bool:
    """Is it a module, or a function under its own name, that nobody puts another in place of?"""
    match value:
        case ModuleType():
            return is_foreign(value.__name__)
        case FunctionType() | type():
            return is_foreign(value.__module__) and value.__name__ == name
        case _:
            return isinstance(value, BuiltinFunctionType) and value.__name__ == name
