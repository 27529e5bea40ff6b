"""The figures of a campaign for people: a short text, and a page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_PAGE = """# Fuzz of merged sums in floats

    python -m tests.fuzz.floats --count {texts} --seed {seed} \\
        --output benchmarks/results/float_fuzz.json --page benchmarks/float_fuzz.md

{texts} different random texts ({inputs}) are derived, and every sum that is merged is executed in
float32 on hard rows along every kind of tree. {date}, fusegen {fusegen}, sympy {sympy}, {minutes}
minutes of one core; figures and examples: [results/float_fuzz.json](results/float_fuzz.json).

| | |
|---|---|
{summary}

Excess is the error over what is allowed; none may be above 1.

## How it is judged

* **Texts** (`tests/fuzz/float_texts.py`): exponentials, powers, scales, selections, masks, weights,
  means, read-outs and chains of sums over one to three inputs and inputs per row, relative to
  pivots of the very elements and of others: other inputs, other weights, midranges, ranges, masked
  maxima, earlier sums.
* **Executed**: the lowered operator, replayed in float32 (`fusegen/replay`), single elements one
  after another from both sides and in pairs of pairs, chunks of 7 and 256, rows of 1, 2, 3, 11, 24,
  61 and 1,300 columns; rows of bfloat16 where the merge for them keeps fewer sums. Rows follow the
  patterns of the trial bank, in draws other than the product's own; with several inputs every two
  meet in pairs of patterns. A sample is compiled, C++, in chunks of 1, 16 and 256.
* **Yardstick**, row by row: 4 × the safe text's error, the worst of nine ways to add up its sums
  in float32 and of two (on short rows eight) with every operation rounded up or down by chance,
  and 16 units in the last place of Σ|terms|. Where terms of both signs meet in a row, or are no
  more than the text's own rounding, what that is in proportion to stands for Σ|terms|: Σ over its
  operations of |operand|·|∂f|, to first order. Of sums kept about another pivot, Σ|terms| also on
  elements as far away as a sum of them rounds: a power of x − P that is exactly 0 is known to the
  rounding of a mean only. What falls below the normal numbers rounds absolutely; a result in
  bfloat16 rounds when it is written. Not finite where the text is, is wrong, on rows
  with infinities too; but where a condition or a bound of the term may leave out what an infinite
  row value makes NaN, which [special values](../docs/special_values.md) except (not of terms that
  ask `isinf`: they are about those rows), and where a divisor of the text is all rounding, so that
  Σ|terms| is no more than what is allowed. Rows on which the text or a row value of it has no
  value or leaves the range of float32, or Σ|terms| comes within 4·n of its end, are not judged:
  Σ (x / s)·y is kept as (Σ x·y) / s. The oracle is float64 and a
  reading of the graph of its own (`tests/fuzz/float_oracle.py`).
* **Silent**: no row says anything, as of ((x − x) / mean(x − x))², which is 0 / 0 whatever x is.
  Such sums count neither as merged nor as missed: nothing could be seen wrong of them.
* **Missed**: refused for what floats would make of it, equal to the text over the reals with that
  rule switched off, and never seen wrong on these rows, on other draws of them, or on 150 columns
  one by one. That is more than can be merged safely: what goes wrong by a factor of n is seen on
  longer rows only.

## Refused for what floats would make of it

| refused as | seen wrong | missed | an example of what is missed |
|---|---|---|---|
{refused}
"""


def table(found: dict[str, Any]) -> str:
    """The figures as a short text."""
    lines = [f"  {value:<28} {name}" for name, value in _summary(found)]
    lines += [f"  {n:>5} refused, {found['missed'].get(why, 0):>4} missed  {why}"
              for why, n in found["refused"].items()]
    for wrong in found["wrong"]:
        w = wrong["worst"]
        lines.append(f"  WRONG {wrong['seed']} {wrong['sum']} {w['excess']} ({w['tree']}; "
                     f"{w['row']}) {w['merged']} for {w['text']}: {wrong['text']}")
    lines += [f"  CAUGHT {c['seed']} {c['sum']}: {c['text']}" for c in found["caught"]]
    lines += [f"  FAILED {e['seed']} {e['error']}: {e['text']}" for e in found["exceptions"]]
    lines += [f"  COMPILED WRONG {w}" for w in found["compiled"]["wrong"]]
    return "\n".join((f"{found['texts']} random texts", *lines))


def page(found: dict[str, Any], seed: int) -> str:
    """The figures as a page of Markdown."""
    kinds = sorted({*found["refused"], *found["missed"]},
                   key=lambda k: -found["refused"].get(k, 0))
    rows = []
    for kind in kinds:
        examples = found["missed_examples"].get(kind, [])
        shown = f"`{examples[0]['text']}`" if examples else ""
        rows.append((kind, found["refused"].get(kind, 0), found["missed"].get(kind, 0), shown))
    return _PAGE.format(
        texts=found["texts"], seed=seed, date=found["date"], refused=_rows(rows),
        inputs=", ".join(f"{n} of {who}" for who, n in found["by_inputs"].items()),
        fusegen=found["versions"]["fusegen"], sympy=found["versions"]["sympy"],
        minutes=round(found["processor_seconds"] / 60), summary=_rows(_summary(found)),
    )


def _summary(found: dict[str, Any]) -> list[tuple[str, str]]:
    sums, worst, compiled = found["sums"], found["worst_accepted"], found["compiled"]
    return [
        ("sums that depend on row values", str(sum(sums.values()))),
        ("merged and executed", str(sums.get("accepted", 0) + sums.get("wrong", 0))),
        ("of these about another pivot than the text's", str(found["repaired"])),
        ("of these wrong", str(sums.get("wrong", 0))),
        ("excess of the others", " / ".join(f"{worst.get(k, 0):g}" for k in
                                            ("median", "p95", "p99", "max"))
         + " (median, p95, p99, max)"),
        ("rows executed", f"{found['rows']:,}"),
        ("compiled sample", f"{compiled['sums']} sums, excess at most {compiled['worst']:.3g}"),
        ("let pass by the rule, and stopped by the trial", str(sums.get("caught", 0))),
        ("refused for floats, and seen wrong", str(sums.get("refused", 0))),
        ("missed, of what can be merged safely",
         f"{sums.get('missed', 0)}, {found['missed_share']:.1%}"),
        ("without a value on every row", str(sums.get("silent", 0))),
        ("not equal over the reals, or undecided", str(sums.get("unmerged", 0))),
        ("exceptions", str(len(found["exceptions"]))),
        ("seconds a text", f"{found['seconds_a_text']['median']} / "
                           f"{found['seconds_a_text']['max']} (median, max)"),
    ]


def _rows(rows: Iterable[tuple[Any, ...]]) -> str:
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"
                     for row in rows)
