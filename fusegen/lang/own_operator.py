"""From the functions of a monoid of the user's own to an Operator: traced once, spelled out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from types import CodeType

from fusegen.ir import graph as g
from fusegen.ir.digest import attributes
from fusegen.ir.dtypes import BOOL, FLOAT64, INT64, DType, Kind
from fusegen.ir.errors import DTypeError, TraceError
from fusegen.ir.expr import Expr, Lit, Var, call
from fusegen.ir.expressions import Names, convert, expression
from fusegen.ir.kinds import check_field, kinds_of
from fusegen.ir.loc import Loc
from fusegen.ir.names import Taken, c_identifier
from fusegen.ir.operator import Law, Operator, StateField
from fusegen.ir.products import shared_products
from fusegen.lang.trace import tracing
from fusegen.lang.value import Builder, Value

_DTYPES: dict[Kind, DType] = {"float": FLOAT64, "int": INT64, "bool": BOOL}
_CASTS = {"float": "to_float", "int": "to_int", "bool": "to_bool"}
_MOST_MIXED = 6  # elements whose kinds are found one by one; more are all of one kind
_TAKEN = {"a", "b", "r", "fg", "V"}  # names that the emitted merge uses itself

Lift = Callable[..., list[g.Node]]
Merge = Callable[[Sequence[Value], Sequence[Value]], list[g.Node]]


def operator_of(
    *, name: str, identity: Mapping[str, Lit], elements: tuple[str, ...], lift: Lift, merge: Merge,
    codes: set[CodeType], ordered: bool, assumed: tuple[Law, ...], loc: Loc,
) -> Operator:
    """Trace lift and merge by themselves. Raises TraceError or DTypeError at the user's line."""
    variables, lifted = _lifted(lift, elements, identity, name, loc)
    steps, merged = _merged(merge, identity, codes, name, loc)
    fields = zip(identity.items(), lifted, merged, strict=True)
    return Operator(
        name=name, elements=variables, steps=steps, ordered=ordered, assumed=assumed, loc=loc,
        fields=tuple(StateField(n, zero, up, both) for (n, zero), up, both in fields),
    )


# ---- lift ----


def _lifted(
    lift: Lift, elements: tuple[str, ...], identity: Mapping[str, Lit], name: str, loc: Loc
) -> tuple[tuple[Var, ...], list[Expr]]:
    """Lift as the proofs see it. Kinds do not matter there; pipelines trace it once more."""
    build = Builder()
    inputs = [g.Input(n, g.Axis.ELEMENT, loc) for n in elements]
    with tracing(build):
        results = lift(*map(build.add, inputs))
    made = set(build.nodes.values())
    _check_elementwise(made, name, "lift")
    nodes = [n for n in g.topological((*inputs, *results)) if n in made]
    kinds = _element_kinds(inputs, nodes, results, identity)
    taken = Taken()
    known: dict[g.Node, Expr] = {
        i: Var(taken.free(c_identifier(i.name)), kinds[i], True) for i in inputs
    }
    for node in g.topological(tuple(results)):
        if node not in known and node in made:
            known[node] = _plain(node, known)
        elif node not in known:  # a value of the pipeline around it: any number, to the proof
            known[node] = Var(taken.free("captured"))
    variables = [e for e in known.values() if isinstance(e, Var)]
    return tuple(variables), [known[n] for n in results]


def _element_kinds(
    inputs: list[g.Input], nodes: Sequence[g.Node], results: Sequence[g.Node],
    identity: Mapping[str, Lit],
) -> dict[g.Input, Kind]:
    """What elements lift takes: conditions where it uses them so, whole numbers where fields ask
    for such, else floats."""
    conditions = {n for m in nodes if isinstance(m, g.Map) for n in _conditions(m)}
    conditions |= {n for n, z in zip(results, identity.values(), strict=True) if z.kind == "bool"}
    found: dict[g.Input, Kind] = {i: "bool" if i in conditions else "float" for i in inputs}
    open_ = [i for i in inputs if i not in conditions]
    kinds: Sequence[Kind] = ("float", "int")
    mixed = product(kinds, repeat=len(open_)) if len(open_) <= _MOST_MIXED else \
        ((k,) * len(open_) for k in kinds)
    for choice in mixed:
        chosen = {**found, **dict(zip(open_, choice, strict=True))}
        if _fits(chosen, nodes, results, identity):
            return chosen
    return found


def _fits(
    chosen: Mapping[g.Input, Kind], nodes: Sequence[g.Node], results: Sequence[g.Node],
    identity: Mapping[str, Lit],
) -> bool:
    """Does lift make what the fields of the identity are?"""
    try:
        kinds = kinds_of(nodes, {i.name: _DTYPES[k] for i, k in chosen.items()})
        for node, (field, zero) in zip(results, identity.items(), strict=True):
            if node in kinds:
                check_field("", "lift", field, zero.kind, kinds[node], node.loc)
    except (DTypeError, KeyError):  # KeyError: below a captured value, which has no kind yet
        return False
    return True


