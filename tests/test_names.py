"""Users' names among those of generated functions: what a function says beside them is reserved,
and what it derives from one is never another's."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simt.source import blank_comments_and_strings
from support import (
    fake_cupy,
    nvrtc,
    own_cases,
    own_names,
    short_rows,
    state_cases,
    state_rows,
    vector_cases,
    vector_library,
)
from support.algebra_cases import ACCEPTED
from support.cuda_cases import CONSTANTS, LIBRARY, Case, library_case, section_lists_case
from support.emulated import emulated
from support.own_names import PIPELINE, Found
from support.pairs import pairwise
from support.strip_cases import StripCase
from support.tiles import emulate

import fusegen as fg
from fusegen.backend.cuda.emit.meet import Meet, meet_source
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.cuda.schedule.states import meeting_schedule
from fusegen.backend.cuda.schedule.strips import strip_candidates
from fusegen.backend.target import CUDA_TARGETS
from fusegen.compile.passes import Work
from fusegen.compile.typed import Traced, Typed
from fusegen.ir import graph as g
from fusegen.ir.digest import digest
from fusegen.ir.names import Taken, array_identifier, c_identifier
from fusegen.pipeline.pipeline import Pipeline

_OWN = {n: p for n, p in vars(own_cases).items() if isinstance(p, Pipeline)}
_FOUND = Found()


def _called(work: Work, name: str, **more: Any) -> Work:
    """The same work on a graph of this name, and of these names within."""
    graph = replace(work.graph, name=name, **more)
    typed = Typed(Traced(graph, digest(graph)), work.dtypes, work.form, work.typed.role)
    return replace(work, typed=typed)


def _renamed(work: Work) -> Work:
    """The same with names that no template has: the functions that say them hold users' text."""
    nodes, outputs = work.graph.nodes, work.graph.outputs
    return _called(
        work, PIPELINE,
        names={n: f"zq{2000 + i if isinstance(n, g.Input) else i}" for i, n in enumerate(nodes)},
        output_names=tuple(f"zq{1000 + i}" for i in range(len(outputs))),
    )


@pytest.fixture(scope="module", autouse=True)
def update_names(request: pytest.FixtureRequest) -> Iterator[bool]:
    """`--update-names` writes the list from what these tests see, in one process."""
    wanted = bool(request.config.getoption("--update-names"))
    assert not (wanted and hasattr(request.config, "workerinput")), "in one process: without -n"
    yield wanted
    if wanted:
        _FOUND.write()


@pytest.fixture
def check(update_names: bool) -> Callable[..., None]:
    def look_at(work: Work, free: Collection[str] = ()) -> None:
        source = f"{work.emitted.given}\n{work.emitted.body}"  # no header names a user's value
        assert PIPELINE in source
        found = own_names.look(source, free)
        assert found.beside
        _FOUND.add(found)
        assert update_names or found.unknown() == set(), f"pytest {__file__} --update-names"

    return look_at


@pytest.mark.parametrize("name", LIBRARY)
def test_what_stands_beside_users_names_is_reserved(name: str, check: Callable[..., None]) -> None:
    lists = [{"k": k} for k in (40, 300, 1024)] if "k" in CONSTANTS.get(name, {}) else []
    for (n_rows, n_cols), dtype, given in pairwise(
            ((4000, 1000), (4000, 25_000), (10, 129_024), (4, 1_000_003)),
            ("float32", "bfloat16"), ({}, *lists)):
        if given.get("k", 0) < n_cols:
            case = library_case(name, 1, n_cols, dtype, **given)
            check(_renamed(case.work(n_rows=n_rows, aligned=n_cols % 2 == 0)))
    for form, arch in (("unfused", "sm_90"), ("online", "sm_80"), ("unfused", "sm_80")):
        check(_renamed(library_case(name, 1, 4096).work(form=form, arch=arch)))
    for target in ("x86-64-v3", "x86-64-v4"):
        for given in ({}, *lists[:1]):
            constants = {**CONSTANTS.get(name, {}), **given}
            check(_renamed(getattr(fg.library, name).work(target=target, **constants)))


