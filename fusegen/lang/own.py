"""The user's own monoids: `fg.monoid`, `fg.product`, and `fg.reduce` to fold a row with one.

A state is one number, or a tuple or dict of states. lift, merge and project see it in that very
shape: where the identity is {"n": 0, "mu": 0.0}, merge takes two such dicts and returns one.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, NoReturn, get_args

from fusegen.ir import graph as g
from fusegen.ir.dtypes import Kind
from fusegen.ir.errors import ArgumentError, TraceError
from fusegen.ir.expr import Lit
from fusegen.ir.literals import is_whole, plain
from fusegen.ir.loc import Loc
from fusegen.ir.names import c_identifier, identifier
from fusegen.ir.nearest import nearest
from fusegen.ir.operator import Law, Operator
from fusegen.ir.watches import Watches
from fusegen.lang.captured import watches_of
from fusegen.lang.lines import here
from fusegen.lang.own_operator import operator_of
from fusegen.lang.trace import tracing
from fusegen.lang.value import Builder, Operand, Value, builder
from fusegen.lang.value import lift as node_of
from fusegen.lang.vectors import no_vector

LAWS: tuple[Law, ...] = get_args(Law)


@dataclass(frozen=True, eq=False)
class OwnMonoid:
    """A monoid made by `fg.monoid`; give it to `fg.reduce`, `fg.check` or `fg.product`."""

    name: str
    identity: Any
    lift: Callable[..., Any]
    merge: Callable[[Any, Any], Any]
    project: Callable[[Any], Any] | None
    elements: tuple[str, ...]  # parameters of lift
    ordered: bool
    assumed: tuple[Law, ...]
    loc: Loc
    codes: frozenset[CodeType]  # of functions whose local variables name the values of merge

    def __repr__(self) -> str:
        return f"<fusegen monoid {self.name}({', '.join(self.elements)})>"

    @property
    def operator(self) -> Operator:
        """Identity, lift and merge as expressions; read again where what they use has changed.
        Raises TraceError or DTypeError."""
        return self._read()[0]

    def _read(self) -> tuple[Operator, Watches]:
        """The operator, and watches on what lift and merge use besides their parameters."""
        known: tuple[Operator, Watches] | None = self.__dict__.get("known")
        if known is None or known[1].changed():
            with tracing(Builder()) as build:
                operator = self._spelled()
            known = (operator, watches_of((self.lift, self.merge), build.ran))
            self.__dict__["known"] = known
        return known

    def traced_functions(self) -> tuple[object, ...]:
        """What `captured` follows of a monoid that a text uses."""
        return (self.lift, self.merge, self.project)

    def _spelled(self) -> Operator:

        def lifted(*xs: Value) -> list[g.Node]:
            return _flat(self.identity, self.lift(*xs), "lift", self.lift)

        def merged(a: Sequence[Value], b: Sequence[Value]) -> list[g.Node]:
            sides = (_rebuilt(self.identity, iter(side)) for side in (a, b))
            return _flat(self.identity, self.merge(*sides), "merge", self.merge)

        return operator_of(
            name=self.name, identity=_named_fields(self.identity, self.loc), lift=lifted,
            elements=self.elements, merge=merged, codes=set(self.codes), ordered=self.ordered,
            assumed=self.assumed, loc=self.loc,
        )

    def over(self, xs: Sequence[object], where: Loc) -> Any:
        """The projected state of a row of these elements, in the graph being traced."""
        build, (operator, watches) = builder(), self._read()
        build.watches += watches
        if len(xs) != len(self.elements):
            raise TraceError(
                f"{self.name} takes {len(self.elements)} elements, got {len(xs)}", where=where,
                why=f"Its lift takes ({', '.join(self.elements)}).",
                fix="fg.reduce(monoid, x, y): one argument for each.",
            )
        values = [Value(node_of(x)) for x in xs]
        extents = {g.extent(v.node) for v in values}
        if g.Extent.ELEMENT not in extents or g.Extent.LIST in extents:
            raise TraceError(f"reduce with {self.name} needs element values", where=where,
                             why="It folds a row, which has one value per column.",
                             fix="fg.reduce(monoid, x) with an element value x.")
        lifted = _flat(self.identity, self.lift(*values), "lift", self.lift)
        for node in lifted:
            no_vector(self.name, node, "Make numbers of them: fg.inner, fg.dot, fg.sqdist.")
        own = build.add(g.Own(operator, tuple(lifted), where)).node
        assert isinstance(own, g.Own)
        parts = (build.add(g.Field(own, f.name, where)) for f in operator.fields)
        state = _rebuilt(self.identity, parts)
        return state if self.project is None else self.project(state)


def monoid(
    identity: Any, lift: Callable[..., Any], merge: Callable[[Any, Any], Any],
    project: Callable[[Any], Any] | None = None, *, name: str | None = None,
    commutative: bool | None = None, assume: Sequence[Law] = (),
) -> OwnMonoid:
    """A reduction of your own: elements are lifted to states, states merge, the last is projected.

    identity: the state of no elements: a number, or a tuple or dict of such states. It also says
    what a state is, which therefore is no argument of its own: 0.0 stands for a floating-point
    field, 0 for a whole number (int64; float beside a float), False for a condition.
    lift(x, …): element(s) to state. merge(a, b): two states to one, a from the left. project(s):
    the result, row values in any nesting; left out: the state itself. All three are traced, so they
    use Python's operators and fusegen's elementwise functions; they reduce nothing themselves.
    commutative: False skips that proof, and merges in row order; None finds out.
    assume: laws ("associative", "identity", "commutative") to rely on where no proof is found. A
    law with a counterexample cannot be assumed.

    The laws are proved or refuted where the monoid is first used. A state must be a monoid for
    every way to cut a row: merge associative, identity neutral on both sides, two empty states
    included. Sums in floating point obey them up to rounding. Without a proof that a ⊕ b = b ⊕ a,
    states merge in row order.

    Raises ArgumentError; using it raises TraceError, DTypeError, LawViolation or UnprovedLaw.
    """
    where = here()
    elements = _parameters(lift, "lift", where)
    if len(_parameters(merge, "merge", where)) != 2:
        raise ArgumentError("merge takes two states", where=where, fix="merge=lambda a, b: …")
    if project is not None and len(_parameters(project, "project", where)) != 1:
        raise ArgumentError("project takes one state", where=where, fix="project=lambda s: …")
    _check_claims(commutative, assume, where)
    _named_fields(identity, where)
    given = merge.__name__ if name is None else name
    return OwnMonoid(
        name="monoid" if given == "<lambda>" else identifier(given), identity=identity, lift=lift,
        merge=merge, project=project, elements=elements, ordered=commutative is False,
        assumed=tuple(assume), loc=where, codes=frozenset({merge.__code__}),
    )


def _check_claims(commutative: bool | None, assume: Sequence[object], where: Loc) -> None:
    """Raises ArgumentError for laws that nobody may claim, or that there are not."""
    for law in assume:
        if law not in LAWS:
            raise ArgumentError(f"there is no law {law!r} to assume", where=where,
                                why=f"Laws are {', '.join(LAWS)}.",
                                fix=nearest(str(law), LAWS))
    if commutative is True:
        raise ArgumentError("commutative=True is for fusegen to find out", where=where,
                            fix='Leave it out, or assume=("commutative",).')


def product(*monoids: OwnMonoid, name: str | None = None) -> OwnMonoid:
    """Monoids over the same elements as one; its state and result are tuples of theirs."""
    where = here()
    if not monoids or len({len(m.elements) for m in monoids}) != 1:
        raise ArgumentError("a product needs monoids that take the same number of elements",
                            where=where,
                            why=f"Given: {', '.join(map(repr, monoids)) or 'none'}.")
    projects = [m.project or (lambda s: s) for m in monoids]
    return OwnMonoid(
        name=identifier(name or "_and_".join(m.name for m in monoids)),
        identity=tuple(m.identity for m in monoids),
        lift=lambda *xs: tuple(m.lift(*xs) for m in monoids),
        merge=lambda a, b: tuple(m.merge(p, q) for m, p, q in zip(monoids, a, b, strict=True)),
        project=lambda s: tuple(p(part) for p, part in zip(projects, s, strict=True)),
        elements=monoids[0].elements, ordered=any(m.ordered for m in monoids),
        assumed=tuple(law for law in LAWS if any(law in m.assumed for m in monoids)), loc=where,
        codes=frozenset().union(*(m.codes for m in monoids)),
    )


def reduce(monoid: OwnMonoid, *x: Operand) -> Any:
    """Fold the row with a monoid of your own: `fg.reduce(monoid, x)`, or (monoid, x, y, …).

    The result is what its project makes of the row's state: row values, in any nesting.
    """
    where = here()
    if not isinstance(monoid, OwnMonoid):
        raise TraceError(f"reduce takes a monoid first, got {type(monoid).__name__}", where=where,
                         fix="fg.reduce(fg.monoid(…), x).")
    return monoid.over(x, where)


def _parameters(fn: object, what: str, where: Loc) -> tuple[str, ...]:
    if not inspect.isfunction(fn):
        raise ArgumentError(f"{what} must be a function, got {type(fn).__name__}", where=where)
    found = inspect.signature(fn).parameters
    for name, parameter in found.items():
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise ArgumentError(f"{what} has a parameter {name} that is not positional",
                                where=where, fix=f"{what}=lambda a, b: …")
    if not found:
        raise ArgumentError(f"{what} takes nothing", where=where)
    return tuple(found)


# ---- nested states ----


def _leaves(state: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(state, dict):
        for key, part in state.items():
            yield from _leaves(part, (*path, str(key)))
    elif isinstance(state, tuple | list):
        for i, part in enumerate(state):
            yield from _leaves(part, (*path, f"s{i}"))
    else:
        yield path, state


def _named_fields(identity: Any, where: Loc) -> dict[str, Lit]:
    """The identity's numbers by a name for each. Raises ArgumentError for anything else."""
    found: dict[str, Lit] = {}
    for path, value in _leaves(identity, ()):
        number = plain(value)
        name = c_identifier("_".join(path) or "value")
        if number is None or name in found:
            raise ArgumentError(
                f"the identity has {value!r} at {'.'.join(path) or 'its top'}", where=where,
                why="It holds numbers, in tuples or dicts, each with a name of its own.",
                fix='For example 0.0, or {"n": 0, "mu": 0.0}.',
            )
        kind: Kind = "bool" if isinstance(number, bool) else "int" if is_whole(number) else "float"
        found[name] = Lit(number, kind)
    if not found:
        raise ArgumentError("the identity is empty", where=where, fix="Give the state a field.")
    return found


