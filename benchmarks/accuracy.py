"""float32 error of merged sums beside that of the safe text, and of torch, against float64.

    python benchmarks/accuracy.py [NAME …] [--output benchmarks/results/NAME.json]

Every library pipeline and every text of tests/support/accepted.py, on the CPU, on data that is
hard for a running pivot. The error is a norm: ‖result − float64 result‖ / ‖float64 result‖, per row
for full rows and lists, over all rows for row values. Integer results are not looked at.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.target import host_cpu

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # for the texts
from support.accepted import ACCEPTED

Array = np.ndarray[Any, Any]
LIMIT = 2.0
"""How much larger than the safe text's the error of the merged form may be, beyond FLOOR."""
FLOOR = 4 * 2.0**-23
"""Four units in the last place: both forms round, and the text may be exact by luck."""
SMALLEST = 2.0**-126  # normal float32: what is below it counts as that much

PIPELINES = {**fg.library.PIPELINES, **ACCEPTED}
del PIPELINES["argmax"]  # has no float result
CONSTANTS = {"topk": {"k": 5}, "softmax_topk": {"k": 5}, "moe_gate": {"k": 2}}


# ---- data ----


def _outlier(at: int) -> Callable[[Array], Array]:
    def put(normal: Array) -> Array:
        normal[:, at] = 1000
        return normal

    return put


def _clustered(normal: Array) -> Array:
    normal[:, normal.shape[1] // 2 :] += 100
    return normal


DATA: dict[str, Callable[[Array], Array]] = {
    "normal": lambda n: n,
    "offset 1e3": lambda n: n + 1e3,
    "offset 1e4": lambda n: n + 1e4,
    "scale 1e-25": lambda n: n * 1e-25,
    "scale 1e25": lambda n: n * 1e25,
    "ascending": lambda n: np.sort(n, axis=1),
    "descending": lambda n: -np.sort(n, axis=1),
    "outlier first": _outlier(0),
    "outlier last": _outlier(-1),
    "clustered": _clustered,
}
_WEIGHTS = ("g", "w")  # standard normal whatever the data: gradients, and logarithms of weights


@cache
def _normal(rows: int, cols: int) -> tuple[Array, Any]:
    """What every pipeline's inputs are made of, and the generator's state behind it."""
    rng = np.random.default_rng(7)
    return rng.standard_normal((rows, cols)), rng.bit_generator.state


@cache
def _shaped(data: str, rows: int, cols: int) -> Array:
    return DATA[data](_normal(rows, cols)[0].copy()).astype(np.float32)


def inputs_of(name: str, data: str, rows: int, cols: int) -> dict[str, Array]:
    """float32 inputs of a pipeline; a second element input is correlated with the first."""
    rng = np.random.default_rng()
    normal, rng.bit_generator.state = _normal(rows, cols)
    found: dict[str, Array] = {}
    signature = PIPELINES[name].signature
    for given in (n for n in signature.arrays if n not in signature.optional):
        if given == "labels":
            found[given] = rng.integers(0, cols, rows)
        elif not found and given not in _WEIGHTS:
            found[given] = _shaped(data, rows, cols).copy()
        else:
            drawn = 0.6 * normal + 0.8 * rng.standard_normal((rows, cols)) if found else normal
            found[given] = (drawn if given in _WEIGHTS else DATA[data](drawn)).astype(np.float32)
    return found


# ---- errors ----


def leaves(result: Any) -> list[Array]:
    """The float results, as NumPy arrays."""
    parts = result if isinstance(result, tuple) else (result,)
    arrays = [np.asarray(part) for part in parts]
    return [a for a in arrays if a.dtype.kind == "f"]


def error(got: Array, want: Array) -> float:
    """‖got − want‖ / ‖want‖, the worst row's for results with columns; inf where a result that
    float32 can hold is not finite, or the other way round."""
    with np.errstate(all="ignore"):
        held = np.isfinite(want.astype(np.float32))
        if np.any(held != np.isfinite(got)):
            return np.inf
        size = np.where(held, want, 0)
        scale = np.maximum(np.max(np.abs(size), axis=-1, keepdims=True), SMALLEST)
        away = np.linalg.norm(np.where(held, got - size, 0) / scale, axis=-1)
        whole = np.maximum(np.linalg.norm(size / scale, axis=-1), SMALLEST / scale[..., 0])
        return float(np.max(away / whole, initial=0))


def same_specials(online: Array, safe: Array) -> bool:
    """Infinities and NaN of the merged form are the safe text's."""
    special = ~np.isfinite(online)
    return np.array_equal(online[special], safe[special], equal_nan=True)


def run_on_cpu(name: str, inputs: dict[str, Array], form: str) -> Any:
    return PIPELINES[name](*inputs.values(), form=form, **CONSTANTS.get(name, {}))


def measured(
    name: str, data: str, rows: int, cols: int, run: Callable[..., Any] = run_on_cpu
) -> dict[str, Any]:
    """One line of the table; the result whose merged form is worst beside the safe text's counts.

    run: gives the results of a pipeline for named inputs in a form, in float32.
    """
    inputs = inputs_of(name, data, rows, cols)
    with np.errstate(all="ignore"):
        want = leaves(PIPELINES[name].reference(*inputs.values(), **CONSTANTS.get(name, {})))
    found = {form: leaves(run(name, inputs, form)) for form in ("online", "safe")}
    peer = torch_result(name, inputs)
    if peer is not None:
        found["torch"] = peer
    errors = {form: [error(g, w) for g, w in zip(got, want, strict=True)]
              for form, got in found.items()}
    over = [excess(o, s) for o, s in zip(errors["online"], errors["safe"], strict=True)]
    worst = over.index(max(over))
    return {
        "pipeline": name, "data": data, "rows": rows, "cols": cols,
        **{form: e[worst] for form, e in errors.items()}, "excess": over[worst],
        "specials": all(map(same_specials, found["online"], found["safe"])),
    }


def excess(online: float, safe: float) -> float:
    """Error of the merged form over what it may be: at most 1 is right."""
    if np.isinf(online) or np.isinf(safe):
        return 0.0 if np.isinf(safe) else np.inf
    return online / (LIMIT * safe + FLOOR)


def torch_result(name: str, inputs: dict[str, Array]) -> list[Array] | None:
    """torch eager in float32, where torch is installed and has the function."""
    try:
        import torch
    except ImportError:
        return None
    given = [torch.from_numpy(a) for a in inputs.values()]
    peers: dict[str, Callable[..., Any]] = {
        "softmax": lambda x: torch.softmax(x, -1),
        "log_softmax": lambda x: torch.log_softmax(x, -1),
        "logsumexp": lambda x: torch.logsumexp(x, -1),
        "softmax_topk": lambda x: torch.topk(torch.softmax(x, -1), 5)[0],
        "topk": lambda x: torch.topk(x, 5)[0],
        "entropy": lambda x: torch.special.entr(torch.softmax(x, -1)).sum(-1),
        "cross_entropy": lambda x, t: torch.nn.functional.cross_entropy(x, t, reduction="none"),
        "var_mean": lambda x: torch.var_mean(x, -1, correction=0),
        "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
        "rms_norm": lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:], eps=1e-6),
        "norm2": lambda x: torch.linalg.vector_norm(x, dim=-1),
        "weighted_mean": lambda x, y: (torch.softmax(x, -1) * y).sum(-1),
        "covariance": lambda x, y: ((x - x.mean(-1, True)) * (y - y.mean(-1, True))).mean(-1),
        "third_moment": lambda x: ((x - x.mean(-1, True)) ** 3).sum(-1),
        "fourth_moment": lambda x: ((x - x.mean(-1, True)) ** 4).sum(-1),
    }
    return leaves(peers[name](*given)) if name in peers else None


