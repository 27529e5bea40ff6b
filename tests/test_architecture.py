"""The house plan: imports go downwards, third parties stop at one door, files stay small."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import networkx as nx
import pytest
from support import own_names
from support.pace import ever_within

import fusegen
from fusegen.ir import dtypes

PACKAGE = Path(fusegen.__file__).parent
TESTS = Path(__file__).parent
ROOT = TESTS.parent

# From the ground up: a module imports those of its own folder and of the floors below.
FLOORS = (
    "ir", "lang", "oracle", "algebra", "backend", "rewrite", "compile", "pipeline", "library",
    "torch", "jax", "dask", "distributed", "cli",
)
DOORS = {
    "sympy": ("algebra/",),
    "mpmath": ("algebra/numbers.py", "oracle/precise.py"),
    "networkx": ("compile/fusion.py",),
    "jinja2": ("backend/emit/render.py",),
    "cupy": ("backend/cuda/run/",),
    "matplotlib": ("cli/drawing.py",),
    "torch": ("torch/", "distributed/"),
    "jax": ("jax/",),
    "jaxlib": ("jax/",),
    "dask": ("dask/",),
    "distributed": ("dask/",),
    "cloudpickle": ("dask/",),
    "scipy": (),
}
LANGUAGE = ("lang/elementwise.py", "lang/reductions.py")  # for users, who are not here
LATER = (  # what no call needs whose kernel is known
    "fusegen.algebra.", "fusegen.rewrite.", "fusegen.compile.trials", "fusegen.compile.lower",
    "fusegen.compile.fusion", "fusegen.compile.tuning", "fusegen.backend.cuda.schedule",
    "fusegen.backend.cuda.emit", "fusegen.backend.cpu.emit", "fusegen.library.gradient.grad",
    "fusegen.library.check", "fusegen.library.stabilize",
)
MAX_FILE, MAX_FUNCTION = 300, 40


def modules():
    return sorted(p for p in PACKAGE.rglob("*.py") if "templates" not in p.parts)


def place(path):
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path):
    """All that `ast.walk` finds in a file."""
    return tuple(ast.walk(tree_of(path)))


@cache
def imports(path):
    """(imported module, does it happen only for the type checker)."""
    typing_only = {
        id(inner)
        for node in nodes_of(path)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    every = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [node.module or ""]
            if node.module == "fusegen":
                found = [f"fusegen.{a.name}" for a in node.names]
        else:
            continue
        every += [(name, id(node) in typing_only) for name in found]
    return tuple(every)


def test_the_top_floor_is_the_table_of_contents():
    here = {p.name for p in PACKAGE.iterdir() if p.name not in ("py.typed", "__pycache__")}
    assert here == {*FLOORS, "__init__.py", "__main__.py"}
    for floor in FLOORS:
        said = ast.get_docstring(tree_of(PACKAGE / floor / "__init__.py"))
        assert said, f"{floor}/__init__.py says its room"
        assert "\n" not in said, f"{floor}/__init__.py says its room in one line"


def test_imports_go_downwards():
    """Also those for the type checker alone, and those inside functions."""
    wrong = []
    for path in modules():
        floor = path.relative_to(PACKAGE).parts[0]
        if floor not in FLOORS:
            continue  # the face, which imports from everywhere
        below = FLOORS[: FLOORS.index(floor) + 1]
        for name, _ in imports(path):
            top, *rest = name.split(".")
            if top == "fusegen" and (not rest or rest[0] not in below):
                wrong.append(f"{place(path)} imports {name}")
    assert wrong == []


def arrows():
    """(importing module, imported module) of ours; `from folder import name` names the module."""
    here = {place(p).removesuffix(".py").removesuffix("/__init__") for p in modules()}
    for path in modules():
        own = place(path).removesuffix(".py").removesuffix("/__init__")
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fusegen."):
                folder = (node.module or "").partition(".")[2].replace(".", "/")
                for name in node.names:
                    inner = f"{folder}/{name.name}"
                    yield own, inner if inner in here else folder


def test_no_circles():
    """Neither of modules, nor of what stands side by side in a folder; also where an import is for
    the type checker alone."""
    found = {(a, b) for a, b in arrows() if a != b}
    assert sorted(nx.simple_cycles(nx.DiGraph(found))) == []
    for depth in (1, 2, 3):
        rooms = {tuple("/".join(m.split("/")[:depth]) for m in arrow) for arrow in found}
        beside = {(a, b) for a, b in rooms if a != b and a.split("/")[:-1] == b.split("/")[:-1]}
        assert sorted(nx.simple_cycles(nx.DiGraph(beside))) == [], f"{depth} deep"


def test_there_are_ten_floors_at_most():
    tops = {(a.split("/")[0], b.split("/")[0]) for a, b in arrows()}
    assert nx.dag_longest_path_length(nx.DiGraph((a, b) for a, b in tops if a != b)) < 10


def test_third_parties_stop_at_one_door():
    wrong = []
    for path in modules():
        for name, typing_only in imports(path):
            library = name.split(".")[0]
            if library in DOORS and not typing_only and not place(path).startswith(DOORS[library]):
                wrong.append(f"{place(path)} imports {library}")
    assert wrong == []


# Words that users type: of the methods that a traced value lacks, and on the face itself.
_FACE = ("__init__.py", "lang/advice.py")
_BACKENDS = re.compile(r"(?<![a-z])(cuda|cpu)(?![a-z])|Cuda|Cpu", re.IGNORECASE)


@pytest.mark.long
def test_tests_need_what_is_declared():
    """A library that only some machines have is imported inside a test, by `importorskip`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["dependencies"] + project["optional-dependencies"]["test"]
    ours = {"fusegen", *(p.stem for folder in (TESTS, ROOT / "benchmarks")
                         for p in folder.iterdir())}
    known = ours | set(sys.stdlib_module_names) | {re.match(r"\w+", d)[0] for d in declared}
    missing = [
        f"{path.relative_to(TESTS)} needs {name}"
        for path in sorted(TESTS.rglob("*.py"))
        for name in _needed(tree_of(path))
        if name not in known
    ]
    assert not missing, missing


