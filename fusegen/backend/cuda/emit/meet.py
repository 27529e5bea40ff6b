"""Ranks that meet in one launch, as CUDA C++: states come from all of them, merge, and become the
results, where these are of rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusegen.backend.cuda.emit.dialect import C_TYPES
from fusegen.backend.cuda.emit.kernels import function_of
from fusegen.backend.cuda.emit.merge import held_params, merge_context, merge_headers
from fusegen.backend.cuda.emit.places import array_name, declared
from fusegen.backend.cuda.emit.source import cuda_source
from fusegen.backend.cuda.emit.state import held
from fusegen.backend.cuda.schedule.assumptions import facts
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.launch import Launch, launches
from fusegen.backend.emit.banner import banner_lines
from fusegen.backend.emit.render import render
from fusegen.backend.emit.source import Source
from fusegen.ir.kernel import Param, Program
from fusegen.ir.state_layout import StateLayout, state_layout

NUMBERS = ("own_rank", "most_groups", "room", "tag", "patience", "n_rows")
"""64-bit arguments behind the words: see <fusegen/meet/ranks.cuh>."""

_SHARED_BYTES = 40 << 10  # of a block, so that a multiprocessor has room for several
_NUMBERS = {"n_cols": "whole_columns"}  # of a row, where those of the merge are ranks


@dataclass(frozen=True)
class Meet:
    """What is printed: the ⊕ of so many ranks' states, and what makes results of one, if that is in
    the same launch."""

    merge: Program
    finish: Program | None
    schedule: CudaSchedule
    ranks: int

    @property
    def symbol(self) -> str:
        return f"{self.merge.kernels[0].name.removesuffix('_merge')}_meet_kernel"

    @property
    def layout(self) -> StateLayout:
        (kernel,), (sweep,) = self.merge.kernels, self.merge.sweeps
        return state_layout(sweep.monoid, kernel.compute)

    @property
    def staged(self) -> bool:
        """Do states of a group of rows come to shared memory?"""
        each = self.schedule.rows_per_block * self.layout.n_bytes
        return (self.ranks + 1) * each <= _SHARED_BYTES

    @property
    def finishing(self) -> Launch | None:
        return None if self.finish is None else launches(self.finish, self.schedule)[0]

    @property
    def places(self) -> tuple[str, ...]:
        """Words for the memory of every rank that others write to."""
        return tuple(f"place_{rank}" for rank in range(self.ranks))

    @property
    def held(self) -> tuple[Param, ...]:
        """Numbers of the call that merges take."""
        return tuple(p for p in self.merge.kernels[0].params if p.shape == "scalar")

    @property
    def given(self) -> tuple[Param, ...]:
        """Arrays and numbers that results are made of, beside states, and results."""
        launch = self.finishing
        return () if launch is None else tuple(p for p in launch.params if not is_field(p))

    @property
    def words(self) -> tuple[str, ...]:
        """what a launch is given: this rank's states, places, its own, memory of its launches,
        the host's, merged states, then `held` and `given` by name."""
        return ("states", *self.places, "own_place", "control", "told", "merged",
                *(held(p.name) for p in self.held), *(p.name for p in self.given))

    @property
    def numbers(self) -> tuple[str, ...]:
        """And then, 64 bits each."""
        launch = self.finishing
        rest = () if launch is None else launch.scalars
        return (*NUMBERS, *(_NUMBERS.get(n, n) for n in rest if n != "n_rows"))


def is_field(param: Param) -> bool:
    """Is it a part of a state?"""
    return bool(param.field) and param.shape != "scalar"


def meet_source(meet: Meet) -> Source:
    """The same programs and schedule give the same bytes."""
    context = merge_context(meet.merge, meet.schedule)
    finish = None if meet.finish is None else cuda_source(meet.finish, meet.schedule, within=True)
    launch = meet.finishing
    body = render("cuda/roles/meet.cu.j2", context | {
        "symbol": meet.symbol, "ranks": meet.ranks, "places": meet.places,
        "params": [*_params(meet, context["real"])],
        "finish": finish.body if finish else "", "staged": meet.staged,
        "finish_function": function_of(launch) if launch else "",
        "finish_args": [*_arguments(launch, meet.layout)] if launch else [],
    })
    headers = merge_headers(context, meet.schedule)
    return Source(
        body=body, banner=tuple(_banner(meet)), system=finish.system if finish else (),
        headers=(*headers, *(finish.headers if finish else ()), "fusegen/states/field.cuh",
                 "fusegen/meet/ranks.cuh"),
    )


def _params(meet: Meet, real: str) -> Iterator[str]:
    yield "const unsigned char* states_in"
    yield from (f"unsigned char* {place}" for place in (*meet.places, "own_place"))
    yield from (f"unsigned long long* {words}" for words in ("control", "told"))
    yield "unsigned char* merged_out"
    yield from (text for text in held_params(meet.merge, real) if "*" not in text)
    yield from (f"{C_TYPES[p.dtype.name]} {_within(p)}" if p.shape == "scalar" else declared(p)
                for p in meet.given)
    yield from (f"long long {name}" for name in meet.numbers)


def _arguments(launch: Launch, layout: StateLayout) -> Iterator[str]:
    """Of what finishes a row."""
    offsets = {f.name: f.offset for f in layout.fields}
    for p in launch.params:
        if is_field(p):
            kind = C_TYPES[p.dtype.name]
            yield f"reinterpret_cast<const {kind}*>(merged_rows + {offsets[p.field]})"
        else:
            yield _within(p)
    yield from (_NUMBERS.get(n, n) for n in launch.scalars)
    yield "mine"


def _within(param: Param) -> str:
    """In the kernel, where no value has a user's own name: so none is taken from them."""
    return f"{param.name}_in" if param.shape == "scalar" else array_name(param)


def _banner(meet: Meet) -> Iterator[str]:
    """A merge's, and what else there is."""
    first, *rest = banner_lines(meet.merge, facts(meet.merge, meet.schedule))
    results = "results" if meet.finish else "their merge"
    yield first.replace("merge: states → states", f"meet: states of {meet.ranks} ranks → {results}")
    merging = meet.merge.kernels[0].name
    yield from (line.replace(f"{merging}_kernel", meet.symbol) for line in rest)