@pytest.mark.parametrize("name", ["cross_entropy", "var_mean", *short_rows.TEXTS])
def test_bands_of_short_rows(name: str, check: Callable[..., None]) -> None:
    for n_cols, dtype, in_phase in ((35, "float32", False), (64, "bfloat16", True)):
        case = short_rows.case_of(name, 8, n_cols, dtype) if name in short_rows.TEXTS else (
            library_case(name, 1, n_cols, dtype))
        work = _renamed(case.work(n_rows=100_000, aligned=False, in_phase=in_phase))
        new = {*work.merging.names.values()} - {*work.graph.names.values()}
        for one in candidates(work.program, work.problem, work.target):
            check(work.scheduled(one.schedule), new)


def test_what_rows_share_out_of_phase(check: Callable[..., None]) -> None:
    for in_phase in (True, False):
        work = _renamed(library_case("layer_norm", 1, 34_657, "float16").work(
            n_rows=2549, aligned=False, in_phase=in_phase))
        for one in candidates(work.program, work.problem, work.target):
            check(work.scheduled(one.schedule))


@pytest.mark.parametrize("name", ["topk", "moe_gate"])
def test_lists_of_short_rows(name: str, check: Callable[..., None]) -> None:
    for k, n_cols, dtype in ((8, 64, "float32"), (8, 512, "bfloat16"), (40, 256, "float32")):
        work = _renamed(library_case(name, 1, n_cols, dtype, k=k).work(n_rows=65_536))
        ways = {c.schedule.lists: c.schedule
                for c in candidates(work.program, work.problem, work.target)}
        for schedule in ways.values():
            check(work.scheduled(schedule))


def test_lists_that_are_alike(check: Callable[..., None]) -> None:
    check(_renamed(section_lists_case(1024).work(n_rows=4000)))


@pytest.mark.parametrize("name", ["topk", "softmax_topk"])
def test_lists_of_slices(name: str, check: Callable[..., None]) -> None:
    work = _renamed(library_case(name, 1, 1_000_003, k=40).work(n_rows=4, aligned=False))
    found = [c.schedule for c in candidates(work.program, work.problem, work.target)
             if c.schedule.lists == "collected" and c.schedule.split]
    check(work.scheduled(found[0]))


@pytest.mark.long
@pytest.mark.parametrize("name", [*ACCEPTED, *_OWN])
def test_states_of_every_kind(name: str, check: Callable[..., None]) -> None:
    for target in ("sm_90", "x86-64-v3"):
        work = _renamed({**ACCEPTED, **_OWN}[name].work(target=target))
        new = {*work.merging.names.values()} - {*work.graph.names.values()}
        check(work, new)


@fg.pipeline
def of_both(k: fg.RowVector, v: fg.RowVector, q: fg.ColumnVector, do: fg.ColumnVector,
            m: fg.PerColumn, delta: fg.PerColumn):
    """As a gradient of columns: two dots, and two sums of the vectors that met."""
    p = fg.exp(fg.dot(k, q) - m)
    return fg.sum(p * (fg.dot(v, do) - delta) * q), fg.sum(p * do)


@fg.pipeline
def around(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, first: fg.PerRow,
           last: fg.PerRow):
    """Tiles of which a row has nothing, between those that it has."""
    s = fg.dot(q, k)
    s = fg.where((fg.index(s) < first) | (fg.index(s) > last), s, -np.inf)
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