# ---- the table ----


def show(line: dict[str, Any]) -> None:
    peer = f"{line['torch']:9.1e}" if "torch" in line else " " * 9
    ratio = line["online"] / line["safe"] if line["safe"] else float("nan")
    remark = "" if line["specials"] else "  other specials"
    if line["excess"] > 1:
        remark += f"  {line['excess']:.2g} × the limit"
    print(f"{line['pipeline']:22s}{line['data']:14s}{line['cols']:7d}{line['online']:9.1e}"
          f"{line['safe']:9.1e}{peer}{ratio:7.2f}{remark}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="pipelines; all of them if none is given")
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--cols", type=int, nargs="+", default=[20_000, 300])
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    print(f"{'pipeline':22s}{'data':14s}{'cols':>7s}{'online':>9s}{'safe':>9s}{'torch':>9s}  ratio")
    results = []
    for name in args.names or PIPELINES:
        for cols in args.cols:
            for data in DATA:
                results.append(measured(name, data, args.rows, cols))
                show(results[-1])
    if args.output:
        args.output.write_text(report(results))


def report(results: list[dict[str, Any]]) -> str:
    """JSON, one result a line; numbers to three digits, infinities as text."""
    try:
        import torch

        peer = torch.__version__
    except ImportError:
        peer = None
    found = find_compiler()
    assert found is not None
    compiler = subprocess.run([*found.words, "--version"], capture_output=True, text=True,
                              check=True).stdout.splitlines()[0]
    head = {
        "date": datetime.date.today().isoformat(), "target": host_cpu().name,
        "fusegen": fg.__version__, "python": platform.python_version(),
        "numpy": np.__version__, "torch": peer, "compiler": compiler,
        "limit": f"online <= {LIMIT:g} * safe + {FLOOR:.1e}",
    }
    lines = [json.dumps({k: _short(v) for k, v in line.items()}) for line in results]
    shown = json.dumps(head, indent=1).removesuffix("\n}")
    return shown + ',\n "results": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"


def _short(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.3g}") if np.isfinite(value) else str(value)


if __name__ == "__main__":
    main()
