"""What a pipeline compiles to, for people to read; what draws and explains is loaded when asked."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from fusegen.backend.registry import HERE, SHOWN
from fusegen.compile.passes import Work
from fusegen.ir.kinds import DTypes
from fusegen.lang import signature as sg
from fusegen.lang.blame import blames

if TYPE_CHECKING:
    import networkx as nx

    from fusegen.algebra.proof.proof import Proof
    from fusegen.compile.plan import Plan
    from fusegen.pipeline.explain import Explanation


class Shown:
    """Methods of pipelines; all of them take what `Pipeline.work` takes."""

    @blames
    def source(self: Any, target: str = SHOWN, dtype: DTypes = "float32", n_cols: int | None = None,
               form: str = "auto", chunk: int | None = None, include: bool = False,
               host: bool = False, **more: Any) -> str:
        """The generated CUDA C++ ("sm_80"…) or C++ ("cpu"); needs no GPU, CuPy or compiler.

        dtype: one for all inputs, or by input name. inputs=(…): optional inputs to include.
        role="fold", "merge", "finish", "map" (of full rows): what `states`, `fg.merge` and `finish`
        run, not a call.
        include: name fusegen's headers (in `fg.include_dir()`), and do not hold their text. host:
        end with extern "C" `<name>_workspace`, `<name>_launch`, and `<name>_unmet`, which says what
        of its assumptions does not hold.
        """
        asked: Any = {"dtype": dtype, "n_cols": n_cols, "form": form, "chunk": chunk}
        work: Work = self.work(target=target, **asked, **more)
        text = work.emitted.text(include=sg.check_flag("include", include))
        return f"{text}\n{work.launcher}" if sg.check_flag("host", host) else text

    @blames
    def plan(self: Any, *, target: str = HERE, dtype: DTypes = "float32", n_cols: int | None = None,
             form: str = "auto", chunk: int | None = None, **more: Any) -> Plan:
        """Sweeps, and reads and writes per element, of a form."""
        asked: Any = {"dtype": dtype, "n_cols": n_cols, "form": form, "chunk": chunk}
        work: Work = self.work(target=target, **asked, **more)
        return work.plan

    @blames
    def derivation(self: Any, *, target: str = HERE, dtype: DTypes = "float32",
                   form: str = "auto", **more: Any) -> Proof:
        """Derived states, pivots, transports, obligations with status and time, refusals."""
        work: Work = self.work(target=target, dtype=dtype, form=form, **more)
        return work.proof

    @blames
    def explain(self: Any, *, target: str = HERE, dtype: DTypes = "float32",
                n_rows: int | None = None, n_cols: int | None = None, form: str = "auto",
                **more: Any) -> Explanation:
        """All of it for a person: str(), and HTML in a notebook. Arguments as for `source`, and
        the number of rows."""
        from fusegen.pipeline.explain import Explanation

        asked: Any = {"dtype": dtype, "n_rows": n_rows, "n_cols": n_cols, "form": form}
        work: Work = self.work(target=target, **asked, **more)
        return Explanation(self.name, self.fn, work, self.traces.settled)

    @blames
    def graph(self: Any, *, inputs: Collection[str] = (), **constants: Any) -> nx.DiGraph:
        """The traced graph: nodes by name, attributes label, loc, extent and output."""
        from fusegen.compile.fusion import as_networkx

        work: Work = self.work(inputs=inputs, **constants)
        return as_networkx(work.graph)
