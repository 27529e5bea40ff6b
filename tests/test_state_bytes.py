"""States written down and read again, by who has nothing but the pipeline's text."""

from __future__ import annotations

import dataclasses
import enum
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import state_cases as cases
from support.state_cases import near

import fusegen as fg
from fusegen.pipeline.states.written import checksum

L = fg.library.PIPELINES


class Way(enum.Enum):
    UP = "up"
    DOWN = "down"


@dataclasses.dataclass(frozen=True)
class Shape:
    scale: float
    way: Way


@fg.pipeline
def weighed(x, w: fg.PerColumn = None, *, c=0.5, how=("up", (1, True)), shape=None):
    s = fg.sum(x if w is None else x * w) * c
    return fg.argmax(x), s if shape is None or shape.way is Way.UP else -s * shape.scale


def written(p: fg.Pipeline, *given: np.ndarray, cut: int = 3, **constants: object) -> bytes:
    """Two pieces, written, read and merged; written again."""
    n = given[0].shape[-1]
    parts = [p.states(*[a[..., i:j] for a in given], at=i, **constants)
             for i, j in ((0, cut), (cut, n))]
    read = [fg.States.from_bytes(p, s.to_bytes(), **_unspelled(constants)) for s in parts]
    for a, b in zip(read, parts, strict=True):
        np.testing.assert_array_equal(a.array, b.array)
        assert (a.n_cols, a.columns, a.layout, a.dtypes) == (
            b.n_cols, b.columns, b.layout, b.dtypes)
        assert repr(a.constants) == repr(b.constants)
    return fg.merge(p, *reversed(read)).to_bytes()


def _unspelled(constants: dict[str, object]) -> dict[str, object]:
    return {n: v for n, v in constants.items() if isinstance(v, Shape | Way)}


X = np.random.default_rng(0).normal(0, 2, (2, 3, 8)).astype(np.float32)


@pytest.mark.parametrize("constants", [
    {}, {"c": -0.0}, {"c": math.nan}, {"c": 2**70}, {"c": True}, {"how": ()},
    {"shape": Shape(0.25, Way.DOWN)},
], ids=repr)
def test_what_is_read_is_what_was_written(constants):
    w = np.linspace(0, 1, 8).astype("f4")
    found = fg.States.from_bytes(weighed, written(weighed, X, w, **constants),
                                 **_unspelled(constants))
    near(weighed.finish(found), weighed.reference(X, w, **constants))


def test_rows_of_any_number_and_pieces_without_columns():
    p = L["softmax_topk"]
    for x in (X[0, 0], X[:0], X[..., :0]):
        s = p.states(x, at=5, k=2)
        again = fg.States.from_bytes(p, s.to_bytes())
        assert (again.array.shape, again.columns) == (s.array.shape, s.columns)
        np.testing.assert_array_equal(again.array, s.array)


def test_states_are_read_where_they_are_wanted():
    torch = pytest.importorskip("torch")
    p = L["var_mean"]
    found = fg.States.from_bytes(p, memoryview(bytearray(p.states(X).to_bytes())), torch.empty(0))
    assert isinstance(found.array, torch.Tensor)
    near(p.finish(found), p.reference(X))


DATA = weighed.states(X).to_bytes()


@fg.pipeline
def other(x):
    return fg.sum(x)


def renamed() -> fg.Pipeline:
    """The name and parameters of `weighed`, and another state."""
    def weighed(x, w: fg.PerColumn = None, *, c=0.5, how=("up", (1, True)), shape=None):
        return fg.max(x) * c, fg.argmin(x)
    return fg.pipeline(weighed)


def fewer() -> fg.Pipeline:
    def weighed(x, *, c=0.5):
        return fg.sum(x) * c, fg.argmax(x)
    return fg.pipeline(weighed)


