"""From generated CUDA to machine code: for which device, kept where, and what is not asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support import fake_gpu
from support import nvrtc as compiler

from fusegen.backend.cuda.run import nvrtc
from fusegen.ir.errors import BackendError

SOURCE = 'extern "C" __global__ void scale(float* x) { x[threadIdx.x] *= 0.5f; }'


@pytest.fixture
def fake(gpu: fake_gpu.Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The compiler that the emulated machine has; nothing is kept yet."""
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "kept"))
    return sys.modules["cupy"].cuda.nvrtc  # type: ignore[attr-defined]


def test_what_is_compiled_once_is_kept(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(fake, "compileProgram", lambda program, options: asked.append(options))
    first = nvrtc.machine_code("one")
    assert nvrtc.machine_code("one") == first
    assert nvrtc.machine_code("another") != first
    assert first == b"one"
    assert [o[:2] for o in asked] == [("-std=c++17", "-arch=sm_90")] * 2


def test_a_device_that_the_compiler_does_not_know(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(fake, "compileProgram", lambda program, options: asked.append(options))
    monkeypatch.setattr(fake, "getPTX", lambda program: "text for the driver", raising=False)
    monkeypatch.setattr(fake, "getSupportedArchs", lambda: (75, 80))
    assert nvrtc.machine_code(SOURCE) == b"text for the driver"
    assert asked[0][1] == "-arch=compute_80"
    monkeypatch.setattr(fake, "getSupportedArchs", lambda: (100, 120))
    with pytest.raises(BackendError, match=r"no code for devices of compute capability 90.*doctor"):
        nvrtc.machine_code(SOURCE)


def test_source_that_is_refused(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(program: str, options: tuple[str, ...]) -> None:
        raise fake.NVRTCError

    monkeypatch.setattr(fake, "compileProgram", refuse)
    monkeypatch.setattr(fake, "getProgramLog", lambda program: "line 1: nonsense", raising=False)
    with pytest.raises(BackendError, match="refused the generated source: line 1: nonsense"):
        nvrtc.machine_code("nonsense")


def test_subnormal_numbers_are_not_flushed() -> None:
    reason = compiler.available()
    if reason:
        pytest.skip(reason)
    text = nvrtc._compiled(SOURCE, ("-std=c++17", "-arch=compute_80")).decode()
    assert "mul.f32" in text or "mul.rn.f32" in text
    assert "ftz" not in text
