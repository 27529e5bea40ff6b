"""fg.distributed.sharded: a pipeline of rows whose columns are sharded over ranks.

    step = fg.distributed.sharded(fg.library.softmax_topk)     # on every rank of the group
    values, tokens = step(logits_shard, k=64)                  # the same on every rank

fold this rank's shard → pack → one exchange → merge → finish.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from fusegen.distributed.calls import Call
from fusegen.distributed.exchange import AtEveryCall, Once
from fusegen.distributed.gradients import is_recorded, record
from fusegen.distributed.levels import Levels, checked_nodes, is_still, members_of, place_of
from fusegen.distributed.meshes import COLUMNS, are_placed, placed
from fusegen.distributed.operator import entry_of, in_graph
from fusegen.distributed.plan import ExchangePlan, plan_of
from fusegen.distributed.ranks import HOST, Members
from fusegen.distributed.symmetric import EXCHANGES, Exchange, expected, has_gpus
from fusegen.distributed.tables import merged
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError
from fusegen.ir.kinds import DTypes
from fusegen.ir.nesting import flatten, nest
from fusegen.ir.shared import Recent
from fusegen.lang.blame import blames
from fusegen.library.texts import one_of
from fusegen.pipeline import by_torch
from fusegen.pipeline.decorator import check_pipeline
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.remembered import MISS
from fusegen.pipeline.states.pieced import asked_pieces
from fusegen.pipeline.states.record import States

_CHECKS = "auto every once"
_DERIVED = 64


class Sharded:
    """A pipeline over the ranks of a group; made by `sharded`."""

    def __init__(
        self, pipeline: Pipeline, group: Any, checks: str, timeout: timedelta | None,
        pieces: int | None, per_node: int | str | None = None, exchange: Exchange = "auto",
    ) -> None:
        self.pipeline, self.group = pipeline, group
        self.names = pipeline.signature.arrays
        """For torch.compile, which may take a pipeline in an object for a method of it."""
        self.identity = by_torch.identity(f"sharded {pipeline.name}")
        self._checks, self._timeout, self._pieces = checks, timeout, pieces
        self._per_node, self._exchange = per_node, exchange
        self._ways: dict[str, AtEveryCall | Once] = {}
        self._others: dict[int, Sharded] = {}  # of groups that DTensors name
        self._derived: Recent[Pipeline, Sharded] = Recent(_DERIVED)  # gradients

    def __repr__(self) -> str:
        return f"<{self.pipeline.name} of rows sharded over ranks>"

    def __call__(
        self, *arrays: Any, at: int | None = None, columns: int | None = None, **named: Any
    ) -> Any:
        """What the pipeline returns for the whole rows, the same on every rank.

        arrays: this rank's shard of element and per-column inputs, columns last and any number of
        them, none too; inputs per row are the same on every rank. Tensors or NumPy arrays; or
        DTensors, whose placements say what is sharded over which ranks, and which give DTensors.
        at: number of the shard's first column in the whole row, on every rank or on none: left
        out, shards follow one another by rank. columns: how many a whole row has, checked if given.
        Raises ExchangeError on every rank where ranks call differently, one fails or is lost.
        """
        if by_torch.compiling():
            return in_graph(self, arrays, named, at, columns)
        return self.called(*arrays, at=at, columns=columns, **named)

    @blames
    def called(self, *arrays: Any, at: int | None, columns: int | None, **named: Any) -> Any:
        """A call that torch does not read."""
        found = self._again(arrays, named, at, columns)
        if found is not MISS:
            return found[0]
        if are_placed((*arrays, *named.values())):
            return self._placed(arrays, named, at, columns)
        call = Call(self.pipeline, arrays, named, at, columns, self._pieces)
        return record(self, call) if is_recorded(call) else self.found(call)[0]

    def found(self, call: Call) -> tuple[Any, int, int]:
        """(results, number of this shard's first column, columns of whole rows)."""
        call = call if call.pieces == self._pieces else replace(call, pieces=self._pieces)
        found: Any = MISS
        if call.error is None:
            found = self._again(tuple(call.arrays), call.named, call.at, call.columns)
        if found is MISS:
            way = self._way(call)
            met = way.met(call)
            whole = merged(call, met)
            results = self.pipeline.finish(whole, at=met.first, **call.bound[0])
            if isinstance(way, Once):
                way.learn(call, met, whole)
            return results, met.first, whole.n_cols
        results, first, n_cols = found
        return results, first, n_cols

    def _again(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any], at: int | None,
        columns: int | None,
    ) -> Any:
        """What a call like an earlier one finds, or MISS. DTensors, and tensors whose gradients are
        recorded, are none that a remembered call had."""
        once = self._ways.get("once")
        if not isinstance(once, Once) or not is_still(once.ranks, self.group):
            return MISS
        return once.again(self.pipeline, arrays, named, at, columns)

    def of(self, pipeline: Pipeline) -> Sharded:
        """Another pipeline over the same ranks."""
        return self._derived.get_or_make(
            pipeline, lambda: self._like(pipeline, self.group, self._per_node))

    def _like(
        self, pipeline: Pipeline, group: Any, per_node: int | str | None = None
    ) -> Sharded:
        return Sharded(pipeline, group, self._checks, self._timeout, self._pieces, per_node,
                       self._exchange)

    def graph_entry(self, _identity: str, n_arrays: int, *told: Any) -> str:
        """For torch.compile, which does not read it: see `operator.entry_of`."""
        return entry_of(self, n_arrays, told)

    graph_entry._dynamo_marked_constant = True  # type: ignore[attr-defined]

    @blames
    def states(
        self, *arrays: Any, at: int | None = None, columns: int | None = None, **named: Any
    ) -> States:
        """The merged states of the whole rows, the same on every rank: as a call, unfinished."""
        call = Call(self.pipeline, arrays, named, at, columns, self._pieces)
        return merged(call, self._way(call).met(call))

    @blames
    def plan(
        self, n_rows: int, n_cols: int, *, dtype: DTypes = "float32",
        inputs: Collection[str] = (), **constants: Any,
    ) -> ExchangePlan:
        """What a call moves between ranks, for so many rows of n_cols columns on all of them; if
        through symmetric memory, is known once a call was made, and expected before.

        dtype: of the inputs, one or by name; inputs: optional ones that are there. Raises as
        `Pipeline.work`, and ArgumentError where there is no process group."""
        members = self._members()
        per_node = members.inside.size if isinstance(members, Levels) else members.size
        found = plan_of(self.pipeline, members.size, per_node, self._pieces, n_rows, n_cols,
                        *self.pipeline.assumed(dtype, inputs, constants))
        if self._exchange == "collective" or not has_gpus(place_of(self.group)):
            return found
        once = self._ways.get("once")
        why = once.why if isinstance(once, Once) else None
        why = expected(members, self._pieces) if why is None else why
        return replace(found, symmetric=not why, why=why)

    @blames
    def verify(self) -> None:
        """Wait for what was exchanged so far. Raises ExchangeError where a call that was checked
        by its seal alone (checks="once") met states of another one."""
        for way in self._ways.values():
            if isinstance(way, Once):
                way.verify()
        for other in self._others.values():
            other.verify()

    def _placed(
        self, arrays: tuple[Any, ...], named: dict[str, Any], at: int | None, columns: int | None
    ) -> Any:
        """A call with DTensors."""
        if at is not None or columns is not None:
            raise ArgumentError(f"{self.pipeline.name} was given DTensors, and at= or columns=",
                                why="DTensors say where their shards are.", fix="Leave it away.")
        present, constants = self.pipeline.bind(arrays, named)
        graph = self.pipeline.traced(frozenset(present), constants).graph
        where = placed(self.pipeline.name, graph, present)
        local = {n: a.to_local() for n, a in present.items()}
        if where.group is None:
            found = self.pipeline(**local, **constants)
        else:
            found = self._over(where.group)(**local, **constants, at=where.first,
                                            columns=where.sizes[COLUMNS])
        flat = flatten(graph.structure, found, len(graph.outputs))
        return nest(graph.structure, [where.result(f, g.extent(n))
                                      for f, n in zip(flat, graph.outputs, strict=True)])

    def _over(self, group: Any) -> Sharded:
        """The same over the ranks of another group."""
        if id(group) not in self._others:
            self._others[id(group)] = self._like(self.pipeline, group)
        return self._others[id(group)]

    def _members(self) -> Members:
        return members_of(place_of(self.group), self._per_node, self._timeout)

    def _way(self, call: Call) -> AtEveryCall | Once:
        """How calls are checked where these arrays are; anew for another group."""
        checks = self._checks
        if checks == "auto":
            checks = "every" if call.device.type == HOST.type else "once"
        if checks == "every" and self._exchange == "symmetric":
            raise ArgumentError(f"{self.pipeline.name} was to be exchanged by symmetric memory, "
                                "which calls that hosts check every time cannot",
                                fix='Give tensors on GPUs, and leave checks="every" away.')
        found = self._ways.get(checks)
        if found is None or found.ranks.group is not place_of(self.group):
            ranks = self._members()
            found = AtEveryCall(ranks) if checks == "every" else Once(
                ranks, self._timeout, self._exchange)
            self._ways[checks] = found
        return found


