"""Whatever users' files, lines and comments say, generated source is the same code."""

from __future__ import annotations

import codecs
import functools
import linecache
import os
import shutil
import subprocess
import sys
from typing import Any

import jinja2
import numpy as np
import pytest

import fusegen as fg
from fusegen.backend.emit import render as rendering
from fusegen.backend.emit.comments import code, comment
from fusegen.cli.terminal import write_anything
from fusegen.ir.errors import InternalError
from fusegen.ir.loc import Loc
from fusegen.ir.one_line import MOST, one_line
from fusegen.pipeline.pipeline import Pipeline

TEXT = """
import fusegen as fg
weigh = fg.monoid(name="weigh", identity=0.0, lift=lambda x: x, merge=lambda a, b: a + b)
def text(x, w):
    s = fg.sum(x * w)
    best, at = fg.topk(x * 2.0, 3)
    y = x / s
    first = fg.take(w, fg.argmin(x))
    return fg.max(x), s, best, first, fg.sum(best), fg.reduce(weigh, x), y
"""
LINES = (
    "{}", "{} \\", "{} \\ \t", "{} \\\\", "{}  # ??/", "{} ??/ \\", "{} /* \\", "{} */ int x; /*",
    "{} \u2028 int x;", "{} \x0c int x; \x0b\x1c\x85", "{} \r int x;", "{} \n int x; \\\n \\",
    "{} \ud800\udcff", "{} \u202e txet \u2066", "{} \x1b[31m \0", "{} // \\", '{} "', "{} '",
    "{}  # fg::nothing known.x row.y column n_cols x_items[0] kNaN state.z .repack [row] std::swap",
    "{} " + "very long " * 1000, "#define text 1", "{{{{ 7 * 7 }}}} {{% for %}} {}", "%s %d {}",
)
FILES = (
    "plain.py", "new\nline.py", "return\r.py", "back\\", "a\u2028b.py", "\udcff.py", "*/ x /*.py",
    "??/", "\x0c.py", "<string>", " .py", "\u202e.py",
)
TARGETS: tuple[dict[str, Any], ...] = (
    {"target": "cpu"}, {"target": "sm_90", "n_cols": 4096}, {"target": "sm_80", "form": "unfused"},
)


PER_FILE = 5  # lines of TEXT inside the function


def pipeline_in(file: str, *shapes: str) -> Pipeline:
    """TEXT as a file of this name; its lines are shown as `shapes` say, in turn."""
    lines = [shapes[i % len(shapes)].format(ln) + "\n" for i, ln in enumerate(TEXT.splitlines())]
    linecache.cache[file] = (len(TEXT), None, lines, file)
    space: dict[str, Any] = {}
    exec(compile(TEXT.replace("(x, w)", "(x, w: fg.PerColumn)"), file, "exec"), space)
    return fg.pipeline(space["text"])


@functools.cache
def source_in(file: str, target: int, *shapes: str) -> str:
    return pipeline_in(file, *shapes).source(**TARGETS[target])


@pytest.fixture(scope="module")
def plain() -> list[str]:
    return [code(source_in("plain.py", t, "{}")) for t in range(len(TARGETS))]


@pytest.mark.parametrize("first", range(0, len(LINES), PER_FILE))
def test_lines_change_no_code(first: int, plain: list[str]) -> None:
    for target, want in enumerate(plain):
        source = source_in("plain.py", target, *LINES[first : first + PER_FILE])
        assert code(source) == want
        source.encode()  # no surrogate is left


