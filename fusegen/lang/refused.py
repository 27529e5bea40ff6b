"""What Python, NumPy and torch may ask of a pipeline value that has no answer: errors that say what
to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from fusegen.ir.errors import TraceError, UnknownName
from fusegen.lang.advice import instead
from fusegen.lang.lines import here


def refuse(what: str, why: str, fix: str) -> NoReturn:
    raise TraceError(what, where=here(), why=why, fix=fix)


def foreign(library: str, name: str) -> NoReturn:
    refuse(f"{library}'s {name} was called on a pipeline value",
           "It computes on arrays; a pipeline value stands for a row.",
           instead(name) or "Use fusegen's own operations.")


class Refusals:
    """A value that is known on the device alone."""

    if not TYPE_CHECKING:  # what a type checker knows is all there is

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):  # a protocol that someone asks after
                raise AttributeError(name)
            raise UnknownName(f"a pipeline value has no .{name}", where=here(),
                              why="It stands for a row, and is no array.",
                              fix=instead(name))

    def __bool__(self) -> NoReturn:
        refuse("Python cannot branch on a pipeline value",
               "Its truth differs from row to row and is not known while tracing.",
               "Use fg.where(condition, a, b); combine conditions with & | ~; Python's max(a, b) "
               "and min(a, b) are fg.maximum(a, b) and fg.minimum(a, b).")

    def __iter__(self) -> NoReturn:
        refuse("a pipeline value cannot be iterated or unpacked",
               "It stands for a whole row, list or row value, not for a sequence.",
               "Reduce it (fg.sum, fg.topk, …) or work on it elementwise.")

    def __len__(self) -> NoReturn:
        refuse("a pipeline value has no length in Python",
               "One text serves rows of every length.", instead("shape"))

    def __getitem__(self, key: object) -> NoReturn:
        refuse("a pipeline value cannot be indexed with [ ]", "Rows are not sliced in Python.",
               "Use fg.take(x, index) for the element at a column.")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        refuse("a pipeline value cannot be assigned to with [ ]", "Values are never changed.",
               "Use fg.where(fg.index(x) == column, value, x).")

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        foreign("NumPy", function.__name__)

    @classmethod
    def __torch_function__(cls, function: Any, *_: Any) -> NoReturn:
        foreign("torch", function.__name__)

    def __float__(self) -> NoReturn:
        refuse("a pipeline value is not a Python number", "Its value is known only on the device.",
               "Use fusegen's operations (fg.exp, fg.where, …) instead of Python's or math's.")

    __int__ = __index__ = __complex__ = __trunc__ = __float__

    def _whole(self, *_: object) -> NoReturn:
        refuse("a pipeline value has no // and no %", "", "Write fg.floor(a / b) for a // b, "
               "and a - b * fg.floor(a / b) for a % b.")

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _whole

    def _product(self, *_: object) -> NoReturn:
        refuse("a pipeline value has no @", "A text works on one row.", instead("matmul"))

    __matmul__ = __rmatmul__ = _product

    def _shift(self, *_: object) -> NoReturn:
        refuse("a pipeline value has no << and no >>", "",
               "Multiply by a power of two, or divide by one and take fg.floor.")

    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _shift
