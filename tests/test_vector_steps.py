"""What compilers make of the CPU headers' inner loops: as many steps as there are instructions."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

from fusegen.backend.cpu.toolchain import FLAGS, find_compiler
from fusegen.backend.emit.headers import include_dir

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="they are x86's")

_GIVEN = """
#include <cstdint>
namespace fusegen { namespace {
typedef float real;
typedef real lanes __attribute__((vector_size(32)));
}}
#include <fusegen/cpu/types.hpp>
#include <fusegen/cpu/maths.hpp>
using namespace fusegen;
extern "C" void loop(const uint16_t* x, uint16_t* y, const float* a, float* b, int64_t n, float by)
{
    const divisor<lanes> divided(by);
    for (int64_t i = 0; i + 8 <= n; i += 8) { %s }
}
"""
_LOOPS = {
    "bfloat16 to float32": ("store<lanes>(b + i, load_bfloat16<lanes>(x + i));", 4),
    "float32 to bfloat16": ("store_bfloat16(y + i, load<lanes>(a + i));", 14),
    "quotients": ("store<lanes>(b + i, quotient(load<lanes>(a + i), divided));", 10),
    "quotients of exponentials":
        ("store<lanes>(b + i, quotient(exp_below(load<lanes>(a + i)), divided));", 30),
}


@pytest.mark.parametrize(("body", "most"), _LOOPS.values(), ids=_LOOPS)
def test_vectors_of_avx2(body: str, most: int, tmp_path: Path) -> None:
    """Vector instructions of the loop; nothing of a row value is computed in it."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C++ compiler is here")
    source, found = tmp_path / "loop.cpp", tmp_path / "loop.s"
    source.write_text(_GIVEN % body)
    flags = [f for f in FLAGS if f != "-shared"]
    subprocess.run([*compiler.words, *flags, "-march=x86-64-v3", "-fno-unroll-loops", "-S",
                    f"-I{include_dir()}", source, "-o", found], check=True)
    loops = _inner_loops(found.read_text())
    steps = [[line for line in loop if line.startswith("v")] for loop in loops]
    assert steps
    for loop in steps:
        assert len(loop) <= most, "\n".join(loop)
        assert not [line for line in loop if re.match(r"v(div|ucomi|comi|broadcast)", line)]


def _inner_loops(text: str) -> list[list[str]]:
    """The instructions from each label to a jump back to it, without other labels between."""
    found: list[list[str]] = []
    name, since = "", list[str]()
    body = text.partition("\nloop:")[2].partition(".cfi_endproc")[0]
    for line in map(str.strip, body.split("\n")):
        label = re.fullmatch(r"(\.L\w+):.*", line)
        if label:
            name, since = label[1], []
        elif line and not line.startswith((".", "#")):
            since.append(line)
            if re.fullmatch(rf"j\w+\s+{re.escape(name)}", line):
                found.append([*since])
    return found
