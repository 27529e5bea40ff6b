"""What a text uses besides its parameters: a call never serves what was true at an earlier one."""

from __future__ import annotations

import functools
import sys
import types
from collections import ChainMap, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import pytest

import fusegen as fg
from fusegen.ir.watches import Watches
from fusegen.lang.value import Value

SCALE: Any = 2.0
TABLE = {"scale": 2.0, "other": 1.0}
LEVELS = [1.0, 2.0]
NESTED = {"deep": {"list": [2.0]}}
SETTINGS = types.ModuleType("settings_of_a_user")
X = np.ones((2, 3), np.float32)


def helper(x: Value) -> Value:
    return x * SCALE


def keyword_helper(x: Value, by: Any = LEVELS) -> Value:
    return x * by[1]


@dataclass
class Config:
    scale: float = 2.0
    inner: Any = None

    kind: ClassVar[float] = 2.0

    @property
    def doubled(self) -> float:
        return self.scale * 1.0

    def apply(self, x: Value) -> Value:
        return x * self.scale

    def __call__(self, x: Value) -> Value:
        return x * self.scale


class Slots:
    __slots__ = ("scale",)

    def __init__(self) -> None:
        self.scale = 2.0


CONFIG, SLOTS = Config(), Slots()
CONFIG.inner = Config()
BY_TWO = functools.partial(np.multiply, 1.0)


@fg.pipeline
def inner(x: Value) -> Value:
    return x * SCALE


def _other_inner(x: Value) -> Value:
    return x * 3.0


def _closure() -> Any:
    scale = 2.0

    def use(x: Value) -> Value:
        return x * scale

    def change() -> None:
        nonlocal scale
        scale = 3.0

    return use, change


def _method_of(holder: Any) -> Any:
    return lambda x: holder.apply(x)


def _sets(holder: Any, name: str) -> Any:
    return lambda patch: patch.setattr(holder, name, 3.0, raising=False)


def _item(holder: Any, key: Any) -> Any:
    return lambda _: holder.__setitem__(key, 3.0)


def defaults(x: Value, by: Any = 2.0) -> Value:
    return x * by


def keywords(x: Value, *, by: Any = 2.0) -> Value:
    return x * by


def _times_three(x: Value) -> Value:
    return x * 3.0


def _decorated(fn: Any) -> Any:
    @functools.wraps(fn)
    def wrapper(x: Value) -> Value:
        return fn(x) * wrapper.scale / 2.0  # type: ignore[attr-defined]

    wrapper.scale = 2.0  # type: ignore[attr-defined]
    return wrapper


def _import_module(x: Value) -> Value:
    import settings_of_a_user  # type: ignore[import-not-found]

    return x * settings_of_a_user.scale


def _import_name(x: Value) -> Value:
    from settings_of_a_user import scale

    return x * scale


def _has(x: Value) -> Value:
    return x * (3.0 if hasattr(FRESH, "flag") else 2.0)


def _other_code(x: Value) -> Value:
    return x * 2.0


class Base:
    by = 2.0


class Kind(Base):
    def __mul__(self, x: Value) -> Value:
        return x * SCALE


class Heir(Kind):
    by = 3.0


class MetaGiving(type):
    def __getattr__(cls, name: str) -> float:
        return 2.0


class Giving(Base, metaclass=MetaGiving):
    """What it does not have it makes up."""

    def __getattr__(self, name: str) -> float:
        if name.startswith("_"):
            raise AttributeError(name)
        return 2.0


class Given(Giving):
    pass


class Rebased(Kind):
    pass


class Holder(Kind):
    scale = 2.0

    def apply(self, x: Value) -> Value:
        return x * self.by


def _setattr(holder: Any, name: str, value: Any) -> Any:
    return lambda patch: patch.setattr(holder, name, value, raising=False)