VECTORS: dict[str, tuple[Pipeline, dict[str, Any]]] = {
    **{f"own_{n}": (p, {}) for n, p in vector_cases.TEXTS.items()},
    **{n: (getattr(fg.library, n), {**c}) for n, c in vector_library.ENTRIES if n != "attention"},
    "attention": (fg.library.attention, {"scale": 0.3, "causal": True}),
    "capped": (fg.library.attention, {"scale": 0.3, "softcap": 20.0}),
    "of_both": (of_both, {}), "around": (around, {}),
}
TILES: tuple[tuple[str, int, int, int, dict[str, str]], ...] = (
    ("float32", 3, 70, 300, {}), ("float32", 64, 70, 300, {"form": "unfused"}),
    ("float32", 64, 4096, 4096, {"precision": "tf32"}), ("float32", 128, 2000, 60_000, {}),
    ("bfloat16", 64, 4096, 4096, {}), ("bfloat16", 512, 4096, 4096, {}),
    ("bfloat16", 512, 5, 20_000, {}), ("bfloat16", 128, 2000, 60_000, {"target": "sm_80"}),
    ("float32", 64, 2000, 20_000, {"target": "sm_80"}), ("float16", 64, 5, 20_000, {}),
    ("float16", 100, 300, 700, {"target": "sm_80"}),
)
"""Vectors of every engine: their type and length, rows, columns, and how they are asked for."""


@pytest.mark.parametrize("name", VECTORS)
def test_elements_made_of_vectors(name: str, check: Callable[..., None]) -> None:
    p, constants = VECTORS[name]
    for target in ("x86-64-v3", "x86-64-v4"):
        for form in ("online", "unfused"):
            _check_vectors(_renamed(p.work(target=target, form=form, **constants)), check)
    for dtype, length, n_rows, n_cols, asked in TILES:
        kinds = dict.fromkeys(p.vectors - p.signature.optional, f"{dtype}[{length}]")
        work = p.work(dtype=kinds, n_rows=n_rows, n_cols=n_cols,
                      **{"target": "sm_90", **asked}, **constants)
        _check_vectors(_renamed(work), check)


@pytest.mark.long
def test_rows_that_go_by(check: Callable[..., None]) -> None:
    """However they do: a text whose states are many has most ways to."""
    work = short_rows.case_of("statistics", 8, 6806, "bfloat16").work(n_rows=2500, aligned=False)
    every = candidates(work.program, work.problem, work.target)
    assert any(c.schedule.home.next_chunk for c in every)
    for one in {(c.schedule.team.said, type(c.schedule.home)): c.schedule for c in every}.values():
        check(_renamed(work).scheduled(one))


def _check_vectors(work: Work, check: Callable[..., None]) -> None:
    check(work, {q.name for q in work.program.inputs if not q.name.startswith("zq")})


OF_STATES = {n: fg.pipeline(text) for n, text in state_cases.TEXTS.items()}
OF_STATES |= {n: state_rows.CASES[n][0] for n in ("listed", "numbered", "picks", "rags")}


@pytest.mark.parametrize("name", OF_STATES)
def test_programs_of_one_role(name: str, check: Callable[..., None]) -> None:
    p = OF_STATES[name]
    for target in ("sm_90", "x86-64-v3"):
        for role in ("fold", "merge", "map" if name in state_rows.CASES else "finish"):
            work = _renamed(p.work(role=role, target=target))
            if own_names.beside_users(work.source):  # a merge of lists alone has members only
                check(work, {q.name for q in work.program.kernels[0].params if q.field})


@pytest.mark.parametrize("name", state_cases.TEXTS)
def test_ranks_that_meet(name: str, check: Callable[..., None]) -> None:
    merge, finish = (_renamed(OF_STATES[name].work(role=role, target="sm_90", n_cols=n)).program
                     for role, n in (("merge", 3), ("finish", 100)))
    schedule = meeting_schedule(merge, finish, 3, CUDA_TARGETS["sm_90"])
    source = meet_source(Meet(merge, finish, schedule, 3))
    if own_names.beside_users(source.text()):
        fields = {q.name for q in finish.kernels[0].params if q.field}
        check(SimpleNamespace(emitted=source), fields)


@fg.pipeline
def neighbours_of_states(x, total, part, bytes, row_states, m, m_state):
    """As locals and arrays of folds, merges and finishes."""
    share, _ = fg.topk(x, 3)
    row_lists, merged = fg.topk(total, 2)
    state = fg.max(m)
    return {"states": share, "next": merged, "lists": row_lists, "m": fg.sum(fg.exp(m - state)),
            "first_column": fg.sum(m_state), "best": fg.argmax(bytes), "top_value": fg.mean(part),
            "columns": fg.var(row_states)}