@pytest.mark.parametrize(("read", "words"), [
    (lambda: (weighed, b""), "holds no states"),
    (lambda: (weighed, b"PK" + DATA[2:]), "holds no states"),
    (lambda: (weighed, 7), "data is int, no bytes"),
    (lambda: (weighed, DATA[:8] + b"\x02" + DATA[9:]), "of version 2, this fusegen reads 1"),
    (lambda: (other, DATA), "states of weighed, not of other"),
    (lambda: (fewer(), DATA), "with other parameters"),
    (lambda: (renamed(), DATA), "of another operator than that of weighed"),
])
def test_what_are_no_such_states_is_refused(read, words):
    with pytest.raises(fg.ArgumentError, match=words):
        fg.States.from_bytes(*read())


def test_no_byte_may_be_lost_or_changed():
    for end in range(24, len(DATA), 7):
        with pytest.raises(fg.ArgumentError, match="cut off, or changed"):
            fg.States.from_bytes(weighed, DATA[:end])
    cases.no_byte_may_change(lambda data: fg.States.from_bytes(weighed, data), DATA)


@pytest.mark.parametrize(("said", "instead"), [
    (b'"n_cols":9', b'"n_cols":1'), (b'"columns":[[3,12]]', b'"columns":[[12,3]]'),
    (b'"columns":[[3,12]]', b'"columns":[[3,3]] '), (b'"columns":[[3,12]]', b'"columns":{"3":4} '),
    (b'"columns":[[3,12]]', b'"columns":[3,12]  '), (b'"rows":[2]', b'"rows":{ }'),
])
def test_a_header_that_cannot_be_is_refused_whatever_its_checksum(said, instead):
    """As another program might write it."""
    data = L["topk"].states(np.ones((2, 9), np.float32), at=3).to_bytes()
    start, changed = 24, data.replace(said, instead)
    assert changed != data
    sealed = changed[:16] + checksum(changed[start:]) + changed[start:]
    with pytest.raises(fg.ArgumentError, match="cut off, or changed"):
        fg.States.from_bytes(L["topk"], sealed)


def test_constants_without_a_text_are_given_again():
    shape = Shape(2.0, Way.DOWN)
    data = weighed.states(X, shape=shape).to_bytes()
    for given, words in (({}, "need its shape"), ({"shape": Shape(2.0, Way.UP)}, "another shape"),
                         ({"shape": shape, "c": 3.0}, "another c"),
                         ({"shape": shape, "d": 1}, "no constant 'd'")):
        with pytest.raises(fg.ArgumentError, match=words):
            fg.States.from_bytes(weighed, data, **given)


CHILD = """
import sys
import numpy as np
from support import state_cases as cases
import fusegen as fg
x = np.random.default_rng(1).normal(0, 2, (3, 20)).astype("f4")
for name in ("many", "tempered", "ends"):
    p = fg.pipeline(cases.TEXTS.get(name, cases.ends))
    given = [x[:, 9:], *([np.linspace(-1, 1, 20).astype("f4")[9:]] if name == "many" else [])]
    data = p.states(*given, at=9).to_bytes()
    sys.stdout.buffer.write(len(data).to_bytes(8, "little") + data)
"""


@pytest.mark.long
def test_another_process_reads_them():
    """The digest of ⊕ does not depend on the process that computes it."""
    env = os.environ | {"PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(
        [str(Path(__file__).parent), *sys.path])}
    said = subprocess.run([sys.executable, "-c", CHILD], env=env, check=True,
                          stdout=subprocess.PIPE).stdout
    x = np.random.default_rng(1).normal(0, 2, (3, 20)).astype("f4")
    w = np.linspace(-1, 1, 20).astype("f4")
    for name in ("many", "tempered", "ends"):
        n = int.from_bytes(said[:8], "little")
        data, said = said[8 : 8 + n], said[8 + n :]
        p = fg.pipeline(cases.TEXTS.get(name, cases.ends))
        whole = [x, w] if name == "many" else [x]
        ours = p.states(*[a[..., :9] for a in whole])
        found = p.finish(fg.merge(p, fg.States.from_bytes(p, data), ours))
        near(found, p.reference(*whole))
