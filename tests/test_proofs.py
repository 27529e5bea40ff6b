"""Derivations as proofs: what they print, that it is typeset safely, and that JSON is exact."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.algebra_cases import ACCEPTED
from support.cases import covariance, kl_divergence, skewness_sum, weighted_variance

import fusegen as fg
from fusegen.algebra.proof.html import MathML
from fusegen.algebra.proof.latex import Latex, escaped
from fusegen.algebra.proof.notation import parts_of_name, written
from fusegen.algebra.proof.proof import Proof
from fusegen.algebra.proof.text import Plain
from fusegen.ir.derivation import Commuted, Dependent, Refused
from fusegen.ir.expr import Call, Expr, Lit, Var, call, evaluate
from fusegen.ir.ops import OPS

L = fg.library.PIPELINES


@fg.pipeline
def everything(x, w, *, k=3):
    """A base monoid, merged sums, commuted orders of both directions and refusals."""
    u = x - fg.mean(x)
    warm = fg.sum(fg.exp((x - fg.max(x)) / 0.7))
    return {
        "top": fg.topk(fg.max(x) - 2 * x, k), "warm": warm, "above": fg.count(x > fg.mean(x)),
        "slope": fg.sum(w * u), "norm": fg.sum((x / fg.max(fg.abs(x))) ** 2),
    }


PIPELINES = [*L.values(), everything, kl_divergence, covariance, skewness_sum, weighted_variance]
each = pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda p: p.name)


def without_times(text: str) -> str:
    return re.sub(r"  \[(sympy|facts|hard rows), \d+ ms\]", "", text)


SOFTMAX = """\
softmax: 1 base monoid, 1 merged sum; 7 of 7 obligations proved

base monoids: m = max x

sum_exp = Σ exp(x − m), and m moves as the row is read
  put       u = x − m
  keep      S₁ = Σ exp(u)
  move      m → m′: δ = m − m′, u′ = u + δ
            S₁′ = exp(δ)·S₁
  read      sum_exp = S₁
  proved    pointwise identity: exp(u′) = exp(δ)·exp(u)
  proved    read-out: exp(x − m) = exp(u)
  proved    cocycle: T(q→r) T(p→q) = T(p→r)
  proved    unit: T(p→p) = 1
  proved    range: x ≤ m at every part of the row, and m only grows
  proved    conditioning: a tree of depth d is off by at most d·c·ε·Σ |terms|
  proved    reference: r does in m's place: T(r→m) T(m→r) = 1 for every r,
                       and T(m→r) is bounded while r is at most τ from m
  so        it merges, by the cocycle theorem and the lemma of partial rows
