"""The one kernel of a pipeline's online form, for those who replay it."""

from __future__ import annotations

from collections.abc import Mapping

from fusegen.compile.fusion import fuse
from fusegen.compile.lower.program import lower
from fusegen.ir import graph as g
from fusegen.ir.derivation import Derivation
from fusegen.ir.dtypes import DType
from fusegen.ir.kernel import Kernel
from fusegen.ir.kinds import infer_kinds


def online_kernel(
    graph: g.Graph, derivation: Derivation, dtypes: Mapping[str, DType]
) -> Kernel:
    """All sweeps of the online form of the text `graph`, with the derivation's repairs, for inputs
    of these types (by name), whatever runs."""
    from fusegen.rewrite.repair.rewriting import repaired_graph  # loads sympy

    merging = repaired_graph(graph, derivation, dtypes)
    fusion = fuse(merging, derivation, "online", infer_kinds(merging, dtypes))
    (kernel,) = lower(merging, derivation, fusion, dtypes, "rows").kernels
    return kernel
