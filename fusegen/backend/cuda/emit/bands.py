"""Short rows that pass through shared memory, a band at a time: what a block does around them."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.cuda.emit.dialect import C_TYPES
from fusegen.backend.cuda.emit.places import array_name
from fusegen.backend.cuda.schedule.band_entries import waiting_lists
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.launch import Launch
from fusegen.ir.kernel import Param


@dataclass(frozen=True)
class BandView:
    """The arrays of a block's band: statements that say where they are, bring them, write them."""

    declared: tuple[str, ...]
    fetched: tuple[str, ...]
    put: tuple[str, ...]


def band_view(launch: Launch, schedule: CudaSchedule) -> BandView | None:
    """None where rows do not come in bands."""
    if not schedule.home.band_rows:
        return None
    arrays = launch.kernel.elements
    lines, place = [], "bands"
    for p in arrays:
        array = f"{array_name(p)} + band * {p.name}_stride"
        lines.append(f"const {_type(p)} {p.name}_band{{{place}, {array}, {p.name}_stride, "
                     "static_cast<int>(n_cols)};")
        place = f"{p.name}_band.slots + {p.name}_band.kBytes"
    waiting = [*waiting_lists(launch.kernel, schedule)]
    for w in waiting:
        name = entries_of(w.param)
        lines.append(f"const BandEntries<{C_TYPES[w.dtype.name]}, {w.k}, kBandRows, kMostThreads> "
                     f"{name}{{{place}}};")
        place = f"{name}.slots + {name}.kBytes"
    put = [f"{p.name}_band.put(band_rows);" for p in arrays if p.output]
    put += [f"{entries_of(w.param)}.put<{w.param.step}>"
            f"({array_name(w.param)} + band * {w.param.step}, band_rows);" for w in waiting]
    return BandView(
        declared=tuple(lines),
        fetched=tuple(f"{p.name}_band.fetch(band_rows, band, n_rows - band - band_rows);"
                      for p in arrays if not p.output),
        put=tuple(put),
    )


def entries_of(param: Param) -> str:
    """What holds a list of the band's rows."""
    return f"{param.name}_entries"


def row_of_step(step: str, schedule: CudaSchedule) -> str:
    """The row of the band that a team has then."""
    if schedule.home.rows_apart > 1:
        return f"row_of_step<Team, kRowsApart, kMostThreads>({step})"
    return f"{step if ' ' not in step else f'({step})'} * kRowsPerBlock + team"


def row_in_band(param: Param) -> str:
    """Where the row at hand is."""
    return f"{param.name}_band.row(here)"


def _type(param: Param) -> str:
    return f"RowBand<{'' if param.output else 'const '}{C_TYPES[param.dtype.name]}>"
