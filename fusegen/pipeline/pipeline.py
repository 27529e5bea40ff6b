"""What users hold: a Pipeline."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fusegen.backend.arrays.adopt import adopt_all, one_memory
from fusegen.backend.arrays.columns import check_columns
from fusegen.backend.arrays.rows import Axes, plain_axis
from fusegen.backend.arrays.vectors import types_of
from fusegen.backend.problem import Problem
from fusegen.backend.registry import HERE, target_named
from fusegen.compile.passes import Work
from fusegen.compile.typed import Traced
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import ArgumentError, FusegenError
from fusegen.ir.forms import check_form, check_precision, check_role
from fusegen.ir.kinds import DTypes, assumed_dtypes
from fusegen.ir.nearest import nearest
from fusegen.ir.shared import Recent, lazy
from fusegen.ir.sorts import VECTORS
from fusegen.lang import signature as sg
from fusegen.lang.annotations import axis_of
from fusegen.lang.blame import blamed, blames
from fusegen.lang.callables import Held, function_of
from fusegen.lang.signature import Signature, signature_of
from fusegen.lang.trace import inline
from fusegen.lang.value import ACTIVE
from fusegen.pipeline import by_jax, by_torch
from fusegen.pipeline.call import Call, prepare
from fusegen.pipeline.compiled import Compiled, checked, compiled_for
from fusegen.pipeline.exports import Exports
from fusegen.pipeline.precision import check_use
from fusegen.pipeline.remembered import MISS
from fusegen.pipeline.shown import Shown
from fusegen.pipeline.states.calls import Stateful
from fusegen.pipeline.traces import MOST, Traces
from fusegen.pipeline.variants import Choices, Variants


class Pipeline(Held, by_torch.Calls, Shown, Exports, Stateful):
    """A row pipeline, made by `fg.pipeline`: call it with arrays, or ask what it compiles to.

    Positional parameters are arrays (element inputs unless annotated
    `fg.PerColumn` or `fg.PerRow`; default None makes one optional), keyword-only parameters are
    constants: floats that the text only computes with are arguments of its kernels, all else is
    part of them (docs/constants.md).
    """

    __slots__ = ("traces",)  # read at every call, three times as fast as from its long dict
    like: tuple[str, ...] = ()  # inputs whose types the results take: a gradient's

    def __init__(self, fn: Callable[..., Any], *, allow_cancellation: bool = False) -> None:
        self.given, self.fn = fn, function_of(fn)
        functools.update_wrapper(self, fn := self.fn)
        self.allow_cancellation = allow_cancellation
        self.name: str = fn.__name__
        self.identity = by_torch.identity(self.name)
        self.signature: Signature = signature_of(fn)
        self.traces = Traces(self, self.signature.arrays, self.signature.fixed)
        self.derived: Recent[Any, Any] = Recent(MOST)  # made of this one: its gradients

    @lazy
    def vectors(self) -> frozenset[str]:
        """Inputs that hold vectors."""
        parameters = inspect.signature(self.fn).parameters
        return frozenset(n for n in self.signature.arrays
                         if axis_of(self.fn, n, parameters[n].annotation) in VECTORS)

    def __repr__(self) -> str:
        s = self.signature
        arrays = ", ".join(f"[{n}]" if n in s.optional else n for n in s.arrays)
        constants = "".join(f", {n}=" for n in s.constants)
        return f"<fusegen pipeline {self.name}({arrays}{constants})>"

    def __call__(
        self, *arrays: Any, axis: Axes = -1, out: Any = None, keepdims: bool = False,
        form: str = "auto", device: str = "auto", deterministic: bool = False,
        precision: str = "float32", **constants: Any,
    ) -> Any:
        """Run where the arrays live; results are arrays of the same kind.

        arrays: element inputs broadcast against one another as NumPy's, so that (n_cols,) is the
        same for every row, also where there are as many rows; per-row inputs have the shape of the
        axes that stay, per-column inputs that of the reduced ones, (n_cols,).
        axis: the reduced axis; a tuple of them, or None for all, are one row in C order.
        keepdims: reduced axes stay, with size 1 (lists: K, in the last of them).
        out: what to write into, like the outputs. deterministic, precision: see `compile`.
        form: auto, online, safe or unfused. device: auto, cpu or cuda, must be where the data is.
        Row values have the other axes' shape; lists have K where the (last) reduced axis was.
        Kinds: torch, CuPy, JAX, array API in, the same out; pandas, xarray, polars keep labels on
        full rows and row values; all else gives NumPy arrays, Dask's too (lazily: fg.dask.apply).
        Raises ArgumentError, ShapeError, DTypeError, TraceError, or BackendError.
        """
        rest = (axis, form, device, deterministic, keepdims, precision)
        if by_torch.compiling():
            return by_torch.in_graph(self, arrays, constants, out, rest)
        try:
            if ACTIVE.get() is not None:  # is_tracing(), at every call
                return self._inside(arrays, constants, out, rest)
            if axis.__class__ is not int:
                rest = (plain_axis(axis), *rest[1:])
            watches = self.traces.watches
            if (watches.items or watches.others) and watches.changed():
                self.traces.are_stale()
            found = self.traces.recall.serve(arrays, constants, out, rest)
            if found is MISS:
                found = by_torch.served(self, arrays, constants, out, rest)
            if found is MISS:
                found = by_jax.served(self, arrays, constants, out, rest)
            return self._look(arrays, constants, out, rest) if found is MISS else found
        except FusegenError as error:
            raise blamed(error)  # noqa: B904

    def _look(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any, rest: by_torch.Rest
    ) -> Any:
        """A call looked at in full, and remembered."""
        recall = self.traces.recall
        axis, form, device, deterministic, keepdims, precision = rest
        choices = Choices(form=check_form(form), precision=check_precision(precision),
                          deterministic=sg.check_flag("deterministic", deterministic))
        call = self.prepare(arrays, named, axis=axis, out=out, device=device, choices=choices,
                            keepdims=keepdims)
        call.run()
        recall.learn(call, arrays, named, out, rest)
        return call.hand_back()

    def prepare(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any], *, axis: Axes = -1,
        out: Any = None, keepdims: bool = False, form: str = "auto", device: str = "auto",
        choices: Choices | None = None,
    ) -> Call:
        """Everything of a call but running it; `named` holds constants and arrays by name."""
        present, constants = self.bind(arrays, named)
        adopted = adopt_all(present)
        one_memory(adopted, device)
        chosen = choices if choices is not None else Choices(form=check_form(form))
        dtypes = types_of(adopted, self.vectors)
        variants = self.of_types(dtypes, constants, chosen)
        return prepare(variants, adopted, constants, axis, out, sg.check_flag("keepdims", keepdims))

    @blames
    def reference(
        self, *arrays: Any, axis: Axes = -1, keepdims: bool = False, **constants: Any
    ) -> Any:
        """The text as written, in NumPy float64 (int64 for integers); always NumPy arrays."""
        from fusegen.pipeline.reference import reference

        present, values = self.bind(arrays, constants)
        graph = self.traced(frozenset(present), values).graph
        return reference(graph, present, axis, sg.check_flag("keepdims", keepdims))

    @blames
    def compile(
        self, *arrays: Any, form: str = "auto", target: str | None = None,
        deterministic: bool = False, precision: str = "float32", tune: bool = False,
        chunk: int | None = None, **constants: Any,
    ) -> Compiled:
        """Compile once for these arrays or `fg.Spec`s.

        target: "cpu", a CPU level, "sm_90"…, "numpy" (no compiler); None: where the arrays live.
        deterministic: the bits of a row depend on its length, the types, the device and how rows
        lie to 16-byte boundaries, never on how many rows there are or which one it is. Without it
        few rows may be cut up otherwise than many. The same call gives the same bits either way.
        precision: how dots of float32 vectors may be multiplied: "float32", as float32 arithmetic
        does or more exactly, "bf16x3", twice as fast and off by 2^-16 of Σ |x||y|, or "tf32", off
        by 2^-10. What tensor cores do not serve is computed in float32.
        tune: measure the best few schedules on these arrays, which must live on a GPU, and use the
        fastest for their shape, here and in later processes (`Compiled.tuned`); other calls, and
        other shapes, do not take part. A second or so; memory for two more sets of results.
        chunk: elements folded safely inside before two states merge; 1 is the textbook online form.
        On a CPU a multiple of the vector up to 262144, on a GPU a power of two that a thread holds.
        """
        present, values = self.bind(arrays, constants)
        choices = Choices(form=check_form(form), chunk=sg.check_whole("chunk", chunk),
                          target=None if target is None else target_named(target),
                          deterministic=sg.check_flag("deterministic", deterministic),
                          precision=check_precision(precision),
                          tune=sg.check_flag("tune", tune))
        return compiled_for(self, present, values, choices, {
            "form": form, "target": target, "deterministic": deterministic, "chunk": chunk,
            "precision": precision})

    # ---- what it compiles to ----

    @blames
    def work(
        self, *, target: str = HERE, dtype: DTypes = "float32", n_cols: int | None = None,
        form: str = "auto", chunk: int | None = None, inputs: Collection[str] = (),
        n_rows: int | None = None, deterministic: bool = False, precision: str = "float32",
        role: str = "call", **constants: Any,
    ) -> Work:
        """A compilation for types; `inputs` names optional inputs to include."""
        dtypes, values = self.assumed(dtype, inputs, constants)
        found = target_named(target)
        choices = Choices(form=check_form(form), role=check_role(role), target=found,
                          chunk=sg.check_whole("chunk", chunk),
                          precision=check_precision(precision),
                          deterministic=sg.check_flag("deterministic", deterministic))
        problem = Problem(dtypes=dtypes, n_rows=sg.check_count("n_rows", n_rows, 0),
                          n_cols=sg.check_count("n_cols", n_cols),
                          any_rows=choices.deterministic, precision=choices.precision,
                          batch_rows=n_rows, may_store=choices.form == "auto")
        variants = self.of_types(dtypes, values, choices)
        if problem.n_cols is not None and choices.role == "call":  # others take pieces of rows
            check_columns(variants.graph, problem.n_cols)
        return checked(variants.work(found, problem))

    # ---- remembered ----

    def traced(self, present: frozenset[str], constants: dict[str, Any]) -> Traced:
        return self.traces.traced(present, constants)

    def known_roles(self) -> Recent[Any, Any]:
        """Programs of states by types and constants, for as long as the text is what it was."""
        self.traces.are_stale()
        return self.traces.roles

    def of_types(
        self, dtypes: Mapping[str, DType], constants: dict[str, Any], choices: Choices
    ) -> Variants:
        wide = any(d.name == "float64" for d in dtypes.values())
        self.signature.check_positive(wide, constants)
        if choices.precision != "float32":
            check_use(self.name, choices, {n: d for n, d in dtypes.items() if n in self.vectors})
        return self.traces.of_types(dtypes, constants, choices)

    def assumed(
        self, dtype: DTypes, inputs: Collection[str], constants: Mapping[str, Any]
    ) -> tuple[dict[str, DType], dict[str, Any]]:
        """Types and constants by name, without arrays; `inputs`: optional ones that are there.
        Raises ArgumentError, DTypeError, or what is wrong with the text."""
        s = self.signature
        for name in sg.check_names("inputs", inputs):
            if name not in s.optional:
                raise ArgumentError(f"{self.name} has no optional input {name!r}",
                                    fix=nearest(name, s.optional))
        present = frozenset(n for n in s.arrays if n not in s.optional or n in inputs)
        values = s.bind_constants(constants)
        return assumed_dtypes(self.traced(present, values).graph, dtype), values

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

    def _inside(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any], out: Any, rest: by_torch.Rest
    ) -> Any:
        """A call that is part of another text."""
        axis, form, device, deterministic, keepdims, precision = rest
        sg.refuse_inside(
            self.name, axis=plain_axis(axis) != -1, out=out is not None,
            keepdims=sg.check_flag("keepdims", keepdims), form=form != "auto",
            device=device != "auto", deterministic=sg.check_flag("deterministic", deterministic),
            precision=check_precision(precision) != "float32",
        )
        return self._inline(arrays, named)

    def _inline(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        present, constants = self.bind(arrays, named)
        return inline(self.fn, [present.get(n) for n in self.signature.arrays], constants)