@blames
def sharded(
    pipeline: Pipeline, group: Any = None, *, checks: str = "auto",
    timeout: timedelta | None = None, deterministic: bool = False, pieces: int | None = None,
    per_node: int | str | None = None, exchange: Exchange = "auto",
) -> Sharded:
    """A pipeline of rows whose columns are sharded over the ranks of a torch.distributed group.

    group: a process group, a DeviceMesh, or None for all processes. Of a mesh of two dimensions,
    nodes and the ranks of each, a node's states meet first, and then those of nodes. So they do
    with per_node=, how many neighbouring ranks are a node, or "host": those on each host.
    checks: "every" call verifies on hosts that all ranks made the same call; "once" does so at the
    first call of a kind (shapes, types, constants), and later calls only on the device, where wrong
    states become NaN: no host waits for a device, and CUDA graphs may record them. "auto": every
    on processors, once on GPUs. timeout: of what is agreed once, among hosts; the group's own
    bounds the exchanges.
    exchange: of states. "symmetric": GPUs of one host write to one another's memory, and merge in
    the same launch; "collective": an all-gather; "auto": the former where it is available.
    deterministic: the same bits for any number of ranks: the row is cut into canonical `pieces`
    (see `Pipeline.states`), and shards end at multiples of so many columns. Raises ArgumentError.
    """
    check_pipeline("sharded", pipeline)
    one_of("checks", checks, _CHECKS)
    one_of("exchange", exchange, EXCHANGES)
    return Sharded(pipeline, group, checks, timeout, asked_pieces(deterministic, pieces),
                   checked_nodes(per_node), exchange)
