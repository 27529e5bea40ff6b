"""What users hold: a Pipeline."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from fusegen import signature as sg
from fusegen.blame import blamed, blames
from fusegen.callables import Held, function_of
from fusegen.compiled import Compiled, Spec, asked_for, asked_target, checked, target_of
from fusegen.compiler import Traced, Work
from fusegen.derivation import Derivation
from fusegen.dispatch import Call, Choices, Front, no_source, prepare
from fusegen.dtypes import DType
from fusegen.errors import ArgumentError, FusegenError
from fusegen.forms import check_form
from fusegen.kinds import DTypes, assumed_dtypes
from fusegen.names import nearest
from fusegen.nesting import nest
from fusegen.plan import Plan
from fusegen.recall import MISS, Recall
from fusegen.runtime import arrays as ar
from fusegen.runtime.columns import check_columns
from fusegen.runtime.results import new_result
from fusegen.runtime.rows import Axes, as_rows, plain_axis, rows_of
from fusegen.schedule.problem import Problem
from fusegen.schedule.target import host_cpu
from fusegen.shared import Recent
from fusegen.signature import Signature, signature_of
from fusegen.trace import inline, is_tracing
from fusegen.traces import MOST, Traces

if TYPE_CHECKING:
    import networkx as nx

    from fusegen.report.explain import Explanation



class Pipeline(Held):
    """A row pipeline, made by `fg.pipeline`: call it with arrays, or ask what it compiles to.

    Positional parameters are arrays (element inputs unless annotated
    `fg.PerColumn` or `fg.PerRow`; default None makes one optional), keyword-only parameters are
    compile-time constants.
    """

    like: tuple[str, ...] = ()  # inputs whose types the results take: a gradient's

    def __init__(self, fn: Callable[..., Any], *, allow_cancellation: bool = False) -> None:
        self.given, self.fn = fn, function_of(fn)
        functools.update_wrapper(self, fn := self.fn)
        self.allow_cancellation = allow_cancellation
        self.name: str = fn.__name__
        self.signature: Signature = signature_of(fn)
        self.traces = Traces(self)
        self._recall = Recall(self.signature.arrays)
        self.derived: Recent[Any, Any] = Recent(MOST)  # made of this one: its gradients

    def __repr__(self) -> str:
        s = self.signature
        arrays = ", ".join(f"[{n}]" if n in s.optional else n for n in s.arrays)
        constants = "".join(f", {n}=" for n in s.constants)
        return f"<fusegen pipeline {self.name}({arrays}{constants})>"

    # ---- running ----

    def __call__(
        self, *arrays: Any, axis: Axes = -1, out: Any = None, keepdims: bool = False,
        form: str = "auto", device: str = "auto", deterministic: bool = False, **constants: Any,
    ) -> Any:  # fmt: skip
        """Run where the arrays live; results are arrays of the same kind.

        arrays: element inputs broadcast against one another as NumPy's, so that (n_cols,) is the
        same for every row, also where there are as many rows; per-row inputs have the shape of the
        axes that stay, per-column inputs that of the reduced ones, (n_cols,).
        axis: the reduced axis; a tuple of them, or None for all, are one row in C order.
        keepdims: reduced axes stay, with size 1 (lists: K, in the last of them).
        out: an array, or a tuple or dict like the outputs, to write into.
        form: auto, online, safe or unfused. device: auto, cpu or cuda, must be where the data is.
        deterministic: a row's bits do not depend on the number of rows; see `compile`.
        Row values have the other axes' shape; lists have K where the (last) reduced axis was.
        Kinds: torch, CuPy, JAX in, the same out; pandas and xarray keep their labels on results of
        their input's shape; all else (lists, polars, dask) gives NumPy arrays.
        Raises ArgumentError, ShapeError, DTypeError, TraceError, or BackendError.
        """
        try:
            if is_tracing():
                sg.refuse_inside(
                    self.name, axis=plain_axis(axis) != -1, out=out is not None,
                    keepdims=sg.check_flag("keepdims", keepdims), form=form != "auto",
                    device=device != "auto",
                    deterministic=sg.check_flag("deterministic", deterministic),
                )  # fmt: skip
                return self._inline(arrays, constants)
            if axis.__class__ is not int:
                axis = plain_axis(axis)
            if self.traces.watches.changed() and self.traces.are_stale():
                self._recall = Recall(self.signature.arrays)
            rest = (axis, form, device, deterministic, keepdims)
            found = self._recall.find(arrays, constants, out, rest)
            if found is not MISS:
                return found
            one_tree = sg.check_flag("deterministic", deterministic)
            choices = Choices(form=check_form(form), deterministic=one_tree)
            call = self.prepare(arrays, constants, axis=axis, out=out, device=device,
                                choices=choices, keepdims=keepdims)  # fmt: skip
            call.run()
            self._recall.learn(call, arrays, constants, out, rest)
            return call.hand_back()
        except FusegenError as error:
            raise blamed(error)  # noqa: B904

    def prepare(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any], *, axis: Axes = -1,
        out: Any = None, keepdims: bool = False, form: str = "auto", device: str = "auto",
        choices: Choices | None = None,
    ) -> Call:  # fmt: skip
        """Everything of a call but running it; `named` holds constants and arrays by name."""
        present, constants = self.bind(arrays, named)
        adopted = {n: ar.adopt(n, a) for n, a in present.items()}
        place = ar.one_device(adopted, device)
        chosen = choices if choices is not None else Choices(form=check_form(form))
        dtypes = {n: a.dtype for n, a in adopted.items()}
        front = self.front(dtypes, constants, chosen)
        return prepare(front, adopted, place, axis, out, sg.check_flag("keepdims", keepdims))

    @blames
    def reference(
        self, *arrays: Any, axis: Axes = -1, keepdims: bool = False, **constants: Any
    ) -> Any:
        """The text as written, in NumPy float64 (int64 for integers); always NumPy arrays."""
        from fusegen.runtime.numpy_path import oracle

        present, values = self.bind(arrays, constants)
        adopted = {n: ar.on_host(ar.adopt(n, a)) for n, a in present.items()}
        graph = self.traced(frozenset(adopted), values).graph
        shapes = {n: a.array.shape for n, a in adopted.items()}
        rows = rows_of(graph.inputs, shapes, axis, sg.check_flag("keepdims", keepdims))
        check_columns(graph, rows.n_cols)
        run = oracle(graph, {n: a.dtype for n, a in adopted.items()})
        like = next(iter(adopted.values()))
        results = [new_result(p, rows, like) for p in run.outputs]
        given = {
            graph.names[i]: as_rows(adopted[i.name].array, i.axis, rows) for i in graph.inputs
        }
        written = {p.name: r.written for p, r in zip(run.outputs, results, strict=True)}
        run({**given, **written}, rows.n_rows, rows.n_cols)
        return nest(graph.structure, [r.shaped for r in results])

    @blames
    def compile(
        self, *arrays: Any, form: str = "auto", target: str | None = None,
        deterministic: bool = False, tune: bool = False, chunk: int | None = None,
        **constants: Any,
    ) -> Compiled:  # fmt: skip
        """Compile once for these arrays or `fg.Spec`s.

        target: "cpu", a CPU level, "sm_90"…, "numpy" (no compiler); None: where the arrays live.
        deterministic: the bits of a row depend on its length, the types, the device and how rows
        lie to 16-byte boundaries, never on how many rows there are or which one it is. Without it
        few rows may be cut up otherwise than many. The same call gives the same bits either way.
        tune: measure the best few schedules on these arrays, which must live on a GPU, and use the
        fastest for their shape, here and in later processes (`Compiled.tuned`); other calls, and
        other shapes, do not take part. A second or so; memory for two more sets of results.
        chunk: elements folded safely inside before two states merge; 1 is the textbook online form.
        On a CPU a multiple of the vector up to 262144, on a GPU a power of two that a thread holds.
        """
        present, values = self.bind(arrays, constants)
        choices = Choices(form=check_form(form), chunk=sg.check_whole("chunk", chunk),
                          target=None if target is None else asked_target(target),
                          numpy=isinstance(target, str) and target == "numpy",
                          deterministic=sg.check_flag("deterministic", deterministic),
                          tune=sg.check_flag("tune", tune))  # fmt: skip
        there = {n: ar.adopt(n, a) for n, a in present.items() if not isinstance(a, Spec)}
        shapes, dtypes = asked_for(present, there)
        if choices.target is None:
            choices = replace(choices, target=target_of(there))
        front = self.front(dtypes, values, choices)
        rows = rows_of(front.graph.inputs, shapes, -1)
        check_columns(front.graph, rows.n_cols)
        options = dict(form=form, target=target, deterministic=deterministic, chunk=chunk, **values)
        specs = {n: Spec(shapes[n], dtypes[n].name) for n in present}
        found = Compiled(self.signature, choices, front, rows, (self, options | specs))
        if tune:
            found.tune(there, present)
        if len(there) == len(present):
            found.load(there)
        return found

    # ---- what it compiles to ----

    @blames
    def work(
        self, *, target: str = "cpu", dtype: DTypes = "float32", n_cols: int | None = None,
        form: str = "auto", chunk: int | None = None, inputs: Collection[str] = (),
        n_rows: int | None = None, deterministic: bool = False, **constants: Any,
    ) -> Work:  # fmt: skip
        """A compilation for types; `inputs` names optional inputs to include."""
        for name in sg.check_names("inputs", inputs):
            if name not in self.signature.optional:
                raise ArgumentError(f"{self.name} has no optional input {name!r}",
                                    fix=nearest(name, self.signature.optional))  # fmt: skip
        present = frozenset(n for n in self.signature.arrays
                            if n not in self.signature.optional or n in inputs)  # fmt: skip
        values = self.signature.bind_constants(constants)
        found = asked_target(target)
        dtypes = assumed_dtypes(self.traced(present, values).graph, dtype)
        choices = Choices(form=check_form(form), chunk=sg.check_whole("chunk", chunk), target=found)
        problem = Problem(dtypes=dtypes, n_rows=sg.check_count("n_rows", n_rows, 0),
                          n_cols=sg.check_count("n_cols", n_cols),
                          any_rows=sg.check_flag("deterministic", deterministic))  # fmt: skip
        return checked(self.front(dtypes, values, choices).work(found or host_cpu(), problem))

    @blames
    def source(self, target: str = "sm_90", dtype: DTypes = "float32", n_cols: int | None = None,
               form: str = "auto", chunk: int | None = None, **more: Any) -> str:  # fmt: skip
        """The generated CUDA C++ ("sm_80"…) or C++ ("cpu"); needs no GPU, CuPy or compiler.

        dtype: one for all inputs, or by input name. inputs=(…): optional inputs to include.
        """
        if isinstance(target, str) and target == "numpy":
            raise no_source()
        asked: Any = {"dtype": dtype, "n_cols": n_cols, "form": form, "chunk": chunk}
        return self.work(target=target, **asked, **more).source

    @blames
    def plan(self, *, target: str = "cpu", dtype: DTypes = "float32", n_cols: int | None = None,
             form: str = "auto", chunk: int | None = None, **more: Any) -> Plan:  # fmt: skip
        """Sweeps, and reads and writes per element, of a form."""
        asked: Any = {"dtype": dtype, "n_cols": n_cols, "form": form, "chunk": chunk}
        return self.work(target=target, **asked, **more).plan

    @blames
    def derivation(self, **more: Any) -> Derivation:
        """Derived states, pivots, transports, obligations with status and time, refusals."""
        return self.work(**more).derivation

    @blames
    def explain(self, **more: Any) -> Explanation:
        """All of it for a person: str(), and HTML in a notebook. Arguments as for `source`."""
        from fusegen.report.explain import Explanation

        return Explanation(self.name, self.fn, self.work(**more))

    @blames
    def graph(self, *, inputs: Collection[str] = (), **constants: Any) -> nx.DiGraph:
        """The traced graph: nodes by name, attributes label, loc, extent and output."""
        from fusegen.fusion import as_networkx

        return as_networkx(self.work(inputs=inputs, **constants).graph)

    # ---- remembered ----

    def traced(self, present: frozenset[str], constants: dict[str, Any]) -> Traced:
        return self.traces.traced(present, constants)

    def front(
        self, dtypes: Mapping[str, DType], constants: dict[str, Any], choices: Choices
    ) -> Front:
        return self.traces.front(dtypes, constants, choices)

    def traced_functions(self) -> tuple[object, ...]:
        """What `captured` follows of a pipeline that a text uses."""
        return (self.fn,)

    def bind(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """(arrays that are present, constants) by name. Raises ArgumentError."""
        by_name = {n: v for n, v in named.items() if n in self.signature.arrays}
        rest = {n: v for n, v in named.items() if n not in by_name}
        constants = self.signature.bind_constants(rest)
        return self.signature.bind_arrays(arrays, by_name), constants

    def _inline(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        present, constants = self.bind(arrays, named)
        return inline(self.fn, [present.get(n) for n in self.signature.arrays], constants)


@overload
def pipeline(fn: Callable[..., Any], *, allow_cancellation: bool = False) -> Pipeline: ...
@overload
def pipeline(*, allow_cancellation: bool) -> Callable[[Callable[..., Any]], Pipeline]: ...


@blames
def pipeline(
    fn: Callable[..., Any] | None = None, *, allow_cancellation: bool = False
) -> Pipeline | Callable[[Callable[..., Any]], Pipeline]:
    """Turn a function on rows into a Pipeline. Raises TraceError for unusable parameters.

    allow_cancellation: merge also sums whose read-out is a difference of larger sums. The form is
    equal in exact arithmetic, but may lose digits where the text keeps them; without it such a sum
    keeps a sweep of its own.
    """
    if fn is None:
        return functools.partial(pipeline, allow_cancellation=allow_cancellation)
    given = fn.given if isinstance(fn, Pipeline) else fn
    return Pipeline(given, allow_cancellation=allow_cancellation)