@pytest.mark.parametrize("place", ["cpu", "gpu"])
def test_states_of_names_that_resemble_derived_ones(place: str, gpu: object) -> None:
    rng, p = np.random.default_rng(3), neighbours_of_states
    given = [rng.normal(0, 1, (3, 50)).astype("f4") for _ in p.signature.arrays]
    where = {"cpu": np.asarray, "gpu": lambda a: fake_cupy.array(np.ascontiguousarray(a))}[place]
    parts = state_cases.pieces(p, given, [0, 1, 20, 50], where)
    state_cases.near(p.finish(fg.merge(p, *parts)), p.reference(*given), 1e-5)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "argmax"])
def test_rows_side_by_side(name: str, check: Callable[..., None]) -> None:
    work = _renamed(library_case(name, 1, 4096).work(n_rows=4096))
    work = replace(work, problem=replace(work.problem, inner=1024))
    found = strip_candidates(work.result("lower"), work.problem, work.target, None)
    assert len(found) > 10
    kinds = {(c.schedule.kind, c.schedule.load, c.schedule.per_sm): c.schedule for c in found}
    for schedule in kinds.values():
        check(work.scheduled(schedule))


@fg.pipeline
def made(x):  # type: ignore[no-untyped-def]
    """What takes long is kept within a fold of rows side by side, under a name like its own."""
    y = fg.tanh(x)
    y_made = fg.exp(x)
    e = fg.exp(y - fg.max(y))
    return fg.sum(e * y_made), e / fg.sum(e)


@emulated
def test_rows_side_by_side_of_what_takes_long(check: Callable[..., None]) -> None:
    rows = np.random.default_rng(2).standard_normal((64, 300)).astype("float32")
    case = StripCase(Case(made, {"x": rows}, 64, 300), 1)
    work = _renamed(case.case.work(n_rows=4096))
    work = replace(work, problem=replace(work.problem, inner=1024))
    for c in strip_candidates(work.result("lower"), work.problem, work.target)[:40:8]:
        check(work.scheduled(c.schedule))
    for found, want in zip(case.emulate(), case.case.reference(), strict=True):
        np.testing.assert_allclose(found, want, rtol=3e-6, atol=3e-6)


@fg.pipeline
def neighbours(x, x_row, x_items, x_kept, greatest, count: fg.PerColumn, row: fg.PerRow, *, k=9):
    """Everything is called as something that kernels have, or derive from another's name."""
    state = fg.max(x)
    x_anchor = fg.sum(fg.exp(x - state) * x_row + x_items * count)
    state_shift = fg.mean(x_kept * row)
    top, at = fg.topk(greatest + x, k)
    top_best = fg.exp(top - state) / x_anchor
    max = fg.min(x_kept)
    return {"x": x_anchor, "x_out": state_shift, "top_value": top_best, "bar": at, "peak": max,
            "y": fg.sum(top_best), "y_out": x * row - state_shift}


def _neighbours(n_rows: int, n_cols: int) -> Case:
    rng = np.random.default_rng(5)
    shapes = dict.fromkeys(neighbours.signature.arrays, (n_rows, n_cols))
    shapes |= {"count": (n_cols,), "row": (n_rows,)}
    inputs = {n: rng.standard_normal(s).astype("float32") for n, s in shapes.items()}
    return Case(neighbours, inputs, n_rows, n_cols)


@pytest.mark.long
def test_names_that_resemble_derived_ones_stay_apart_on_the_cpu() -> None:
    case = _neighbours(7, 301)
    got, want = neighbours(**case.inputs), neighbours.reference(**case.inputs)
    assert list(got) == list(want)
    for name, found in got.items():
        np.testing.assert_allclose(found, want[name], rtol=3e-5, atol=3e-5, err_msg=name)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("n_cols", [300, 2501])
