"""The house plan: imports go downwards, third parties stop at one door, files stay small."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fusegen
from fusegen import dtypes

PACKAGE = Path(fusegen.__file__).parent

# From the ground up; a module may import those of earlier lines, and its neighbours.
LAYERS = (
    ("loc", "one_line", "shared", "version", "sources", "walk", "mentions",
     "watches", "captured", "written"),
    ("errors",),
    ("blame", "dtypes", "literals", "ops"),
    ("names",),
    ("advice", "callables"),
    ("expr", "forms", "own_operator", "graph", "conditions"),
    ("transport", "annotations"),
    ("monoid", "kinds", "digest", "witness", "nesting", "signature"),
    ("value", "derivation", "proof", "monoid_text", "rewrite"),
    ("trace", "words", "positions", "lang", "reference", "bank", "rounding", "algebra"),
    ("fusion", "kernel", "adjoint", "repair"),
    ("plan", "lower", "precise", "replay"),
    ("own_spelling", "own"),
    ("schedule",),
    ("emit",),
    ("runtime",),
    ("trials",),
    ("codec",),
    ("compiler", "dumps", "kept"),
    ("executables",),
    ("tuning",),
    ("dispatch",),
    ("recall", "traces"),
    ("compiled",),
    ("pipeline", "compare"),
    ("library", "report", "check", "grad_columns", "grad", "stabilize"),
    ("__init__",),
    ("cli",),
    ("__main__",),
)
DOORS = {
    "sympy": ("algebra/",),
    "mpmath": ("algebra/exact.py", "precise.py"),
    "networkx": ("fusion.py",),
    "jinja2": ("emit/render.py",),
    "cupy": ("runtime/cuda/",),
    "matplotlib": ("report/drawing.py",),
    "torch": (),
    "scipy": (),
}
MAX_FILE, MAX_FUNCTION = 305, 45


def modules():
    return sorted(p for p in PACKAGE.rglob("*.py") if "templates" not in p.parts)


def imports(path):
    """(imported module, does it happen only for the type checker)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [node.module or ""]
            if node.module == "fusegen":
                found = [f"fusegen.{a.name}" for a in node.names]
        else:
            continue
        yield from ((name, id(node) in typing_only) for name in found)


def layer(name):
    return next(i for i, row in enumerate(LAYERS) if name in row)


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_imports_go_downwards(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for name, typing_only in imports(path):
        parts = name.split(".")
        if parts[0] == "fusegen" and len(parts) > 1 and not typing_only:
            if path.name == "pipeline.py" and parts[1] == "report":
                continue  # p.explain() opens the report, which stands above: the one look upwards
            other = parts[1]
            assert other == own or layer(other) <= layer(own), f"{own} imports {name}"


@pytest.mark.parametrize("library", DOORS)
def test_third_parties_stop_at_one_door(library):
    for path in modules():
        place = path.relative_to(PACKAGE).as_posix()
        if any(place.startswith(door) for door in DOORS[library]):
            continue
        for name, typing_only in imports(path):
            assert typing_only or name.split(".")[0] != library, f"{place} imports {library}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_files_and_functions_stay_small(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MAX_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            size = node.end_lineno - node.lineno
            assert size <= MAX_FUNCTION, f"{node.name} has {size} lines"


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_values_found_once_hold_no_lock(path):
    """Before Python 3.12 one lock serves all objects of a class while a value is found: other
    threads wait for it, and a child forked meanwhile waits for ever. See shared.lazy."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for decorator in getattr(node, "decorator_list", ()):
            assert "cached_property" not in ast.unparse(decorator), f"line {decorator.lineno}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_types_are_compared_by_value(path):
    """What comes from the disk is equal to the constants of dtypes.py, but other objects."""
    names = {n for n, v in vars(dtypes).items() if isinstance(v, dtypes.DType)}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            words = {ast.unparse(e).rpartition(".")[2] for e in (node.left, *node.comparators)}
            assert not words & names, f"line {node.lineno}: {ast.unparse(node)}"


def test_every_function_is_used():
    texts = {p: p.read_text(encoding="utf-8") for p in modules()}
    whole = "\n".join(texts.values())
    for path, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.decorator_list:
                used = whole.count(node.name) > 1 or path.name in ("lang.py", "__init__.py")
                assert used, f"{path.name}: {node.name} is never used"


def _python(code, **env):
    run = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True,
                         text=True, check=True, cwd=PACKAGE.parent, env={**env})  # fmt: skip
    return run.stdout, run.stderr


def test_import_is_light():
    code = "import sys; print(*(m for m in sys.modules if '.' not in m)); import fusegen; " \
           "print(*(m for m in sys.modules if '.' not in m))"  # fmt: skip
    loaded = set(_python(code)[0].splitlines()[1].split())
    assert not loaded & set(DOORS)
    alone = _processor_seconds("import numpy")
    assert _processor_seconds("import fusegen") - alone < 0.5  # a loose bound: machines differ


def _processor_seconds(code):
    """What a process that runs this costs, whatever else the machine does."""
    before = os.times()
    _python(code)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])  # of children, user and system


def test_a_second_process_loads_neither_sympy_nor_networkx_nor_jinja2(tmp_path):
    code = (
        "import sys, numpy as np, fusegen as fg\n"
        "fg.library.softmax_topk(np.ones((3, 500), 'f4'), k=2)\n"
        "print(*(m for m in ('sympy', 'networkx', 'jinja2') if m in sys.modules))"
    )
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    env = {"FUSEGEN_CACHE_DIR": str(folder), "PATH": "/usr/bin:/bin:/usr/local/bin"}
    _python(code, **env)
    assert _python(code, **env)[0].split() == []
