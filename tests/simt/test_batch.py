"""Sources that are compiled together behave as each does alone."""

from __future__ import annotations

import threading
import uuid

import numpy as np
import pytest

from simt import SimtError, available, batch, compile_module, toolchain

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

TWICE = "template <typename T>\n__device__ T twice(T a) { return a + a; }"
THRICE = "template <typename T>\n__device__ T thrice(T a) { return twice(a) + a; }"
NEVER_BUILT = f"constexpr int kRun = 0x{uuid.uuid4().hex[:7]};"
"""What was built before is not built again."""
ABOVE = "// ==== above: headers; below: the kernel"


def source(size: int, body: str, **headers: str) -> str:
    """A file with these headers inlined, and a kernel `k` of this body."""
    sections = "\n".join(f"// ---- <{name}>\n\n{text}\n" for name, text in headers.items())
    return (f"namespace ours {{\n\n{sections}\n}}  // namespace ours\n\n{ABOVE}\n\n"
            f"using namespace ours;\n{NEVER_BUILT}\n#define SHIFT 1\n"
            f"struct State {{ float value[{size}]; }};\n"
            f'extern "C" __global__ void k(float* y)\n{{\n{body}\n}}\n')


def run(text: str, threads: int = 1) -> np.ndarray:
    y = np.zeros(4, np.float32)
    compile_module(text).launch("k", (1,), (threads,), [y], outputs={0}, initialised={0})
    return y


FIRST = source(4, "State s = {}; s.value[3] = twice(1.0f); y[SHIFT] = s.value[3];", twice=TWICE)
SECOND = source(2, "State s = {}; s.value[1] = thrice(2.0f); y[SHIFT + 1] = s.value[1];",
                twice=TWICE, thrice=THRICE)
OTHERS = source(2, "y[0] = twice(3.0f);", twice=TWICE.replace("a + a", "a + a + a"))


def test_one_unit_holds_what_fits() -> None:
    """Kernels, types and macros of the same names; a header of the same name but another text
    keeps its source out."""
    unit, numbers = batch.joined((text, ["k"]) for text in (FIRST, OTHERS, SECOND))
    assert numbers == {FIRST: 0, SECOND: 1}
    assert unit.count("T twice(T a)") == 1
    toolchain.build_together([FIRST, OTHERS, SECOND], check=True)
    first, second, other = (toolchain.build_module(t, check=True) for t in (FIRST, SECOND, OTHERS))
    assert first.library == second.library != other.library
    assert run(FIRST).tolist() == [0, 2, 0, 0]
    assert run(SECOND).tolist() == [0, 0, 6, 0]
    assert run(OTHERS).tolist() == [9, 0, 0, 0]


def test_headers_come_in_an_order_that_suits_all() -> None:
    orders = [["a", "c", "e"], ["b", "c", "d", "e"], ["c", "b", "f"]]
    found = batch._order(orders)
    assert sorted(found) == list("abcdef")
    needs = [("a", "c"), ("c", "d"), ("c", "e"), ("d", "e"), ("b", "d"), ("b", "f"), ("c", "f")]
    assert all(found.index(one) < found.index(other) for one, other in needs)


FAR = "__shared__ float mine[4]; mine[threadIdx.x] = 1; float* p = mine; p[4 * {}] = y[{}];"


@pytest.mark.parametrize("step", [-1, 1])
def test_shared_memory_of_other_sources_is_out_of_bounds(step: int) -> None:
    """All but the array at the end have another's behind them."""
    texts = [source(1, FAR.format(step, i), twice=TWICE) for i in range(3)]
    toolchain.build_together(texts, check=True)
    assert len({toolchain.build_module(text, check=True).library for text in texts}) == 1
    caught = 0
    for text in texts:
        try:
            run(text)
        except SimtError as error:
            caught += "out-of-bounds" in str(error)
    assert caught >= 2


WRONG = {
    "y[4] = 1;": "out-of-bounds global write",
    "*reinterpret_cast<double*>(y + 1) = 1;": "misaligned access: .* needs an alignment of 8 bytes",
    "int* p = nullptr; y[0] = *p;": r"out-of-bounds read: address \(nil\)",
    "int a[3] = {}; y[0] = a[threadIdx.x + 3];": "out-of-bounds array index: 3",
    "y[0] = 1 << (32 + threadIdx.x);": "shift by",
    "y[0] = 1 / int(threadIdx.x);": "integer division by zero",
    "y[0] = 0x7fffffff + int(blockDim.x);": "signed integer overflow",
}


@pytest.mark.parametrize("statement", WRONG)
def test_errors_speak_of_the_source_alone(statement: str) -> None:
    wrong = source(2, f"\n\n{statement}", twice=TWICE)
    others = [source(2, one, twice=TWICE) for one in WRONG]
    toolchain.build_together([FIRST, *others, wrong], check=True)
    assert toolchain.build_module(wrong, check=True).mark
    with pytest.raises(SimtError, match=WRONG[statement]) as caught:
        run(wrong)
    assert caught.value.line == wrong.splitlines().index(statement) + 1
    assert statement in str(caught.value)


def test_what_does_not_compile_is_told_of_its_own_source() -> None:
    broken = source(2, "y[0] = nothing;", twice=TWICE)
    toolchain.build_together([FIRST, broken], check=True)
    assert run(FIRST).tolist() == [0, 2, 0, 0]
    with pytest.raises(SimtError, match="nothing"):
        run(broken)


def test_a_thread_that_has_someone_to_ask_asks() -> None:
    asked: list[str] = []

    fresh = source(2, "y[0] = 7;", twice=TWICE)

    def work() -> None:
        toolchain.asked.to_build = lambda text, check: asked.append(text)
        run(fresh)
        run(fresh)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert asked == [fresh]
    assert not hasattr(toolchain.asked, "to_build")
