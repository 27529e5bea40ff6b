"""What templates/cuda/tiles/wgmma*.cuh.j2 print beside a kernel's folds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.emit.places import array_name
from fusegen.backend.cuda.emit.tiles.views import FoldView, SumView
from fusegen.backend.cuda.emit.wgmma import Wgmma
from fusegen.backend.cuda.schedule.tiles import wgmma as sizes
from fusegen.backend.cuda.schedule.tiles.parts import PRODUCTS, unusual_rows, whole_name
from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule, wgmma_tiles
from fusegen.backend.cuda.schedule.tiles.wgmma import Pair, WgmmaTiles, pair_of
from fusegen.ir.kernel import Kernel, Param

HEADERS = ("fusegen/warp.cuh", "fusegen/tiles/instructions.cuh", "fusegen/tiles/fragment.cuh",
           "fusegen/tiles/alone.cuh", "fusegen/tiles/reference.cuh", "fusegen/tiles/stages.cuh",
           "fusegen/tiles/last_warp.cuh")


@dataclass(frozen=True)
class DotView:
    """A dot of a row's and a column's vector: members of `given`."""

    scores: str
    row: str
    row_stride: str
    column: str
    column_stride: str
    length: int


@dataclass(frozen=True)
class HeldView:
    """A sum of vectors in registers, and what makes it."""

    view: SumView
    name: str  # of the array of registers
    count: str  # C++: its numbers
    words: str  # its weights, two by two, in the vectors' type
    weights: str  # those of a tile
    product: str  # the function that adds weights · vectors
    chunk: str  # C++: of a tile of columns, the first of the vectors
    array: str  # of the vectors, a member of `given`

    @property
    def stride(self) -> str:
        return f"{self.array.removesuffix('_in')}_stride"


@dataclass(frozen=True)
class StoredView:
    """Stored elements: members of `given` and of tiles."""

    type: str
    array: str
    stride: str
    pitch: str  # C++: numbers from a row to the next in shared memory


@dataclass(frozen=True)
class WgmmaView:
    """One kernel."""

    tiles: WgmmaTiles
    products: tuple[Wgmma, ...]
    begins: bool  # is a score asked for beside the weight that takes its place? See Wgmma.begins
    parts: tuple[tuple[int, int], ...]  # of the row's and the column's vector that are multiplied
    unusual: str  # member of `given`: rows that are not made of parts; "": all vectors are whole
    type: str  # of a vector's numbers
    operand: str
    row_maps: tuple[str, ...]  # parameters, of the rows
    column_maps: tuple[str, ...]  # of the columns, and of the vectors that are summed up
    column_rows: str  # rows that share the columns' vectors, a member of `given`
    column_bytes: int  # of all vectors of a column
    cached: int  # bytes that the second-level cache has for them
    other_rows: str  # likewise, those of a second dot
    summed_rows: str  # likewise, the vectors that are summed up
    sum: SumView | None  # of vectors that come in tiles of their own
    again: tuple[HeldView, ...]  # sums of columns' vectors that have met
    masks: bool  # are columns left out, of spans or one by one?
    spanned: bool  # do columns count for some rows and not for others?
    last_first: bool  # may rows grow, so that the last ones take the longest?
    reads_rows: bool  # do folds ask more of a row than its span?
    refers: bool  # are sums kept about a reference?
    dots: tuple[DotView, ...]
    held: tuple[HeldView, ...]  # all sums of vectors
    beside: tuple[tuple[str, str], ...]  # types and arrays of columns' numbers that come with them
    stored: tuple[StoredView, ...]  # elements that come with tiles' columns
    whole: str  # the type of what is read number by number
    read: str  # C++: the number that is `stored`

    @property
    def sum_params(self) -> str:
        """Of functions that take what a thread has of sums."""
        return "".join(f"float (&{s.name})[{s.count} / 2], " for s in self.held)

    @property
    def sum_args(self) -> str:
        return "".join(f"{s.name}, " for s in self.held)

    @property
    def weight_args(self) -> str:
        """Where folds leave weights."""
        return "".join(f"{s.weights}, " for s in self.held)

    @property
    def knows_rows(self) -> bool:
        """Is what is known of rows found once an item, before it is asked for?"""
        return self.reads_rows or self.spanned or self.refers

    @property
    def careful(self) -> bool:
        """May rows have to be made once more?"""
        return self.refers or self.doubtful or bool(self.unusual)

    @property
    def doubtful(self) -> bool:
        """May what a weight leaves out, or a rounded one, make numbers that are none?"""
        if not self.held:
            return False
        bounded = all(s.view.moves and not s.view.zero_wins for s in self.held)
        return self.masks or (self.operand == "float16" and not bounded)

    @property
    def merged_together(self) -> int:
        """Parts of a sum of vectors that are read at a time, beside the sums in registers."""
        numbers = max(8, self.tiles.numbers, sum(self.tiles.again))
        room = (self.tiles.consumer_registers - numbers // 2 - 60) // (numbers // 4)
        return 4 if room >= 4 else 2 if room >= 2 else 1


def wgmma_view(
    kernel: Kernel, schedule: TileSchedule, fold: FoldView, dialect: CudaDialect
) -> WgmmaView:
    """A kernel that the engine serves."""
    pair, tiles = pair_of(kernel), wgmma_tiles(kernel, schedule)
    assert pair
    (sweep,) = kernel.sweeps
    begins = fold.reference is not None and fold.reference.times_items
    stored = pair.row.dtype.number.name
    held = tuple(_held(kernel, pair, fold))
    others = pair.others
    rows, columns = zip(*filter(None, [(pair.row, pair.column), others]), strict=True)
    summed = [pair.summed] if pair.summed else []
    return WgmmaView(
        tiles=tiles, products=tuple(_products(pair, tiles, held, begins=begins)), begins=begins,
        parts=PRODUCTS[pair.parts],
        unusual=f"{unusual_rows(kernel).name}_in" if pair.parts else "",
        type=C_TYPES[stored], operand=stored,
        row_maps=tuple(f"{p.name}_map" for p in rows),
        column_maps=tuple(f"{p.name}_map" for p in (*columns, *summed)),
        column_rows=f"{pair.column.name}_rows",
        cached=sizes.CACHED, column_bytes=sum(
            p.k * p.dtype.itemsize for p in {*columns, pair.summed} if p),
        other_rows=f"{others[1].name}_rows" if others else "",
        summed_rows=f"{pair.summed.name}_rows" if pair.summed else "",
        sum=fold.sums[0] if pair.summed else None, held=held,
        again=held if pair.again else (), spanned=sweep.span != (None, None),
        last_first=sweep.span[1] is not None,
        masks=sweep.masks,
        dots=tuple(
            DotView(name, array_name(r), f"{r.name}_stride", array_name(c), f"{c.name}_stride", r.k)
            for name, r, c in zip(("scores", "others"), _whole(kernel, rows),
                                  _whole(kernel, columns), strict=False)),
        beside=tuple((C_TYPES[p.dtype.name], array_name(p)) for p in pair.beside),
        stored=tuple(map(_stored, pair.stored)) if schedule.brings else (),
        whole="float" if pair.parts else C_TYPES[stored],
        read="stored" if pair.parts else dialect.load("stored", pair.row.dtype),
        reads_rows=any("mine" in line.uses for line in fold.opened),
        refers=fold.reference is not None,
    )


def _products(
    pair: Pair, tiles: WgmmaTiles, held: Sequence[HeldView], *, begins: bool
) -> Iterator[Wgmma]:
    """Those that make scores, and those that add vectors to sums of them."""
    if begins:
        yield Wgmma("begin_scores", tiles.columns, pair.operand, begins=True)
    yield Wgmma("multiply_scores", tiles.columns, pair.operand)
    numbers = [tiles.numbers] if pair.summed else tiles.again
    for name, n in dict(zip((s.product for s in held), numbers, strict=True)).items():
        yield Wgmma(name, n, pair.operand, a_in_registers=True, b_transposed=True)


def _stored(param: Param) -> StoredView:
    pad = sizes.STORED_PAD // param.dtype.itemsize
    return StoredView(C_TYPES[param.dtype.name], array_name(param), f"{param.name}_stride",
                      f"kColumns + {pad}")


def _whole(kernel: Kernel, arrays: Iterable[Param]) -> tuple[Param, ...]:
    """The arrays, or those whose parts they have."""
    return tuple(kernel.param(whole_name(p.name)) for p in arrays)


def _held(kernel: Kernel, pair: Pair, fold: FoldView) -> Iterator[HeldView]:
    """The sums of vectors of a sweep."""
    if pair.summed:
        yield HeldView(fold.sums[0], "sums", "kNumbers", "words", "scores", "multiply_weights", "",
                       array_name(*_whole(kernel, [pair.summed])))
    lengths = list(dict.fromkeys(p.k for p in pair.again))
    for i, (view, param) in enumerate(zip(fold.sums, pair.again, strict=False)):
        tag = ("", "_2")[i]
        place = ("scores", "others")[i]
        product = ("multiply_weights", "multiply_weights_2")[lengths.index(param.k)]
        chunk = "0" if param == pair.column else "kChunks"
        yield HeldView(view, f"sums{tag}", f"kNumbers{tag}", f"words{tag}", place, product, chunk,
                       array_name(param))
