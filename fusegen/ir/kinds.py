"""The pass that gives every node a kind (float, int, bool) once the input types are known.

Conditions count as 0 and 1 in arithmetic; whole numbers become float beside a float, and where a
function needs one (as torch's: float32, or float64 if any input has it, not NumPy's float64).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from fusegen.ir import graph as g
from fusegen.ir.conditions import is_column
from fusegen.ir.dtypes import BOOL, FLOAT32, FLOAT64, INT64, DType, Kind, dtype_of
from fusegen.ir.errors import ArgumentError, DTypeError
from fusegen.ir.literals import is_whole
from fusegen.ir.loc import Loc
from fusegen.ir.ops import OPS

DTypes = str | Any | Mapping[str, Any]
"""One element type for all inputs, or one by input name."""


def compute_dtype(graph: g.Graph, dtypes: Mapping[str, DType]) -> DType:
    """What kernels compute in: float64 if any float64 takes part, else float32."""
    casts = {n.dtype for n in graph.nodes if isinstance(n, g.Cast)}
    wide = FLOAT64 in {d.number for d in dtypes.values()} or FLOAT64 in casts
    return FLOAT64 if wide else FLOAT32


def infer_kinds(graph: g.Graph, dtypes: Mapping[str, DType]) -> dict[g.Node, Kind]:
    """Kind of every node. Raises DTypeError at the user's line where an operation has none."""
    return kinds_of(graph.nodes, dtypes)


def kinds_of(nodes: Iterable[g.Node], dtypes: Mapping[str, DType]) -> dict[g.Node, Kind]:
    """Kinds of nodes in topological order."""
    kinds: dict[g.Node, Kind] = {}
    for node in nodes:
        try:
            kinds[node] = _kind(node, kinds, dtypes)
        except DTypeError as error:
            error.fix_of_call = _fix_of_call(node, kinds, dtypes)
            raise
    return kinds


def _fix_of_call(
    node: g.Node, kinds: Mapping[g.Node, Kind], dtypes: Mapping[str, DType]
) -> str:
    """Which inputs to give as another type, so that this operation has a kind; "" for none."""
    match node:
        case g.Take(index=index) if kinds[index] != "int":
            wanted, word, asked = "int", "whole numbers, such as int64", [index]
        case g.Take(arg=arg):
            wanted, word, asked = "float", "floats, such as float32", [arg]
        case g.Map(op=op, args=args) if OPS[op].rule in ("logic", "select"):
            wanted, word, asked = "bool", "conditions, bool", [*args[:1 if op == "where" else None]]
        case _:
            wanted, word, asked = "float", "floats, such as float32", [*g.operands(node)]
    told = [f"{i.name} is {dtypes[i.name]}: pass it as {word}."
            for i in g.arrays_in(g.topological(asked)) if dtypes[i.name].kind != wanted]
    return "\n  ".join(dict.fromkeys(told))


def _kind(node: g.Node, kinds: Mapping[g.Node, Kind], dtypes: Mapping[str, DType]) -> Kind:
    match node:
        case g.Input(axis=g.Axis.SCALAR):
            return "float"
        case g.Input():
            return _input_kind(node, dtypes[node.name])
        case g.Literal(value=value):
            return "bool" if isinstance(value, bool) else _literal_kind(value)
        case g.Length() | g.Index() | g.RowNumber():
            return "int"
        case g.Cast(dtype=dtype):
            return dtype.kind
        case g.Inner(arg=arg):
            if kinds[arg] == "bool":
                raise _no_bool(node, "inner")
            return kinds[arg]
        case g.Map():
            return _map_kind(node, kinds)
        case g.Reduce():
            return _reduce_kind(node, kinds)
        case g.TopK(arg=arg):
            if kinds[arg] == "bool":
                raise _no_bool(node, "topk")
            return kinds[arg]
        case g.Part(top=top, field=field):
            return "int" if field == "indices" else kinds[top]
        case g.Take():
            return _take_kind(node, kinds)
        case g.Own():
            _check_lifted(node, kinds)
            return "float"  # never asked for: a state is read field by field
        case g.Field(own=own, name=name):
            return next(f.kind for f in own.operator.fields if f.name == name)
        case _:
            assert_never(node)


def _input_kind(node: g.Input, dtype: DType) -> Kind:
    if node.axis in g.VECTORS and dtype.kind != "float":
        raise DTypeError(f"{node.name} holds vectors of {dtype.number} values", where=node.loc,
                         why="Vectors are of floating-point numbers.",
                         fix="Convert it first, for example to float32.")
    return dtype.kind


def _take_kind(node: g.Take, kinds: Mapping[g.Node, Kind]) -> Kind:
    if kinds[node.index] != "int":
        raise DTypeError("take needs whole numbers as index", where=node.loc,
                         fix="Pass integers, or fg.cast(index, 'int64').")
    if kinds[node.arg] != "float" and not is_column(node.index):
        raise DTypeError(
            f"take needs floating-point values, got {kinds[node.arg]}", where=node.loc,
            why="NaN stands where the index is out of range.",
            fix="Say it: fg.take(fg.cast(x, 'float32'), index).",
        )
    return kinds[node.arg]


def _reduce_kind(node: g.Reduce, kinds: Mapping[g.Node, Kind]) -> Kind:
    match node.fold:
        case g.Fold.ARGMAX | g.Fold.ARGMIN:
            return "int"
        case g.Fold.MEAN:
            return "float"
        case g.Fold.SUM if kinds[node.arg] == "bool":
            return "int"
        case _ if kinds[node.arg] == "bool":
            raise _no_bool(node, node.fold.value)
        case _:
            return kinds[node.arg]


