"""Where a function and its parameters stand in the user's file: read only when something is wrong
there, or when an annotation is a name that no scope of the function has any more."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from fusegen.ir.loc import Loc


def written(fn: Callable[..., Any]) -> FunctionType:
    """The function that a def or lambda made, whatever is wrapped around it."""
    found: FunctionType = inspect.unwrap(fn)
    return found


def tree_of(fn: Callable[..., Any]) -> ast.Module:
    """The syntax of the file that holds the function; empty where there is no such text."""
    own = written(fn)
    lines = linecache.getlines(own.__code__.co_filename, own.__globals__)
    try:
        return ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):  # a notebook's cell with magics
        return ast.Module([], [])


def def_loc(fn: Callable[..., Any]) -> Loc:
    """The line of its `def`, below decorators."""
    code = written(fn).__code__
    for node in _starting_at(tree_of(fn), code.co_firstlineno):
        if getattr(node, "name", "<lambda>") == code.co_name:
            return _line(code.co_filename, node.lineno)
    return Loc(code.co_filename, code.co_firstlineno, f"def {fn.__name__}(…)")


def parameter_loc(fn: Callable[..., Any], name: str) -> Loc:
    """The line that names the parameter; the def's where the text is not to be had."""
    code = written(fn).__code__
    for node in _starting_at(tree_of(fn), code.co_firstlineno):
        a = node.args
        starred = [one for one in (a.vararg, a.kwarg) if one is not None]
        for one in (*a.posonlyargs, *a.args, *a.kwonlyargs, *starred):
            if one.arg == name:
                return _line(code.co_filename, one.lineno)
    return def_loc(fn)


def _starting_at(
    tree: ast.Module, line: int
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda]:
    """Functions whose first line, of a decorator if there is one, is this."""
    for node in ast.walk(tree):
        match node:
            case ast.Lambda():
                first = node.lineno
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            case _:
                continue
        if first == line:
            yield node


def _line(file: str, number: int) -> Loc:
    return Loc(file, number, linecache.getline(file, number).strip())