SETTINGS.__name__ = "settings_of_a_user"
sys.modules["settings_of_a_user"] = SETTINGS
WRAPPED = _decorated(lambda x: x * 2.0)
KIND, HEIR, HOLDER, FRESH = Kind(), Rebased(), Holder(), Holder()
THREES = types.ModuleType("settings_of_a_user")
THREES.scale = 3.0  # type: ignore[attr-defined]
PARTIAL = functools.partial(keywords, by=2.0)
QUEUE = deque([2.0])
VIEW = types.MappingProxyType(TABLE)
CHAIN = ChainMap({"scale": 2.0})
GIVING = Given()


def _else(name: str) -> float:
    """What the module has besides: nothing that tools ask of modules."""
    if name.startswith("__"):
        raise AttributeError(name)
    return 2.0


SETTINGS.__getattr__ = _else  # type: ignore[method-assign, assignment]
CHOICE: Any = fg.minimum
THIS = sys.modules[__name__]
USE, CHANGE = _closure()
OF_CLOSURE = fg.monoid(0.0, lambda x: x, lambda a, b: a + b * 1.0, lambda s: s * SCALE)

def _class_inside(x: Value) -> Value:
    class Inside:
        scale = SCALE

    return x * Inside.scale


def _list_inside(x: Value) -> Value:
    config = CONFIG
    (scaled,) = [x * config.scale * SCALE / 2.0 for _ in range(1)]
    return scaled