def _check_lifted(node: g.Own, kinds: Mapping[g.Node, Kind]) -> None:
    """Every lifted value must be what its field of the identity is."""
    for field, arg in zip(node.operator.fields, node.args, strict=True):
        check_field(node.operator.name, "lift", field.name, field.kind, kinds[arg], node.loc)


def check_field(
    monoid: str, what: str, field: str, kind: Kind, found: Kind, where: Loc
) -> None:
    """Raises DTypeError where lift or merge makes another kind than the identity has."""
    if found == kind or (kind == "float" and found == "int"):
        return
    example = {"float": "0.0", "int": "0", "bool": "False"}[found]
    dtype = {"float": "float32", "int": "int64", "bool": "bool"}[kind]
    raise DTypeError(
        f"{monoid}: {what} makes {field} {found}, but its identity is {kind}", where=where,
        why="A field of the state has the kind of its identity, in lift and in merge.",
        fix=f"Write its identity as {found}, such as {example}, or fg.cast(…, {dtype!r}).",
    )


def _literal_kind(value: float) -> Kind:
    return "int" if is_whole(value) else "float"


def _map_kind(node: g.Map, kinds: Mapping[g.Node, Kind]) -> Kind:
    rule = OPS[node.op].rule
    found = [kinds[a] for a in node.args]
    if rule == "logic":
        if any(k != "bool" for k in found):
            raise DTypeError(f"{node.op} combines conditions, not numbers", where=node.loc,
                             fix="Compare first, for example x > 0.")
        return "bool"
    if rule == "select":
        if found[0] != "bool":
            raise DTypeError("where needs a condition first", where=node.loc,
                             fix="fg.where(x > 0, a, b).")
        if found[1] == found[2] == "bool":
            return "bool"
        found = found[1:]
    if rule == "bool":
        return "bool"
    if whole_power(node) is not None and found[0] != "float":
        return "int"
    return "float" if rule == "float" or "float" in found else "int"


def whole_power(node: g.Node) -> int | None:
    """The exponent of a power that whole numbers stay whole under, as NumPy's: a constant ≥ 0."""
    match node:
        case g.Map(op="pow", args=(_, g.Literal(value=power))) if is_whole(power) and power >= 0:
            return int(power)
        case _:
            return None


def _no_bool(node: g.Node, op: str) -> DTypeError:
    return DTypeError(f"{op} needs numbers, got a condition", where=node.loc,
                      fix="Use fg.where(condition, 1, 0), fg.count, fg.any or fg.all.")


def assumed_dtypes(graph: g.Graph, dtype: DTypes) -> dict[str, DType]:
    """Types of the inputs: as told; whole numbers as indices, bool as conditions."""
    told = dtype if isinstance(dtype, Mapping) else {}
    for name in told:
        if name not in {i.name for i in graph.inputs}:
            raise ArgumentError(f"dtype names {name!r}, which is no input of this call")
    usual = dtype_of("float32" if isinstance(dtype, Mapping) else dtype)
    if usual.length and not g.have_vectors(graph.inputs):
        raise ArgumentError(f"dtype says {usual}, and no input of {graph.name} holds vectors",
                            fix="Annotate one with fg.RowVector or fg.ColumnVector, or say "
                            f"{usual.number}.")
    indices = _whole_inputs(graph)
    conditions = {n.args[0] for n in graph.nodes if isinstance(n, g.Map) and n.op == "where"}
    conditions |= {a for n in graph.nodes if isinstance(n, g.Map) and n.op in ("and", "or", "not")
                   for a in n.args}
    found = {}
    for node in graph.inputs:
        assumed = INT64 if node in indices else BOOL if node in conditions else usual
        dtype = dtype_of(told[node.name]) if node.name in told else assumed
        vectors = node.axis in g.VECTORS
        if dtype.length and not vectors and node.name in told:
            raise ArgumentError(f"dtype says {dtype} of {node.name}, which holds numbers",
                                fix="Annotate it with fg.RowVector or fg.ColumnVector.")
        found[node.name] = dtype.vector(dtype.length or _LENGTH) if vectors else dtype.number
    return found


_LENGTH = 64
"""Of vectors of which nothing is said."""

_COMPARISONS = ("eq", "lt", "le", "gt", "ge")
_WHOLE_IN_WHOLE = {"where", "maximum", "minimum", "add", "sub", "mul", "neg", "abs"}


def _whole_inputs(graph: g.Graph) -> set[g.Node]:
    """Inputs that columns are found by, or compared with: also through where(t < 0, 0, t)."""
    compared = {n for n in graph.nodes if isinstance(n, g.Map) and n.op in _COMPARISONS
                and any(isinstance(a, g.Index) for a in n.args)}
    asked = [n.index for n in graph.nodes if isinstance(n, g.Take)]
    asked += [a for n in compared for a in n.args if n.op == "eq" or g.extent(a) is g.Extent.ROW]
    found: set[g.Node] = set()
    while asked:
        node = asked.pop()
        if node in found:
            continue
        found.add(node)
        match node:
            case g.Map(op=op, args=args) if op in _WHOLE_IN_WHOLE:
                asked += args[1:] if op == "where" else args
            case g.Reduce(fold=g.Fold.MAX | g.Fold.MIN | g.Fold.SUM, arg=arg):
                asked.append(arg)
    return {n for n in found if isinstance(n, g.Input)}