def test_names_that_resemble_derived_ones_stay_apart_on_gpus(n_cols: int) -> None:
    case = _neighbours(3, n_cols)
    want = neighbours.reference(**case.inputs)
    for found, one in zip(case.emulate(), want.values(), strict=True):
        np.testing.assert_allclose(found, one, rtol=3e-5, atol=3e-5)


@fg.pipeline
def neighbours_of_vectors(
    row: fg.RowVector, n: fg.ColumnVector, weights: fg.ColumnVector, s_n: fg.PerColumn,
    given: fg.PerColumn, number: fg.PerRow, w: fg.PerRow, list: fg.PerRow,
):
    """As locals, parameters and tables of kernels over vectors."""
    s = fg.dot(row, n) * number + s_n * list
    split = fg.max(s)
    p = fg.exp(s - split) * given
    total = fg.sum(p)
    return {"sum": fg.sum(p * weights) / total * w, "run": total, "states": fg.argmax(s)}


def _given_vectors(dtype: str) -> dict[str, Any]:
    drawn = vector_library.drawn
    vectors = {"row": drawn(70, 16, dtype=dtype), "n": drawn(300, 16, dtype=dtype, seed=1),
               "weights": drawn(300, 24, dtype=dtype, seed=2)}
    numbers = {"s_n": 300, "given": 300, "number": 70, "w": 70, "list": 70}
    return vectors | {n: abs(drawn(size, seed=i)) / 4
                      for i, (n, size) in enumerate(numbers.items())}


@emulated
@pytest.mark.parametrize(("place", "dtype"), [
    ("cpu", "float32"), ("gpu", "float32"), ("gpu", "bfloat16")])
def test_names_that_resemble_derived_ones_stay_apart_over_vectors(place: str, dtype: str) -> None:
    given = _given_vectors(dtype)
    want = neighbours_of_vectors.reference(**given)
    found = {"cpu": neighbours_of_vectors, "gpu": partial(emulate, neighbours_of_vectors)}[place](
        **given)
    assert list(found) == list(want)
    for name, one in found.items():
        np.testing.assert_allclose(np.asarray(one, "f8"), np.asarray(want[name], "f8"),
                                   rtol=2e-2 if dtype == "bfloat16" else 3e-5, atol=1e-2)


_HOSTILE = """
    N I min max row column lane warp smem kCount K d_K threadIdx blockDim warpSize half float4 dim3
    uint int8_t state State q_row x_ class_ template operator_ __x _x x__y café NAN INFINITY assert
    signbit isnan errno index y0 fma exp expf rsqrtf std fg real lanes self main
"""


def _hostile(work: Work, turn: int) -> Work:
    """The same, of names that its own source has, and of those in _HOSTILE, as a trace spells
    them."""
    own = sorted({*re.findall(r"[A-Za-z_]\w*", blank_comments_and_strings(work.emitted.body))})
    words = np.random.default_rng(turn).permutation([*own, *_HOSTILE.split() * 3]).tolist()
    taken = Taken(joined=True)
    graph = work.graph
    nodes = sorted(graph.nodes, key=lambda n: not isinstance(n, g.Input))
    names = {n: taken.free((array_identifier if isinstance(n, g.Input) else c_identifier)(w))
             for n, w in zip(nodes, words, strict=False)}
    outputs = tuple(taken.free(array_identifier(w)) for w in words[-len(graph.outputs):])
    return _called(work, "kernel", names=names, output_names=outputs)


def _of_vectors(dtype: str, length: int, n_rows: int, n_cols: int, **asked: str) -> Work:
    p = fg.library.nearest if asked.get("target") == "sm_80" else neighbours_of_vectors
    kinds = dict.fromkeys(p.vectors, f"{dtype}[{length}]")
    return p.work(dtype=kinds, n_rows=n_rows, n_cols=n_cols, **{"target": "sm_90", **asked})