def _rebuilt(identity: Any, values: Iterator[Value]) -> Any:
    """Values in the shape of the identity."""
    if isinstance(identity, dict):
        return {key: _rebuilt(part, values) for key, part in identity.items()}
    if isinstance(identity, tuple | list):
        return tuple(_rebuilt(part, values) for part in identity)
    return next(values)


def _flat(identity: Any, state: Any, what: str, fn: Callable[..., Any]) -> list[g.Node]:
    """The nodes of a state in the identity's order. Raises TraceError for another shape."""
    if isinstance(identity, dict):
        if not isinstance(state, dict) or set(state) != set(identity):
            _misshapen(what, fn, identity, state)
        parts = [(part, state[key]) for key, part in identity.items()]
    elif isinstance(identity, tuple | list):
        if not isinstance(state, tuple | list) or len(state) != len(identity):
            _misshapen(what, fn, identity, state)
        parts = list(zip(identity, state, strict=True))
    else:
        if isinstance(state, dict | tuple | list) or state is None:
            _misshapen(what, fn, identity, state)
        return [node_of(state)]
    return [node for part, value in parts for node in _flat(part, value, what, fn)]


def _misshapen(what: str, fn: Callable[..., Any], identity: Any, state: Any) -> NoReturn:
    code = fn.__code__
    text = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    raise TraceError(
        f"{what} returns {_shape(state)}, the identity is {_shape(identity)}",
        where=Loc(code.co_filename, code.co_firstlineno, text),
        why="States have the shape of the identity.",
    )


def _shape(state: Any) -> str:
    if isinstance(state, dict):
        return f"{{{', '.join(f'{k}: {_shape(v)}' for k, v in state.items())}}}"
    if isinstance(state, tuple | list):
        return f"({', '.join(map(_shape, state))})"
    return "nothing" if state is None else "a number"