def _conditions(node: g.Map) -> tuple[g.Node, ...]:
    if node.op == "where":
        return node.args[:1]
    return node.args if node.op in ("and", "or", "not") else ()


def _plain(node: g.Node, known: Mapping[g.Node, Expr]) -> Expr:
    match node:
        case g.Literal(value=value):
            return Lit(value)
        case g.Map(op=op, args=args):
            return call(op, *(known[a] for a in args))
        case g.Cast(dtype=dtype, arg=arg):
            return call(_CASTS[dtype.kind], known[arg])
        case _:
            raise AssertionError(node)  # _check_elementwise lets no other through


# ---- merge ----


def _merged(
    merge: Merge, identity: Mapping[str, Lit], codes: set[CodeType], name: str, loc: Loc
) -> tuple[tuple[tuple[str, Expr], ...], list[Expr]]:
    """The steps of merge and its value for every field, over a.<field> and b.<field>."""
    build = Builder(codes=codes)
    sides = [
        [g.Input(f"{side}.{n}", g.Axis.ELEMENT, loc) for n in identity] for side in ("a", "b")
    ]
    inputs = [*sides[0], *sides[1]]
    with tracing(build):
        results = merge(*([build.add(i) for i in side] for side in sides))
    nodes = g.topological((*inputs, *results))
    made = set(build.nodes.values())
    _check_elementwise([n for n in nodes if n in made], name, "merge")
    used = (*results, *(a for n in nodes if n in made for a in g.operands(n)))
    foreign = next((n for n in used if n not in made), None)
    if foreign is not None:
        raise TraceError(f"{name}: merge uses a value of the pipeline", where=foreign.loc,
                         why="States merge without the row that they came from.",
                         fix="Put what merge needs into the state.")
    dtypes = {i.name: _DTYPES[identity[i.name[2:]].kind] for i in inputs}
    kinds = kinds_of(nodes, dtypes)
    for field, node in zip(identity, results, strict=True):
        check_field(name, "merge", field, identity[field].kind, kinds[node], node.loc)
    graph = g.Graph(
        name=name, loc=loc, inputs=tuple(inputs), nodes=nodes, outputs=tuple(results),
        output_names=(), structure=0, names={}, named=frozenset(), constants=(),
    )
    return _with_steps(graph, kinds, build.labels, [z.kind for z in identity.values()])


def _with_steps(
    graph: g.Graph, kinds: Mapping[g.Node, Kind], labels: Mapping[g.Node, str], wanted: list[Kind]
) -> tuple[tuple[tuple[str, Expr], ...], list[Expr]]:
    """Values that are named or used twice get a line of their own."""
    uses: dict[g.Node, int] = {}
    for node in graph.nodes:
        for arg in g.operands(node):
            uses[arg] = uses.get(arg, 0) + 1
    known: dict[g.Node, Expr] = {i: Var(i.name, kinds[i], True) for i in graph.inputs}
    taken, steps, names = Taken(_TAKEN), [], Names(graph, kinds, shared_products(graph, kinds))
    for node in graph.nodes:
        named = node in labels and uses.get(node, 0) > 0
        if node in known or isinstance(node, g.Literal) or not (named or uses.get(node, 0) > 1):
            continue
        own = _leaf_except(node, known)
        wish = c_identifier(labels[node] if node in labels else _described(node))
        step = taken.free(wish)
        steps.append((step, expression(node, names, own)))
        known[node] = Var(step, kinds[node], True)
    results = [expression(n, names, known.get) for n in graph.outputs]
    return tuple(steps), [convert(e, k) for e, k in zip(results, wanted, strict=True)]


def _described(node: g.Node) -> str:
    return node.op if isinstance(node, g.Map) else "part"


def _leaf_except(node: g.Node, known: Mapping[g.Node, Expr]) -> Callable[[g.Node], Expr | None]:
    return lambda n: None if n is node else known.get(n)


def _check_elementwise(nodes: Iterable[g.Node], name: str, what: str) -> None:
    """lift and merge speak of one element, or of two states: nothing else is in sight."""
    narrow = ("float32", "float64", "int64", "bool")
    for node in nodes:
        if isinstance(node, g.Cast) and node.dtype.name not in narrow:
            raise TraceError(f"{name}: {what} casts to {node.dtype}", where=node.loc,
                             why="States are kept in float32/float64, int64 and bool.",
                             fix="Cast the result of the pipeline.")
        if not isinstance(node, g.Input | g.Literal | g.Map | g.Cast):
            kind = attributes(node)[0]
            shown = node.fold.value if isinstance(node, g.Reduce) else kind
            raise TraceError(f"{name}: {what} contains {shown}", where=node.loc,
                             why=f"{what} is elementwise: it sees no row that it could reduce.",
                             fix="Reduce in the pipeline, with fg.reduce around this monoid.",
                             )