"""


def test_a_derivation_reads_as_an_argument():
    assert without_times(str(L["softmax"].derivation())).startswith(SOFTMAX)


def test_every_kind_of_entry_is_told():
    shown = without_times(str(everything.derivation()))
    for line in (
        "everything: 3 base monoids, 3 merged sums, 1 commuted, 1 refused; ",
        "  put       u₂ = x − mean_x",
        "  keep      S₁ = Σ exp(10·u₁ / 7)",
        "  since     it has the reverse order of x, whatever max_x will be",
        "  refused   test_proofs.py:",
        "ρ = ",
        "cocycle theorem\n",
        "lemma of partial rows\n",
        "monotone lemma\n",
    ):
        assert line in shown, shown
    assert shown.count("cocycle theorem\n  If") == 1


def test_letters_of_the_argument_are_nobody_elses():
    @fg.pipeline
    def text(u, v):
        n = fg.sum(v)
        return fg.sum((u - fg.mean(u)) ** 2) + n

    shown = str(text.derivation())
    assert "put       u₁ = u − mean_u" in shown
    assert "n₁ = Σ 1" in shown
    assert "n₁ = Σ 1" not in str(L["var_mean"].derivation())


@each
def test_json_gives_back_the_very_derivation(pipeline):
    found = pipeline.derivation()
    text = found.to_json()
    assert Proof.from_json(text) == found
    assert Proof.from_json(text).to_json() == text
    assert str(Proof.from_json(text)) == str(found)


@each
def test_html_is_well_formed_and_says_what_the_text_says(pipeline):
    html = pipeline.derivation()._repr_html_()
    tree = ET.fromstring(html)
    words = "".join(tree.itertext())
    found = pipeline.derivation()
    assert "<script" not in html
    assert "$" not in words
    for entry in found:
        assert entry.name in words
        if isinstance(entry, Refused):
            assert entry.refusal.why.split("<")[0] in words
    assert words.count("proved") + words.count("tried") >= len(found.obligations)


def test_a_refusal_is_escaped():
    found = everything.derivation()
    assert any("<" in r.why for r in found.refusals), "mean_x < x is in the reason"
    evil = replace(found.refusals[0], why="<script>alert(1)</script> & \\input{x} $x_1$ 50%")
    entries = tuple(replace(e, refusal=evil) if isinstance(e, Refused) else e for e in found)
    told = replace(found, entries=entries)
    assert "<script>" not in told._repr_html_()
    assert "&lt;script&gt;alert(1)" in told._repr_html_()
    assert r"\textbackslash{}input\{x\} \$x\_1\$ 50\%" in told.latex()


@each
def test_latex_balances(pipeline):
    tex = pipeline.derivation().latex()
    assert tex.count(r"\begin{align*}") == tex.count(r"\end{align*}")
    plain = re.sub(r"\\[{}$&%#_]", "", tex)  # escaped ones
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == 0
    assert tex.count(r"\left") == tex.count(r"\right")
    assert not re.search(r"(?<![\\_])_(?![{])", re.sub(r"\\_", "", tex)), "a bare underscore"
    known = set("Σδρ−→·≤≥′∂⊕∞…") & set(tex)
    assert not known, f"left as they are: {known}"


def test_latex_escapes_any_text():
    assert escaped("a_b $ 50% {x} \\ ^~ #&") == (
        r"a\_b \$ 50\% \{x\} \textbackslash{} \textasciicircum{}\textasciitilde{} \#\&"
    )


# ---- formulas: the same walk in all notations, and it means what it says ----

NAMES = ("x", "m", "sum_exp")
exprs = st.recursive(
    st.sampled_from([Var(n) for n in NAMES]) | st.sampled_from([Lit(2.0), Lit(-3.0), Lit(0.5)]),
    lambda inner: st.builds(lambda op, a, b: call(op, a, b),
                            st.sampled_from(["add", "sub", "mul", "div"]), inner, inner)
    | st.builds(lambda op, a: call(op, a), st.sampled_from(["neg", "square", "abs"]), inner),
    max_leaves=8,
)


@given(exprs)
def test_brackets_say_what_the_expression_means(expr: Expr):
    """Read as Python, the plain text has the value of the tree."""
    env = {"x": 1.7, "m": -0.6, "sum_exp": 3.3}
    shown = written(expr, Plain()).replace("−", "-").replace("·", "*").replace("²", "**2")
    for power in "³⁴⁵⁶⁷⁸⁹":
        shown = shown.replace(power, f"**{'³⁴⁵⁶⁷⁸⁹'.index(power) + 3}")
    if "|" in shown:
        return  # bars do not nest in Python
    try:
        with np.errstate(all="ignore"):
            wanted = float(evaluate(expr, env))
        found = float(eval(shown, {}, env))
    except ZeroDivisionError:
        return
    assert found == pytest.approx(wanted, rel=1e-9, nan_ok=True) or wanted in (
        float("inf"), float("-inf")), shown


@given(exprs)
def test_every_notation_is_well_formed(expr: Expr):
    ET.fromstring(f"<math>{written(expr, MathML())}</math>")
    tex = written(expr, Latex())
    assert tex.count("{") == tex.count("}")


def test_every_operation_can_be_written():
    for op in OPS.values():
        shown = Call(op.name, tuple(Var(n) for n in "abc"[: op.arity]))
        ET.fromstring(f"<math>{written(shown, MathML())}</math>")
        assert written(shown, Latex()).count("{") == written(shown, Latex()).count("}")
        assert all(n in written(shown, Plain()) for n in "abc"[: op.arity])


@pytest.mark.parametrize(("name", "parts"), [
    ("S₁₂′", ("S", "12", "′")), ("mean_x", ("mean_x", "", "")), ("m_2′", ("m_2", "", "′")),
])
def test_names_come_apart(name, parts):
    assert parts_of_name(name) == parts


def test_numbers_are_exact():
    assert written(Lit(10 / 7), Plain()) == "10 / 7"
    assert written(Lit(0.1 + 0.2), Plain()) == "0.30000000000000004"
    assert written(Lit(1e-5), Plain()) == "1e−05"
    assert written(call("sub", Var("x"), Lit(-2.0)), Plain()) == "x + 2"


# ---- JSON from elsewhere ----


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.update(schema="fusegen.derivation/0"),
        lambda r: r.pop("derivation"),
        lambda r: r["derivation"].update(seconds="soon"),
        lambda r: r["derivation"].update(more=1),
        lambda r: r["derivation"].update(seconds=float("nan")),
        lambda r: r["derivation"].update(seconds={"is": "float", "value": "1_0"}),
        lambda r: r["derivation"]["entries"].append({"is": "Basis"}),
        lambda r: r["derivation"]["entries"].append({"is": "os.system", "name": "x"}),
        lambda r: r["derivation"]["entries"][1]["basis"][0]["lift"].update(op="exec"),
        lambda r: r["derivation"]["entries"][1]["basis"][0]["lift"].update(args=[]),
        lambda r: r["derivation"]["entries"][1]["obligations"][0].update(status="believed"),
        lambda r: r["derivation"]["entries"][1]["shifts"][0].update(action="rotate"),
    ],
)
def test_a_record_that_is_none_is_turned_away(change):
    record = json.loads(L["softmax"].derivation().to_json())
    change(record)
    with pytest.raises(fg.ArgumentError, match="not the record"):
        Proof.from_json(json.dumps(record))


@pytest.mark.parametrize("text", ["", "[1", "null", "[" * 100_000, "{}"])
def test_text_that_is_no_record_is_turned_away(text):
    with pytest.raises(fg.ArgumentError, match="not the record"):
        Proof.from_json(text)


def test_json_keeps_numbers_that_json_does_not_have():
    found = L["softmax"].derivation()
    odd = replace(found.entries[1], readout=(Lit(float("inf")), Lit(float("-inf")), Lit(1, "int"),
                                             Lit(True, "bool"), Lit(0.1)))
    told = replace(found, entries=(odd,))
    assert Proof.from_json(told.to_json()) == told
    values = [c.value for c in Proof.from_json(told.to_json()).entries[0].readout]
    assert [type(v) for v in values] == [float, float, int, bool, float]


# ---- the text that a derivation starts from ----


def test_definitions_are_the_users_lines():
    found = {d.name: d for d in L["entropy"].derivation().definitions}
    assert written(found["p"].formula, Plain()) == "exp(x − m) / sum_exp"
    assert found["sum_exp"].fold == "sum"
    kinds = {type(e) for e in everything.derivation()}
    assert kinds >= {Dependent, Commuted, Refused}


EVERYTHING = '''
import re
import fusegen as fg
for p in fg.library.PIPELINES.values():
    more = dict(inputs=tuple(p.signature.optional))
    d = p.derivation(**more)
    print(re.sub(r'"seconds": [^,]*', '', d.to_json()))
    print(re.sub(r'\\d+ ms', '', str(d) + d.latex() + d._repr_html_()))
    print(p.source('sm_90', **more), p.source('cpu', **more))
'''


@pytest.mark.long
def test_derivations_and_sources_do_not_depend_on_hash_seeds(capsys):
    """Nor on what a process did before, as this one has."""
    exec(EVERYTHING, {})
    here = capsys.readouterr().out
    other = subprocess.run(
        [sys.executable, "-c", EVERYTHING], stdout=subprocess.PIPE, text=True, check=True,
        env={"PYTHONHASHSEED": "77", "PYTHONPATH": str(Path(fg.__file__).parents[1]),
             "PYTHONPYCACHEPREFIX": os.environ["PYTHONPYCACHEPREFIX"],
             "FUSEGEN_CACHE_DIR": "/dev/null/none", "PATH": "/usr/bin:/bin"},
    ).stdout
    assert here == other
    assert here.count('"schema"') == len(L)


# ---- the page about it ----

PAGE = (Path(__file__).parents[1] / "docs" / "proofs.md").read_text(encoding="utf-8")
OUTPUTS = {
    **{n: lambda p=p: str(p.derivation()) for n, p in L.items()},
    "softmax_weighted_variance":
        lambda: str(ACCEPTED["softmax_weighted_variance"].derivation()),
    **{f"check {n}": lambda p=p: str(fg.check(p)) for n, p in L.items()},
}


def _shown():
    return re.findall(r"<!-- output of: (.+?) -->\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("name", "block"), _shown(), ids=[n for n, _ in _shown()])
def test_the_page_shows_what_is_printed(name, block):
    assert block in without_times(OUTPUTS[name]()) + "\n"


def test_the_page_shows_the_examples_it_speaks_of():
    assert {n for n, _ in _shown()} == {
        "softmax", "var_mean", "entropy", "softmax_weighted_variance", "check entropy"}