CASES: dict[str, tuple[Any, Any]] = {
    "global": (lambda x: x * SCALE, _sets(THIS, "SCALE")),
    "global of a helper": (lambda x: helper(x), _sets(THIS, "SCALE")),
    "global of a pipeline that is called": (lambda x: inner(x), _sets(THIS, "SCALE")),
    "global used in a nested function":
        (lambda x: (lambda y: y * SCALE)(x), _sets(THIS, "SCALE")),
    "closure": (USE, lambda _: CHANGE()),
    "attribute": (lambda x: x * CONFIG.scale, _sets(CONFIG, "scale")),
    "attribute of an attribute": (lambda x: x * CONFIG.inner.scale, _sets(CONFIG.inner, "scale")),
    "attribute inside a method": (lambda x: CONFIG.apply(x), _sets(CONFIG, "scale")),
    "attribute of a captured holder": (_method_of(CONFIG), _sets(CONFIG, "scale")),
    "attribute inside a property": (lambda x: x * CONFIG.doubled, _sets(CONFIG, "scale")),
    "attribute of a callable object": (lambda x: CONFIG(x), _sets(CONFIG, "scale")),
    "attribute of a class": (lambda x: x * Config.kind, _sets(Config, "kind")),
    "attribute of an object's class": (lambda x: x * CONFIG.kind, _sets(Config, "kind")),
    "attribute that hides its class's": (lambda x: x * CONFIG.kind, _sets(CONFIG, "kind")),
    "slot": (lambda x: x * SLOTS.scale, _sets(SLOTS, "scale")),
    "attribute of a module": (lambda x: x * SETTINGS.scale, _sets(SETTINGS, "scale")),
    "item of a dict": (lambda x: x * TABLE["scale"], _item(TABLE, "scale")),
    "item of a list": (lambda x: x * LEVELS[1], _item(LEVELS, 1)),
    "item of a list in a dict": (lambda x: x * NESTED["deep"]["list"][0],
                                 _item(NESTED["deep"]["list"], 0)),
    "default argument that is a list": (lambda x: keyword_helper(x), _item(LEVELS, 1)),
    "helper replaced": (lambda x: helper(x), lambda p: p.setattr(THIS, "helper", _other_inner)),
    "method replaced": (lambda x: CONFIG.apply(x),
                        lambda p: p.setattr(Config, "apply", lambda self, x: x * 3.0)),
    "pipeline replaced": (lambda x: inner(x),
                          lambda p: p.setattr(THIS, "inner", fg.pipeline(_other_inner))),
    "pipeline of the library replaced":
        (lambda x: fg.library.softmax(x) * 6.0,
         lambda p: p.setattr(fg.library, "softmax", fg.pipeline(lambda x: x * 0.5))),
    "default replaced": (lambda x: defaults(x), _setattr(defaults, "__defaults__", (3.0,))),
    "default of a keyword": (lambda x: keywords(x), _item(keywords.__kwdefaults__, "by")),
    "defaults of keywords replaced":
        (lambda x: keywords(x), _setattr(keywords, "__kwdefaults__", {"by": 3.0})),
    "code replaced": (lambda x: _other_code(x),
                      lambda p: p.setattr(_other_code, "__code__", _times_three.__code__)),
    "attribute of a function": (lambda x: x * helper.scale, _sets(helper, "scale")),
    "attribute of a wrapper": (lambda x: WRAPPED(x), _sets(WRAPPED, "scale")),
    "keyword of a partial": (lambda x: PARTIAL(x), _item(PARTIAL.keywords, "by")),
    "module imported inside": (_import_module, _sets(SETTINGS, "scale")),
    "name imported inside": (_import_name, _sets(SETTINGS, "scale")),
    "module imported inside replaced":
        (_import_module, lambda p: p.setitem(sys.modules, "settings_of_a_user", THREES)),
    "class of an object": (lambda x: x * KIND.by, _setattr(KIND, "__class__", Heir)),
    "bases of a class": (lambda x: x * HEIR.by, lambda _: setattr(Rebased, "__bases__", (Heir,))),
    "attribute that hides a base's": (lambda x: x * HOLDER.by, _sets(Holder, "by")),
    "method hidden by an object's": (lambda x: HOLDER.apply(x),
                                     _setattr(HOLDER, "apply", _times_three)),
    "__dict__ replaced": (lambda x: x * HOLDER.scale, _setattr(HOLDER, "__dict__", {"scale": 3.0})),
    "global of an operator": (lambda x: KIND * x, _sets(THIS, "SCALE")),
    "operator replaced": (lambda x: KIND * x,
                          _setattr(Kind, "__mul__", lambda self, x: x * 3.0)),
    "builtin hidden by a global": (lambda x: x * max(2.0, 1.0),
                                   _setattr(THIS, "max", lambda *_: 3.0)),
    "function of fusegen replaced by another":
        (lambda x: CHOICE(x * 2.0, x * 3.0), _setattr(THIS, "CHOICE", fg.maximum)),
    "attribute that hides what __getattr__ gave":
        (lambda x: x * GIVING.foo, _setattr(GIVING, "foo", 3.0)),
    "attribute of a class that hides what __getattr__ gave":
        (lambda x: x * GIVING.bar, _setattr(Given, "bar", 3.0)),
    "attribute of a base that hides what __getattr__ gave":
        (lambda x: x * GIVING.baz, _setattr(Base, "baz", 3.0)),
    "attribute that hides what a metaclass gave":
        (lambda x: x * Given.foo, _setattr(Given, "foo", 3.0)),
    "attribute that hides what a module gave":
        (lambda x: x * SETTINGS.given, _setattr(SETTINGS, "given", 3.0)),
    "item of a deque": (lambda x: x * QUEUE[0], _item(QUEUE, 0)),
    "item of a view": (lambda x: x * VIEW["scale"], _item(TABLE, "scale")),
    "item of a chain of dicts": (lambda x: x * CHAIN["scale"], _item(CHAIN, "scale")),
    "getattr by a text": (lambda x: x * getattr(CONFIG, "scale"), _sets(CONFIG, "scale")),  # noqa: B009
    "vars by a text": (lambda x: x * vars(CONFIG)["scale"], _sets(CONFIG, "scale")),
    "__dict__ by a text": (lambda x: x * CONFIG.__dict__["scale"], _sets(CONFIG, "scale")),
    "globals by a text": (lambda x: x * globals()["SCALE"], _sets(THIS, "SCALE")),
    "global of a class inside": (_class_inside, _sets(THIS, "SCALE")),
    "global of a list inside": (_list_inside, _sets(THIS, "SCALE")),
    "attribute of a list inside": (_list_inside, _sets(CONFIG, "scale")),
    "hasattr by a text": (_has, _setattr(FRESH, "flag", True)),
    "hasattr by a text, of the class": (_has, _setattr(Base, "flag", True)),
    "attrgetter by a text": (lambda x: x * attrgetter("inner.scale")(CONFIG),
                             _sets(CONFIG.inner, "scale")),
    "project of a monoid": (lambda x: fg.reduce(OF_CLOSURE, x) / 3 + 0 * x,
                            _sets(THIS, "SCALE")),
}