def _needed(tree):
    """Top packages that a module imports where it stands, not inside a function or a try."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (a.name.split(".")[0] for a in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.split(".")[0]


def test_nothing_outside_backend_names_one():
    """Not in a name, an import or a string; documentation and messages to people may."""
    wrong = []
    for path in modules():
        if place(path).startswith("backend/") or place(path) in _FACE:
            continue
        for node in nodes_of(path):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                    found = _BACKENDS.search(name) if name != "pthread_getcpuclockid" else None
                case ast.Constant(value=str(text)):
                    found = _BACKENDS.fullmatch(text)
                case ast.ImportFrom(module=str(name)) | ast.alias(name=name):
                    found = re.search(r"fusegen\.backend\.(cuda|cpu)\b", name)
                case _:
                    continue
            if found:
                wrong.append(f"{place(path)}, line {getattr(node, 'lineno', 0)}: {found[0]}")
    assert wrong == []


def test_files_stay_small():
    """Not those of tests, which are as long as what they ask about has cases."""
    printed = [p for p in ROOT.joinpath("templates").rglob("*.*") if p.is_file()]
    benchmarks = [*ROOT.joinpath("benchmarks").rglob("*.py")]
    lines = {p: p.read_text(encoding="utf-8").count("\n")
             for p in (*modules(), *printed, *benchmarks)}
    assert [f"{p.relative_to(ROOT)} has {n} lines" for p, n in lines.items() if n > MAX_FILE] == []


def test_functions_stay_small():
    wrong = [
        f"{path.relative_to(ROOT)}: {node.name} has {size} lines"
        for folder in (PACKAGE, TESTS, ROOT / "benchmarks") for path in folder.rglob("*.py")
        for node in nodes_of(path) if isinstance(node, ast.FunctionDef)
        if (size := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION
    ]
    assert wrong == []


def test_values_found_once_hold_no_lock():
    """Before Python 3.12 one lock serves all objects of a class while a value is found: other
    threads wait for it, and a child forked meanwhile waits for ever. See shared.lazy."""
    wrong = [
        f"{place(path)}, line {decorator.lineno}"
        for path in modules()
        for node in nodes_of(path)
        for decorator in getattr(node, "decorator_list", ())
        if "cached_property" in ast.unparse(decorator)
    ]
    assert wrong == []


def test_types_are_compared_by_value():
    """What comes from the disk is equal to the constants of dtypes.py, but other objects."""
    names = {n for n, v in vars(dtypes).items() if isinstance(v, dtypes.DType)}
    wrong = []
    for path in modules():
        for node in nodes_of(path):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
                words = {ast.unparse(e).rpartition(".")[2] for e in (node.left, *node.comparators)}
                if words & names:
                    wrong.append(f"{place(path)}, line {node.lineno}: {ast.unparse(node)}")
    assert wrong == []


def test_every_function_is_used():
    """Its name stands in the package once more than where it is defined."""
    texts = {p: p.read_text(encoding="utf-8") for p in modules()}
    words = Counter(word for text in texts.values() for word in re.findall(r"\w+", text))
    unused = [
        f"{place(path)}: {node.name}"
        for path in texts
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.decorator_list
        if words[node.name] < 2 and place(path) not in LANGUAGE
    ]
    assert unused == []


def _python(code, **env):
    run = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True,
                         text=True, check=True, cwd=PACKAGE.parent, env={**env})
    return run.stdout, run.stderr


@pytest.mark.long
def test_import_is_light():
    code = "import sys; print(*(m for m in sys.modules if '.' not in m)); import fusegen; " \
           "print(*(m for m in sys.modules if '.' not in m))"
    loaded = set(_python(code)[0].splitlines()[1].split())
    assert not loaded & set(DOORS)
    code = "import sys, fusegen; print(*(m for m in sys.modules if m.startswith('fusegen.')))"
    ours = _python(code)[0].split()
    assert [m for m in ours if m.startswith(LATER)] == []
    assert ever_within(
        lambda: _processor_seconds("import fusegen") - _processor_seconds("import numpy"), 0.5)


def _processor_seconds(code):
    """What a process that runs this costs, whatever else the machine does."""
    before = os.times()
    _python(code)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])  # of children, user and system


def test_words_of_templates_are_reserved_or_stand_apart_from_users_names():
    """Of templates that no test prints, too."""
    assert not own_names.unknown_words(), "pytest tests/test_names.py --update-names"


@pytest.mark.long
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
