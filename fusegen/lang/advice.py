"""What people write from habit with arrays, and what a pipeline's text says instead."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from numbers import Number
from typing import Any

from fusegen.ir.nearest import closest

_WORDS = """
    abs all any argmax argmin cast ceil cos count dot erf exp exp2 expm1 floor index inner isfinite
    isinf isnan length log log1p log2 logsumexp max maximum mean min minimum prod ragged reduce
    round row rsqrt sections sigmoid sign sin sqdist sqrt sum take tanh topk var where xlogy
"""
WORDS = frozenset(_WORDS.split())
"""The language: fg.<word> for each."""

_LIBRARY = """
    absmax_quantize attention contrastive cross_entropy entropy gaussian_sum head_topk kmeans_assign
    layer_norm linear_cross_entropy log_softmax moe_gate naive_softmax nearest norm2 rms_norm
    softmax softmax_topk var_mean weighted_mean
"""
_KNOWN = {name: f"fg.library.{name}" for name in _LIBRARY.split()} | {w: f"fg.{w}" for w in WORDS}
"""The language's words and the texts of the library, as they are written. Spelled out: the library
is made of what is here."""

_CODE = {
    "std": "fg.sqrt(fg.var(x)), or of fg.var(x, correction=1)",
    "var_mean": "fg.var(x) and fg.mean(x); they share a sweep",
    "clip": "fg.minimum(fg.maximum(x, low), high)",
    "clamp": "fg.minimum(fg.maximum(x, low), high)",
    "relu": "fg.maximum(x, 0)",
    "silu": "x * fg.sigmoid(x)",
    "gelu": "0.5 * x * (1 + fg.erf(x / math.sqrt(2)))",
    "softplus": "fg.maximum(x, 0) + fg.log1p(fg.exp(-fg.abs(x)))",
    "log10": "fg.log(x) / math.log(10)",
    "tan": "fg.sin(x) / fg.cos(x)",
    "square": "x**2",
    "power": "a**b",
    "pow": "a**b",
    "mod": "a - b * fg.floor(a / b)",
    "remainder": "a - b * fg.floor(a / b)",
    "floor_divide": "fg.floor(a / b)",
    "reciprocal": "1 / x",
    "amax": "fg.max(x)",
    "amin": "fg.min(x)",
    "average": "fg.sum(w * x) / fg.sum(w)",
    "nansum": "fg.sum(fg.where(fg.isnan(x), 0, x))",
    "nanmax": "fg.max(fg.where(fg.isnan(x), -math.inf, x))",
    "nanmin": "fg.min(fg.where(fg.isnan(x), math.inf, x))",
    "nanmean": "fg.sum(fg.where(fg.isnan(x), 0, x)) / fg.count(~fg.isnan(x))",
    "count_nonzero": "fg.count(x != 0)",
    "ptp": "fg.max(x) - fg.min(x)",
    "norm": "fg.sqrt(fg.sum(x**2)), or fg.library.norm2(x), which does not overflow",
    "matmul": "fg.dot(q, k) for vectors; fg.sum(a * b) for two inputs of the same rows",
    "einsum": "fg.dot(q, k) for vectors; fg.sum(a * b) for two inputs of the same rows",
    "logical_and": "a & b",
    "logical_or": "a | b",
    "logical_xor": "a != b",
    "logical_not": "~a",
}
"""Code that means the word."""

_SAID = {
    "shape": "fg.length(x) counts the columns; the number of rows is not known in the text.",
    "size": "fg.length(x) counts the columns; the number of rows is not known in the text.",
    "dtype": "One text serves every element type; fg.cast(x, dtype) converts.",
    "astype": 'fg.cast(x, "float32") converts.',
    "to": 'fg.cast(x, "float32") converts.',
    "float": 'fg.cast(x, "float32") converts.',
    "long": 'fg.cast(x, "int64") converts.',
    "int": 'fg.cast(x, "int64") converts.',
    "item": "The value is known only on the device: work on it with fg's operations.",
    "arange": "fg.index(x) gives the column numbers.",
    "sort": "fg.topk(x, k) gives the K greatest in order; a whole sort is no reduction.",
    "argsort": "fg.topk(x, k) gives the K greatest in order; a whole sort is no reduction.",
    "median": "A median is no merge of partial results: it is not a row reduction here.",
    "quantile": "A quantile is no merge of partial results: it is not a row reduction here.",
    "cumsum": "A running sum is no reduction; fg.monoid folds a row from left to right.",
    "reshape": "A text works on one row; give the arrays the shape that you want outside.",
    **dict.fromkeys(
        ("view", "flatten", "ravel", "squeeze", "unsqueeze", "expand_dims", "ndim"),
        "A text works on one row; give the arrays the shape that you want outside.",
    ),
    **dict.fromkeys(
        ("cpu", "cuda", "numpy", "detach", "clone", "copy", "tolist", "device"),
        "A text works where the arrays are; move and copy them outside.",
    ),
    **dict.fromkeys(
        ("float16", "float32", "float64", "int32", "int64", "half", "double", "bfloat16"),
        'fg.cast(x, "float32") converts.',
    ),
    "T": "A text works on one row; choose the axis in the call: p(x, axis=0).",
}
"""Where there is no such code: a sentence."""


def instead(name: str) -> str:
    """What to write for a word that is not of the language; empty if nothing is like it."""
    if name in WORDS:
        return f"Write fg.{name}(x)."
    if name in _CODE:
        return f"Write {_CODE[name]}."
    if name in _SAID:
        return _SAID[name]
    if name in _KNOWN:
        return f"Write {_KNOWN[name]}."
    found = closest(name, _KNOWN)
    return f"Did you mean {_KNOWN[found]}?" if found else ""


def shown(value: object) -> str:
    """An operand that is none, as a message names it."""
    kind = type(value).__name__
    if isinstance(value, str | complex) or value is None:
        return repr(value)
    if isinstance(value, Enum):
        return str(value) if type(value).__str__ is Enum.__str__ else f"{kind}.{value.name}"
    return f"{kind} {value!r}" if isinstance(value, Number) else kind


def remedy(value: object) -> str:
    """What to do with an operand that is none."""
    match value:
        case None:
            return "An optional input may be absent: y if w is None else y * w."
        case tuple() | list():
            return "fg.topk gives (values, indices): values, indices = fg.topk(x, k)."
        case complex():
            return "There are kernels for real numbers only."
        case str() | bytes():
            return "Numbers in strings are converted by float(…)."
        case Enum():
            return (f"A member of an enumeration is a name: what it holds is {shown(value)}.value; "
                    "members of enum.IntEnum are numbers.")
        case Number():
            return "float(…) makes a number of it."
        case _ if callable(value):
            return "Call it first."
        case _ if getattr(value, "ndim", None) == 0:
            return "Its .item() is a number."
    return ("Pass arrays as parameters of the pipeline; annotate fg.PerColumn or fg.PerRow where "
            "they are not (rows, columns).")


def lasting(name: str, value: object) -> str:
    """What to give in place of a constant that can change; `name` is what it is called."""
    match value:
        case list():
            return f"Give a tuple: tuple({name})."
        case set():
            return f"Give frozenset({name})."
        case dict():
            return "Give a NamedTuple or a frozen dataclass, whose fields the text reads."
        case tuple():
            return _lasting_inside([(f"{name}[{i}]", v) for i, v in enumerate(value)])
        case _ if is_dataclass(value) and not _is_lasting(type(value)):
            return f"Decorate {type(value).__name__} with @dataclass(frozen=True)."
        case _ if is_dataclass(value):
            return _lasting_inside([(f"{name}.{f.name}", getattr(value, f.name, None))
                                    for f in fields(value)])
    return "Arrays are positional parameters; records are NamedTuples or frozen dataclasses."


def _lasting_inside(parts: list[tuple[str, Any]]) -> str:
    for name, value in parts:
        try:
            hash(value)
        except TypeError:
            return lasting(name, value)
    return "Arrays are positional parameters."


def _is_lasting(cls: type) -> bool:
    """Has it a hash? Other dataclasses can be changed."""
    return cls.__hash__ is not None
