"""Who runs an attack: the CPU, a GPU, or a machine whose GPU is the SIMT executor."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import simt
from support import fake_cupy
from support.cases import leaves

import fusegen as fg
from fusegen.backend.cuda.backend import CudaBackend
from fusegen.backend.target import CUDA_TARGETS

from .draws import Attack, Forced
from .layouts import Laid, drawn_plan, lay

ROOM = 46  # blocks that the emulated device holds at once: of 512 threads, as the executor does


@dataclass
class Ran:
    """What came of a call: results on the host, what strayed, which schedules ran."""

    results: list[np.ndarray] = field(default_factory=list)
    strayed: list[str] = field(default_factory=list)
    schedules: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Engine:
    """`place`: bytes, an array's description → the array there and a way to read the bytes."""

    name: str
    place: Callable[[Laid], tuple[Any, Callable[[], np.ndarray]]]
    fetch: Callable[[Any], np.ndarray]
    most: int  # elements of an attack

    def run(self, attack: Attack) -> Ran:
        """Raises what the call raises."""
        ran = Ran()
        made = attack.text.make()
        placed = {n: self.place(a) for n, a in attack.arrays.items()}
        arrays = {n: array for n, (array, _) in placed.items()}
        options: dict[str, Any] = {} if attack.axis == -1 else {"axis": attack.axis}
        written: list[tuple[Laid, Callable[[], np.ndarray]]] = []
        if attack.out is not None:
            options["out"], written = self._outputs(attack, made)
        with forced(attack.forced, ran):
            found = made(*arrays.values(), **attack.constants, **options) \
                if attack.text.family != "vectors" else \
                _called(made, arrays, attack.constants)
        ran.results = [self.fetch(f) for f in leaves(found)]
        for what, (laid, read) in (*((n, (attack.arrays[n], placed[n][1])) for n in placed),
                                   *((f"result {i}", w) for i, w in enumerate(written))):
            if laid.strayed(read()):
                ran.strayed.append(f"{what}: {laid.strayed(read())} bytes beside it were written")
        return ran

    def _outputs(self, attack: Attack, made: Any) -> tuple[Any, list[Any]]:
        """Arrays for results, of the types and shapes that a call's own have."""
        like = leaves(made.prepare(tuple(attack.given.values()), attack.constants,
                                   axis=attack.axis).hand_back())
        plans = [drawn_plan(attack.out, np.shape(a), written=True, plain=0.3)
                 if np.ndim(a) else None for a in like]
        laid = [lay(p, np.shape(a), np.asarray(a).dtype) if p else None
                for p, a in zip(plans, like, strict=True)]
        placed = [None if one is None else self.place(one) for one in laid]
        arrays = tuple(None if p is None else p[0] for p in placed)
        written = [(one, p[1]) for one, p in zip(laid, placed, strict=True) if one and p]
        return arrays if len(arrays) > 1 else arrays[0], written


def _called(made: Any, arrays: Mapping[str, Any], constants: Mapping[str, Any]) -> Any:
    """By names, but for the cotangent, which has none."""
    named = {n: a for n, a in arrays.items() if n != "g"}
    if "g" not in arrays:
        return made(**named, **constants)
    order = ("q", "k", "v", "bias", "lengths", "positions", "sinks")
    given = [named.get(n) for n in order]
    return made(arrays["g"], *given, **constants)


@contextlib.contextmanager
def forced(wish: Forced, ran: Ran) -> Iterator[None]:
    """GPUs' schedules are chosen as `wish` says, and named in `ran`."""
    plain = CudaBackend.select

    def select(self: CudaBackend, program: Any, problem: Any, target: Any, chunk: Any) -> Any:
        if engine_is_free(target):
            target = replace(CUDA_TARGETS[wish.arch], multiprocessors=wish.multiprocessors)
        if wish.rows and problem.n_rows:
            times = max(1, wish.rows // problem.n_rows)
            problem = replace(problem, n_rows=wish.rows, batch_rows=problem.batch_rows and
                              problem.batch_rows * times)
        offered: Sequence[Any] = ()
        if problem.inner is None and program.role == "call":
            offered = self.candidates(program, problem, target, chunk)
        one = _one_of(offered, wish) or plain(self, program, problem, target, chunk)
        ran.schedules.append(_said(one, offered))
        return one

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CudaBackend, "select", select)
        yield


def engine_is_free(target: Any) -> bool:
    """Is it the emulated device, which is like any?"""
    return bool(target.multiprocessors == fake_cupy.MULTIPROCESSORS)


def _one_of(found: Sequence[Any], wish: Forced) -> Any:
    kinds: dict[str, list[Any]] = {}
    for candidate in found:
        kinds.setdefault(candidate.kind, []).append(candidate.schedule)
    if not kinds or wish.kind is None:
        return None
    of = kinds[sorted(kinds)[int(wish.kind * len(kinds))]]
    return of[int(wish.one * len(of))]


def _said(one: Any, offered: Sequence[Any]) -> str:
    """A schedule in few words, its kind first."""
    found = next((c.short for c in offered if c.schedule == one), "")
    words = getattr(one, "shape", None) or type(one).__name__
    return found + "".join(f", {name} {value}" for name, value in (
        ("load", getattr(one, "load", "")), ("lists", getattr(one, "lists", ""))) if value) \
        if found and not isinstance(words, tuple) else found or str(words)


# ---- machines ----


def _on_host(laid: Laid) -> tuple[Any, Callable[[], np.ndarray]]:
    return laid.view(), lambda: laid.raw


def _emulated(laid: Laid) -> tuple[Any, Callable[[], np.ndarray]]:
    whole = fake_cupy.Array(laid.raw.shape, np.uint8, index=0)
    whole.host[...] = laid.raw
    return fake_cupy.Array(laid.shape, laid.dtype, laid.view(whole.host), 0), lambda: whole.host


def _on_gpu(laid: Laid) -> tuple[Any, Callable[[], np.ndarray]]:
    """Torch's, which has all types, but no negative strides."""
    import torch

    if any(s < 0 for s in laid.strides):
        raise fg.ArgumentError("torch has no negative strides", fix="Nothing.")
    raw = torch.from_numpy(laid.raw).cuda()
    kind = getattr(torch, laid.dtype.name)
    at = raw[: raw.numel() // laid.dtype.itemsize * laid.dtype.itemsize].view(kind)
    return (torch.as_strided(at, laid.shape, laid.strides, laid.first),
            lambda: raw.cpu().numpy())


def _from_gpu(found: Any) -> np.ndarray:
    import ml_dtypes
    import torch

    if found.dtype == torch.bfloat16:
        return np.asarray(found.view(torch.int16).cpu().numpy().view(ml_dtypes.bfloat16))
    return np.asarray(found.cpu().numpy())


ENGINES = {
    "cpu": Engine("cpu", _on_host, np.asarray, 200_000),
    "emulated": Engine("emulated", _emulated, lambda f: f.get(), 24_000),
    "gpu": Engine("gpu", _on_gpu, _from_gpu, 4_000_000),
}


@contextlib.contextmanager
def machine(name: str, *, checked: bool = False) -> Iterator[Engine]:
    """The engine of that name, ready; `checked`: the emulator looks for races, too."""
    if name != "emulated":
        yield ENGINES[name]
        return
    with pytest.MonkeyPatch.context() as patch, fake_cupy.installed(patch) as gpu:
        patch.setenv("FUSEGEN_HELPER", "0")  # it asks the driver itself
        gpu.fits = ROOM
        if checked:
            plain = simt.compile_module
            patch.setattr(simt, "compile_module", lambda text, check=True: plain(text))
        yield ENGINES[name]