WORKS: dict[str, Callable[[], Work]] = {
    "lanes": lambda: library_case("layer_norm", 1, 96).work(n_rows=4000),
    "band": lambda: library_case("softmax", 1, 35).work(
        n_rows=100_000, aligned=False, in_phase=False),
    "shared": lambda: library_case("layer_norm", 1, 34_657, "float16").work(
        n_rows=2549, aligned=False, in_phase=False),
    "cluster": lambda: library_case("softmax_topk", 1, 129_024).work(n_rows=10),
    "grid": lambda: library_case("entropy", 1, 1_000_003).work(n_rows=4, aligned=False),
    "lists": lambda: library_case("topk", 1, 256, k=40).work(n_rows=65_536),
    "groups": lambda: section_lists_case(1024).work(n_rows=4000),
    "merge": lambda: neighbours_of_states.work(role="merge", target="sm_90"),
    "strips": lambda: _strips(library_case("layer_norm", 1, 4096)),
    "fma": lambda: _of_vectors("float32", 16, 70, 300),
    "parts": lambda: _of_vectors("float32", 64, 4096, 4096, precision="tf32"),
    "mma": lambda: _of_vectors("bfloat16", 64, 5, 20_000),
    "wgmma": lambda: _of_vectors("bfloat16", 64, 4096, 4096),
    "filters": lambda: _of_vectors("float32", 64, 2000, 20_000, target="sm_80"),
}


def _strips(case: Case) -> Work:
    work = case.work(n_rows=4096)
    work = replace(work, problem=replace(work.problem, inner=1024))
    first, *_ = strip_candidates(work.result("lower"), work.problem, work.target, None)
    return work.scheduled(first.schedule)


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("name", WORKS)
def test_any_names_compile(name: str) -> None:
    work = WORKS[name]()
    schedule = work.schedule
    for turn in range(2):
        source = _hostile(work, turn).scheduled(schedule).source
        nvrtc.check_names(source, getattr(schedule, "arch", "sm_90"))


@pytest.mark.long
@pytest.mark.parametrize("name", ["softmax_topk", "neighbours", "neighbours_of_vectors"])
def test_any_names_compile_on_the_cpu(name: str) -> None:
    p = {"neighbours": neighbours, "neighbours_of_vectors": neighbours_of_vectors}.get(
        name) or getattr(fg.library, name)
    for turn in range(2):
        assert _hostile(p.work(), turn).executable()


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("name", ["norm", "round", "hypot", "split", "main"])
def test_pipelines_may_be_called_as_what_cuda_or_a_template_has(name: str) -> None:
    work = library_case("topk", 1, 25_000).work(n_rows=4000)
    source = _called(work, c_identifier(name)).source
    assert f"{c_identifier(name)}_kernel(" in source
    nvrtc.check_names(source, "sm_90")


def test_a_name_is_free_only_if_nothing_derives_it() -> None:
    assert Taken(["y"]).free("x") == "x"
    assert Taken(["x", "x_2"]).free("x") == "x_3"
    assert Taken(["x"]).free("x_row") == "x_row_2"
    assert Taken(["x_kept_stride"]).free("x") == "x_2"
    assert Taken(["x"]).free("x_norm") == "x_norm"
    assert Taken(["s", "q"]).free("s_q") == "s_q"
    assert Taken(["s", "q"], joined=True).free("s_q") == "s_q_2"
    assert Taken(["s", "s_q_at"], joined=True).free("q") == "q_2"
    assert Taken(["a_b", "c", "a_b_c_d"], joined=True).free("d") == "d_2"
    assert Taken(["x", "x_2"], joined=True).free("x_y") == "x_y"
    assert Taken(beside=["y_out"]).free("y") == "y_2"
    assert Taken(beside=["y"]).free("y") == "y"


def test_identifiers() -> None:
    known = {"x": "x", "count": "count_", "class": "class_", "State": "State_", "kTeam": "kTeam_",
             "next_token": "next_token_", "a b": "a_b", "__x__": "x", "2d": "n2d", "é": "value",
             "K": "K", "Wq": "Wq", "NAN": "NAN_", "expf": "expf_", "state1": "state1_",
             "weights": "weights"}
    assert {name: c_identifier(name) for name in known} == known
