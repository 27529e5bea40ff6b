"""Generated source, kept word for word: a change of any template shows as a diff here. Fixed
headers are named, not held: they are files themselves. Nor are numbers of lines.

    pytest tests/test_golden.py --update-golden      # after looking at the diff
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import golden, own_cases
from support.algebra_cases import ACCEPTED
from support.cuda_cases import CONSTANTS
from support.unused import unused

from fusegen import library
from fusegen.backend.emit.comments import code as without_comments
from fusegen.backend.emit.source import ABOVE
from fusegen.pipeline.pipeline import Pipeline

SOURCES: dict[str, tuple[str, dict[str, object]]] = {
    "softmax_topk.sm_90.cu": ("softmax_topk", {"target": "sm_90", "n_cols": 25_000, "k": 5}),
    "softmax_topk.split.sm_90.cu": (
        "softmax_topk", {"target": "sm_90", "n_rows": 20, "n_cols": 1_000_000, "k": 5}),
    "softmax_topk.cluster.sm_90.cu": (
        "softmax_topk", {"target": "sm_90", "n_rows": 1, "n_cols": 129_024, "k": 5}),
    "softmax_topk.together.sm_90.cu": (
        "softmax_topk", {"target": "sm_90", "n_rows": 1, "n_cols": 262_144, "k": 64,
                         "dtype": "float64"}),
    "softmax_topk.unfused.sm_80.cu": (
        "softmax_topk", {"target": "sm_80", "n_cols": 1000, "k": 5, "form": "unfused"}),
    "moe_gate.sm_90.cu": (
        "moe_gate", {"target": "sm_90", "n_cols": 64, "k": 8, "dtype": "bfloat16"}),
    "softmax_topk.pruned.sm_90.cu": (
        "softmax_topk", {"target": "sm_90", "n_cols": 512, "k": 8, "dtype": "bfloat16"}),
    "softmax_topk.few.sm_90.cu": (
        "softmax_topk", {"target": "sm_90", "n_cols": 1008, "k": 16}),
    "softmax_topk.collected.sm_90.cu": (
        "softmax_topk", {"target": "sm_90", "n_cols": 6000, "k": 64, "dtype": "bfloat16"}),
    "logsumexp.one_by_one.sm_90.cu": ("logsumexp", {"target": "sm_90", "chunk": 1}),
    "layer_norm.bfloat16.sm_90.cu": (
        "layer_norm", {"target": "sm_90", "n_cols": 131_072, "dtype": "bfloat16",
                       "inputs": ("weight", "bias")}),
    "layer_norm.band.sm_90.cu": (
        "layer_norm", {"target": "sm_90", "n_rows": 500_000, "n_cols": 45, "dtype": "float16",
                       "inputs": ("weight", "bias")}),
    "softmax_topk.x86-64-v3.cpp": ("softmax_topk", {"target": "x86-64-v3", "k": 5}),
    "softmax_topk.64.x86-64-v4.cpp": ("softmax_topk", {"target": "x86-64-v4", "k": 64}),
    "softmax.x86-64-v4.cpp": ("softmax", {"target": "x86-64-v4"}),
    "var_mean.x86-64-v4.cpp": ("var_mean", {"target": "x86-64-v4"}),
    "softmax_weighted_variance.sm_90.cu": (
        "softmax_weighted_variance", {"target": "sm_90", "n_cols": 25_000}),
    "softmax_weighted_variance.x86-64-v3.cpp": (
        "softmax_weighted_variance", {"target": "x86-64-v3"}),
    "tie_count.sm_90.cu": ("tie_count", {"target": "sm_90", "n_cols": 25_000}),
    "squares_between_the_extremes.x86-64-v3.cpp": (
        "squares_between_the_extremes", {"target": "x86-64-v3"}),
    "statistics.sm_90.cu": ("statistics", {"target": "sm_90", "n_cols": 25_000}),
    "statistics.x86-64-v3.cpp": ("statistics", {"target": "x86-64-v3"}),
    "scan.split.sm_90.cu": ("scan", {"target": "sm_90", "n_rows": 4, "n_cols": 1_000_000}),
    "scan.x86-64-v3.cpp": ("scan", {"target": "x86-64-v3"}),
    "logsumexp.one_by_one.x86-64-v3.cpp": ("logsumexp", {"target": "x86-64-v3", "chunk": 1}),
    "softmax_topk.fold.sm_90.cu": (
        "softmax_topk", {"target": "sm_90", "n_cols": 25_000, "k": 5, "role": "fold"}),
    "softmax_topk.merge.sm_90.cu": (
        "softmax_topk", {"target": "sm_90", "n_cols": 8, "k": 5, "role": "merge"}),
    "softmax_topk.finish.sm_90.cu": ("softmax_topk", {"target": "sm_90", "k": 5, "role": "finish"}),
    "scan.merge.sm_90.cu": ("scan", {"target": "sm_90", "n_cols": 64, "role": "merge"}),
    "softmax_topk.merge.x86-64-v3.cpp": (
        "softmax_topk", {"target": "x86-64-v3", "k": 5, "role": "merge"}),
    "var_mean.finish.x86-64-v3.cpp": ("var_mean", {"target": "x86-64-v3", "role": "finish"}),
}


def emit(name: str, *, include: bool = True) -> str:
    pipeline, options = SOURCES[name]
    texts = {**vars(own_cases), **ACCEPTED, **library.PIPELINES}
    found: Pipeline = texts[pipeline]
    return found.source(**options, include=include)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SOURCES)
def test_source_is_as_kept(name: str, request: pytest.FixtureRequest) -> None:
    golden.check(name, emit(name), request.config)


@pytest.mark.parametrize("name", SOURCES)
def test_source_reads_well(name: str) -> None:
    """No trailing blanks, no runs of blank lines, nothing of this machine, and no function that
    neither the program nor a header that it uses calls."""
    text = emit(name)
    assert not re.search(r"[ \t]\n", text)
    assert "\n\n\n" not in text
    assert "/home/" not in text
    assert str(Path.cwd()) not in text
    code, every = without_comments(text), without_comments(emit(name, include=False))
    uncalled = {f for f in _functions(code) if len(re.findall(rf"\b{f}\b", every)) < 2}
    assert not uncalled


MOST_LINES = {"softmax": 128, "layer_norm": 150, "softmax_topk": 200}


@pytest.mark.parametrize("name", MOST_LINES)
def test_kernels_can_be_read_at_a_sitting(name: str) -> None:
    """Lines below the marked one, for every GPU and type; and banner and all, of the plainest."""
    pipeline, constants = library.PIPELINES[name], CONSTANTS.get(name, {})
    for target in ("sm_80", "sm_90", "sm_100"):
        for dtype in ("float32", "bfloat16", "float16", "float64"):
            for n_cols in (None, 1000, 25_000):
                text = pipeline.source(target, dtype, n_cols, **constants)
                lines = text.split(ABOVE)[1].strip().splitlines()
                assert len(lines) <= MOST_LINES[name], (target, dtype, n_cols)
    text = pipeline.source("sm_90", include=True, **constants)
    lines = [ln for ln in text.splitlines() if not ln.startswith("#include")]
    assert len(lines) <= MOST_LINES[name]


@pytest.mark.parametrize("form", ["online", "unfused"])
@pytest.mark.parametrize("name", [*library.PIPELINES, *ACCEPTED])
def test_nothing_is_declared_that_is_not_used(name: str, form: str) -> None:
    """Alone, over blocks, clusters and slices, in each way of keeping a list; types in turn."""
    pipeline = {**ACCEPTED, **library.PIPELINES}[name]
    constants = CONSTANTS.get(name, {})
    for at, (n_rows, n_cols) in enumerate(
            ((4000, 63), (4000, 1000), (4000, 25_001), (10, 129_024), (2, 1_000_003)), len(name)):
        dtype = ("float32", "bfloat16")[at % 2]
        text = pipeline.source("sm_90", dtype, n_cols, form, n_rows=n_rows, **constants)
        assert not unused(text.split(ABOVE)[-1]), (n_rows, n_cols, dtype)


@pytest.mark.parametrize("name", [n for n in SOURCES if n.endswith(".cu")])
def test_nothing_is_declared_in_these_either(name: str) -> None:
    assert not unused(emit(name))


def _functions(text: str) -> set[str]:
    """Names of device functions (kernels and exported entry points are called from outside)."""
    inner = text.split('extern "C"')[0]
    pattern = re.compile(r"^[ ]*(?:[\w:<>&*,]+ )+(\w+)\(", re.MULTILINE)
    words = {"alignas", "return", "if", "__attribute__"}
    return {name for name in pattern.findall(inner) if name not in words}