@pytest.mark.parametrize("file", FILES, ids=range(len(FILES)))
def test_file_names_change_no_code(file: str, plain: list[str]) -> None:
    source = source_in(file, 0, "{} \\")
    assert code(source) == plain[0]
    source.encode()


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_preprocessor_sees_the_same_code(plain: list[str]) -> None:
    """By the compiler's own idea of where a line, and a comment, ends."""
    shown = [source_in("plain.py", 0, *LINES[i : i + PER_FILE])
             for i in range(0, len(LINES), PER_FILE)]
    alone = [line for line in code(shown[0]).splitlines() if not line.startswith("#")]
    for standard in ("c++17", "c++11"):  # c++11 reads trigraphs
        for source in shown:
            kept = "\n".join(ln for ln in source.splitlines() if not ln.startswith("#"))
            command = ["g++", "-E", "-P", "-x", "c++", f"-std={standard}", "-Wall", "-"]
            done = subprocess.run(command, input=kept, capture_output=True, text=True, check=True)
            assert done.stdout.split() == "\n".join(alone).split()
            assert not done.stderr


def test_a_line_that_goes_on_computes_all_of_it() -> None:
    space: dict[str, Any] = {"fg": fg}
    text = ("def both(x):\n"
            "    return fg.sum(x), fg.min(x), \\\n"
            "        fg.max(x), \\\n"
            "        fg.mean(x)\n")
    linecache.cache["goes_on.py"] = (len(text), None, text.splitlines(keepends=True), "goes_on.py")
    exec(compile(text, "goes_on.py", "exec"), space)
    both = fg.pipeline(space["both"])
    x = np.random.default_rng(0).standard_normal((5, 300)).astype(np.float32)
    for got, want in zip(both(x), (x.sum(1), x.min(1), x.max(1), x.mean(1)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert "return fg.sum(x), fg.min(x), …" in both.source()


def test_hostile_files_run_and_explain() -> None:
    """Digests, the cache, proofs in HTML and LaTeX, drawings: nothing stumbles over a name."""
    found = pipeline_in("\udcff\n\\.py", "{} \\ \ud800")
    x, w = np.ones((2, 9), np.float32), np.ones(9, np.float32)
    np.testing.assert_allclose(found(x, w)[1], 9)
    derivation = found.derivation()
    for shown in (str(found.explain()), found.explain()._repr_html_(), derivation.latex(),
                  derivation._repr_html_(), str(derivation)):
        shown.encode()
        assert "\udcff" not in shown


@pytest.mark.parametrize("text", [shape.format("x = 1") for shape in LINES])
def test_comments_end_where_their_line_ends(text: str) -> None:
    shown = comment(text)
    assert shown.isprintable()
    assert not shown.endswith("\\")
    assert "*/" not in shown
    assert "??/" not in shown
    assert len(one_line(text, MOST)) <= MOST
    assert Loc("a.py", 1, text).shown == one_line(text, MOST)


@pytest.mark.parametrize("hostile", ["\\", "\\ ", "??/", "\r", "\f", "\u2028", "\udcff", "\0"])
def test_what_templates_print_is_refused_where_lines_run_on(
    hostile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = jinja2.Environment(loader=jinja2.DictLoader({"t": "int a;  // {{ x }}\nint b;\n"}))
    monkeypatch.setattr(rendering, "_environment", lambda: made)
    assert rendering.render("t", {"x": "fine"}).endswith("// fine\nint b;\n")
    with pytest.raises(InternalError, match="line 1"):
        rendering.render("t", {"x": f"text{hostile}"})


@pytest.mark.long
@pytest.mark.parametrize(("words", "encoding"), [
    ("explain softmax", "latin-1"), ("source softmax", "ascii"), ("graph var_mean", "ascii")])
def test_terminals_without_letters_for_mathematics(words: str, encoding: str) -> None:
    """Everything is written, in signs that every terminal has: `explain` in ASCII is test_cli's."""
    command = [sys.executable, "-m", "fusegen", *words.split()]
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, capture_output=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode(encoding)
    assert b"Traceback" not in done.stderr
    write_anything()
    plain = codecs.encode("Σ x·y ≤ 1 ⊕ 日", "ascii", "fusegen.otherwise")
    assert plain == b"sum  x*y <= 1 (+) \\u65e5"
