"""What the language's functions share: how wrong arguments are refused, and the pair of topk."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

from fusegen.ir.errors import FusegenError, TraceError
from fusegen.lang.blame import blamed
from fusegen.lang.lines import here
from fusegen.lang.value import Value

P = ParamSpec("P")
T = TypeVar("T")

_OF_CALLS = "A text works on one row: the call says where rows lie, p(x, axis=0, keepdims=True)."


def word(fn: Callable[P, T]) -> Callable[P, T]:
    """A function of the language: arguments that it does not take get an error at the line."""

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return fn(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # it comes from further inside
            wrong = str(error)
        except FusegenError as error:
            raise blamed(error)  # noqa: B904
        asked = {"axis", "axes", "dim", "keepdims", "keepdim", "out"} & kwargs.keys()
        usage = f"fg.{fn.__name__}({', '.join(inspect.signature(fn).parameters)})"
        raise TraceError(f"fg.{wrong}", where=here(), why=_OF_CALLS if asked else "",
                         fix=f"{usage}: {(fn.__doc__ or '').splitlines()[0]}")

    return call


def _listwise(name: str) -> Callable[..., Any]:
    plain = getattr(tuple, name, None)

    def operator(self: TopK, *other: Any) -> Any:
        if isinstance(self.values, Value):
            raise TraceError("a top-K result is two lists, (values, indices)", where=here(),
                             fix="values, indices = fg.topk(x, k), then compute with one of them.",
                             )
        return NotImplemented if plain is None else plain(self, *other)

    return operator


class TopK(NamedTuple):
    """The two lists of fg.topk: in a text values, in results arrays."""

    values: Any
    indices: Any


_OPERATORS = "add radd sub rsub mul rmul truediv rtruediv pow rpow neg lt le gt ge"
for _name in _OPERATORS.split():
    setattr(TopK, f"__{_name}__", _listwise(f"__{_name}__"))