@pytest.mark.parametrize("name", CASES)
def test_a_changed_value_is_seen_at_the_next_call(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    CHAIN["scale"] = QUEUE[0] = PARTIAL.keywords["by"] = keywords.__kwdefaults__["by"] = 2.0
    helper.scale = SETTINGS.scale = TABLE["scale"] = LEVELS[1] = NESTED["deep"]["list"][0] = 2.0  # type: ignore
    text, change = CASES[name]
    p = fg.pipeline(text)
    assert np.all(p.reference(X) == 2.0)
    compiled = p.compile(X, target="numpy")
    gradient = fg.grad(p) if "monoid" not in name else p
    given = (np.ones_like(X), X)[: len(gradient.signature.arrays)]
    before = gradient.reference(*given)
    change(monkeypatch)
    assert np.all(p.reference(X) == 3.0)
    assert np.all(p.compile(X, target="numpy")(X) == 3.0)
    assert np.all(compiled(X) == 2.0), "what is compiled stays as it was compiled"
    if np.any(before):
        assert np.allclose(gradient.reference(*given), 1.5 * before)


def test_calls_trace_again_only_when_they_must(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = 0

    def scaled(x: Value) -> Value:
        nonlocal traced
        traced += 1
        return x * CONFIG.scale

    p = fg.pipeline(scaled)
    for value, times in ((2.0, 1), (float("2.0"), 1), (3.0, 2), (2.0, 3), (2, 4)):
        monkeypatch.setattr(CONFIG, "scale", value)
        for _ in range(3):
            assert np.all(p(X) == value)
        assert traced == times, value
    assert len(p.traces.variants) == 3, "equal texts compile once"


def test_values_that_nobody_changes_are_not_watched() -> None:
    for p in (fg.library.softmax, fg.library.layer_norm):
        p.work()
        assert p.traces.watches == Watches()


def test_what_pythons_own_code_asks_of_its_objects_is_not_watched() -> None:
    """Another version of Python runs other code of its library for the same text."""

    def asked(value: object) -> float:
        return 1.0 if getattr(value, "flag", None) else 2.0

    def text(x: Value) -> Value:
        return x * asked(KIND)

    def absences() -> int:
        p = fg.pipeline(text)
        p.work()
        return sum(value is False for _, _, value in p.traces.watches.others)

    of_a_user = absences()
    asked.__code__ = asked.__code__.replace(co_filename=functools.__file__)
    assert absences() < of_a_user


def test_calls_do_not_get_slower_with_every_text_that_is_traced() -> None:
    def text(x: Value, *, by: float) -> Value:
        return x * by * CONFIG.scale * Config.kind * LEVELS[1] * max(1, 2) * keywords(x)

    p = fg.pipeline(text)
    sizes = set()
    for by in range(4):
        p.reference(X, by=by)
        w = p.traces.watches
        sizes.add(len(w.items) + len(w.others))
    assert len(sizes) == 1


def test_monoids_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    weighted = fg.monoid(0.0, lambda x: x, lambda a, b: a + b * FACTOR)
    first = weighted.operator
    assert weighted.operator is first
    monkeypatch.setattr(THIS, "FACTOR", float("1.00"))
    assert weighted.operator is not first


FACTOR = 1.0


def test_threads_agree_on_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    p = fg.pipeline(lambda x: x * SCALE)
    for value in (2.0, 5.0, 7.0):
        monkeypatch.setattr(THIS, "SCALE", value)
        with ThreadPoolExecutor(4) as pool:
            assert all(np.all(r == value) for r in pool.map(p, [X] * 8))
