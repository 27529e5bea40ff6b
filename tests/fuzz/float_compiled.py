"""A sample of the accepted merges compiled, C++ on this machine, on the same rows."""

from __future__ import annotations

import warnings

import numpy as np

from fusegen.ir.dtypes import FLOAT32

from .float_judge import accepted
from .float_rows import rows_for
from .float_texts import random_text
from .float_yardstick import Text, Worst

SHAPES = ((24, 1), (61, 16), (1300, 256))  # columns, chunk


def judge_compiled(seed: int) -> dict[str, Worst]:
    """The worst of every merged sum of one text, by what is compiled for it; outputs are sums."""
    case = random_text(seed)
    graph, pipeline = case.graph(), case.pipeline()
    names = [graph.names[n] for n in graph.outputs]
    made_of = accepted(graph)
    sums = [name for name in made_of.sums(graph) if name in names]
    moved = {r.name for r in made_of.final.repairs}
    found = dict.fromkeys(sums, Worst())
    dtypes = dict.fromkeys(case.inputs, FLOAT32)
    for n_cols, chunk in SHAPES if sums else ():
        text = Text(graph, sums, rows_for(graph, dtypes, n_cols, seed), 0.0, moved)
        given = [text.bank.inputs[n] for n in case.inputs]
        arrays = [a[:, 0] if n == "r" else a for n, a in zip(case.inputs, given, strict=True)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the product finds wrong itself is not merged
            made = pipeline.compile(*arrays, form="online", target="cpu", chunk=chunk)(*arrays)
        outputs = dict(zip(names, made if isinstance(made, tuple) else (made,), strict=True))
        for name in sums:
            got = np.asarray(outputs[name])[:, None]
            worst = text.worst(name, got, f"compiled, chunks of {chunk}")
            found[name] = found[name].beside(worst)
    return found
