"""Users' names among those of generated functions: what a function says beside them is reserved,
and what it derives from one is never another's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support import fake_cupy, nvrtc, own_cases, own_names, state_cases, state_rows, vector_cases
from support.algebra_cases import ACCEPTED
from support.cuda_cases import CONSTANTS, LIBRARY, Case, library_case
from support.emulated import emulated
from support.own_names import PIPELINE, Found

import fusegen as fg
from fusegen.backend.cuda.schedule.strips import strip_candidates
from fusegen.compile.passes import Work
from fusegen.compile.typed import Traced, Typed
from fusegen.ir.digest import digest
from fusegen.ir.names import Taken, c_identifier
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
        work, PIPELINE, names={n: f"zq{i}" for i, n in enumerate(nodes)},
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
    def look_at(source: str, free: Collection[str] = ()) -> None:
        assert PIPELINE in source
        found = own_names.look(source, free)
        assert found.beside
        _FOUND.add(found)
        assert update_names or found.unknown() == set(), f"pytest {__file__} --update-names"

    return look_at


@pytest.mark.parametrize("name", LIBRARY)
def test_what_stands_beside_users_names_is_reserved(name: str, check: Callable[..., None]) -> None:
    lists = [{"k": k} for k in (40, 300, 1024)] if "k" in CONSTANTS.get(name, {}) else [{}]
    for n_rows, n_cols in ((4000, 1000), (4000, 25_000), (10, 129_024), (4, 1_000_003)):
        for dtype in ("float32", "bfloat16"):
            for given in ({}, *lists):
                if given.get("k", 0) < n_cols:
                    case = library_case(name, 1, n_cols, dtype, **given)
                    check(_renamed(case.work(n_rows=n_rows, aligned=n_cols % 2 == 0)).source)
    for form, arch in (("unfused", "sm_90"), ("online", "sm_80"), ("unfused", "sm_80")):
        check(_renamed(library_case(name, 1, 4096).work(form=form, arch=arch)).source)
    for target in ("x86-64-v3", "x86-64-v4"):
        for given in ({}, *lists[:1]):
            constants = {**CONSTANTS.get(name, {}), **given}
            check(_renamed(getattr(fg.library, name).work(target=target, **constants)).source)


@pytest.mark.parametrize("name", ["topk", "moe_gate"])
def test_lists_of_short_rows(name: str, check: Callable[..., None]) -> None:
    for k, n_cols, dtype in ((8, 64, "float32"), (8, 512, "bfloat16"), (40, 256, "float32")):
        check(_renamed(library_case(name, 1, n_cols, dtype, k=k).work(n_rows=65_536)).source)


@pytest.mark.parametrize("name", [*ACCEPTED, *_OWN])
def test_states_of_every_kind(name: str, check: Callable[..., None]) -> None:
    for target in ("sm_90", "x86-64-v3"):
        work = _renamed({**ACCEPTED, **_OWN}[name].work(target=target))
        new = {*work.merging.names.values()} - {*work.graph.names.values()}
        check(work.source, new)


@pytest.mark.parametrize("name", vector_cases.TEXTS)
def test_elements_made_of_vectors(name: str, check: Callable[..., None]) -> None:
    for target in ("x86-64-v3", "x86-64-v4"):
        for form in ("online", "unfused"):
            work = _renamed(vector_cases.TEXTS[name].work(target=target, form=form))
            check(work.source, {q.name for q in work.program.inputs if not q.name.startswith("zq")})


OF_STATES = {n: fg.pipeline(text) for n, text in state_cases.TEXTS.items()}
OF_STATES |= {n: state_rows.CASES[n][0] for n in ("listed", "numbered", "picks", "rags")}


@pytest.mark.parametrize("name", OF_STATES)
def test_programs_of_one_role(name: str, check: Callable[..., None]) -> None:
    p = OF_STATES[name]
    for target in ("sm_90", "x86-64-v3"):
        for role in ("fold", "merge", "map" if name in state_rows.CASES else "finish"):
            work = _renamed(p.work(role=role, target=target))
            if own_names.beside_users(work.source):  # a merge of lists alone has members only
                check(work.source, {q.name for q in work.program.kernels[0].params if q.field})


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
    for candidate in found:
        check(work.scheduled(candidate.schedule).source)


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


def test_names_that_resemble_derived_ones_stay_apart_on_the_cpu() -> None:
    case = _neighbours(7, 301)
    got, want = neighbours(**case.inputs), neighbours.reference(**case.inputs)
    assert list(got) == list(want)
    for name, found in got.items():
        np.testing.assert_allclose(found, want[name], rtol=3e-5, atol=3e-5, err_msg=name)


@emulated
@pytest.mark.parametrize("n_cols", [300, 2501])
def test_names_that_resemble_derived_ones_stay_apart_on_gpus(n_cols: int) -> None:
    case = _neighbours(3, n_cols)
    want = neighbours.reference(**case.inputs)
    for found, one in zip(case.emulate(), want.values(), strict=True):
        np.testing.assert_allclose(found, one, rtol=3e-5, atol=3e-5)


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("name", ["norm", "round", "hypot", "split", "main"])
def test_pipelines_may_be_called_as_what_cuda_or_a_template_has(name: str) -> None:
    work = library_case("topk", 1, 25_000).work(n_rows=4000)
    source = _called(work, c_identifier(name)).source
    assert f"{c_identifier(name)}_kernel(" in source
    assert nvrtc.valid_for(source, "sm_90").reports


def test_a_name_is_free_only_if_nothing_derives_it() -> None:
    assert Taken(["y"]).free("x") == "x"
    assert Taken(["x", "x_2"]).free("x") == "x_3"
    assert Taken(["x"]).free("x_row") == "x_row_2"
    assert Taken(["x_kept_stride"]).free("x") == "x_2"
    assert Taken(["x"]).free("x_norm") == "x_norm"
    assert Taken(beside=["y_out"]).free("y") == "y_2"
    assert Taken(beside=["y"]).free("y") == "y"


def test_identifiers() -> None:
    known = {"x": "x", "count": "count_", "class": "class_", "State": "State_", "kTeam": "kTeam_",
             "next_token": "next_token_", "a b": "a_b", "__x__": "x", "2d": "n2d", "é": "value",
             "K": "K", "Wq": "Wq", "NAN": "NAN_", "expf": "expf_", "state1": "state1_",
             "weights": "weights"}
    assert {name: c_identifier(name) for name in known} == known
