"""Inline assembly: what instructions do, and how their misuse is reported."""

from __future__ import annotations

import re

import numpy as np
import pytest

from simt import SimtError, available, compile_module
from simt.testing import aligned_floats, iota, kernel, nans, run

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))


def unary(instruction: str, x: np.ndarray) -> np.ndarray:
    """Run ``instruction %0, %1;`` on every float of x."""
    body = f"""
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) asm("{instruction} %0, %1;" : "=f"(y[i]) : "f"(x[i]));"""
    y = nans(x.size)
    module = compile_module(kernel(body, "const float* x, float* y, int n"))
    module.launch("k", (-(-x.size // 256),), (256,), [x, y, x.size], outputs={1})
    return y


SPECIALS = np.array(
    [0, -0.0, 1e-40, -1e-40, 1, -1, 3, 0.1, np.inf, -np.inf, np.nan, -126.5, -149, 127.9, 128,
     -200], dtype=np.float32,
)


def flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x)


@pytest.mark.parametrize("ftz", ["", ".ftz"])
@pytest.mark.parametrize(
    ("name", "function"),
    [("ex2", np.exp2), ("lg2", np.log2), ("rcp", np.reciprocal)],
)
def test_approximate_functions(name: str, function: np.ufunc, ftz: str) -> None:
    y = unary(f"{name}.approx{ftz}.f32", SPECIALS)
    with np.errstate(all="ignore"):
        expected = function(flushed(SPECIALS) if ftz else SPECIALS)
    expected = flushed(expected) if ftz else expected
    np.testing.assert_allclose(y, expected, rtol=3e-7)
    np.testing.assert_array_equal(np.signbit(y[expected == 0]), np.signbit(expected[expected == 0]))


def test_maximum_and_minimum_with_nan() -> None:
    body = """
    for (int i = 0; i < 16; ++i) {
        float high, low;
        asm ("max.NaN.f32 %0, %1, %2;" : "=f"(high) : "f"(x[i]), "f"(x[threadIdx.x]));
        asm volatile (
            "min.NaN.f32   %0,%2,%1 ;" : "=f"(low) : "f"(x[i]), "f"(x[threadIdx.x])
        );
        y[32 * i + 2 * threadIdx.x] = high; y[32 * i + 2 * threadIdx.x + 1] = low;
    }"""
    y = nans(16, 16, 2)
    module = compile_module(kernel(body))
    module.launch("k", (1,), (16,), [SPECIALS, y], outputs={1})
    a, b = SPECIALS[:, None], SPECIALS[None, :]
    np.testing.assert_array_equal(y[..., 0], np.maximum(a, b))
    np.testing.assert_array_equal(y[..., 1], np.minimum(a, b))
    assert not np.signbit(y[[0, 1], [1, 0], 0]).any()
    assert np.signbit(y[[0, 1], [1, 0], 1]).all()


LOADS = {
    "ld.global.nc.L1::no_allocate.v4.u32": 4,
    "ld.global.nc.L1::no_allocate.L2::256B.v4.f32": 4,
    "ld.global.nc.L1::evict_first.v2.b32": 2,
    "ld.global.L2::128B.u32": 1,
    "ld.global.cs.v4.u32": 4,
    "ld.relaxed.gpu.global.u32": 1,
    "ld.acquire.gpu.u32": 1,
    "ld.volatile.global.f32": 1,
}
STORES = {
    "st.global.v4.u32": 4,
    "st.global.L1::no_allocate.v4.b32": 4,
    "st.global.cs.v2.f32": 2,
    "st.release.gpu.global.u32": 1,
    "st.relaxed.gpu.global.u32": 1,
    "st.volatile.u32": 1,
}


def copy(load: str, store: str) -> str:
    """Copy 16 bytes in each thread with these two instructions."""
    wide, narrow = LOADS[load], STORES[store]
    loads = "".join(
        f'asm volatile("{load} {braced(wide)}, [%{wide}];" : '
        + ", ".join(f'"=r"(v[{i + k}])' for k in range(wide))
        + f' : "l"(x + 4 * threadIdx.x + {i}) : "memory");\n'
        for i in range(0, 4, wide)
    )
    stores = "".join(
        f'asm volatile("{store} [%0 + {4 * i}], {braced(narrow, 1)};" :: "l"(y + 4 * threadIdx.x), '
        + ", ".join(f'"r"(v[{i + k}])' for k in range(narrow))
        + ");\n"
        for i in range(0, 4, narrow)
    )
    return f"unsigned v[4];\n{loads}{stores}"


def braced(count: int, first: int = 0) -> str:
    names = ", ".join(f"%{first + i}" for i in range(count))
    return f"{{{names}}}" if count > 1 else names


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("load", ["ld.global.L2::128B.u32", "ld.global.cs.v4.u32"])
def test_stores(load: str, store: str) -> None:
    check_copy(copy(load, store))


@pytest.mark.parametrize("load", LOADS)
def test_loads(load: str) -> None:
    check_copy(copy(load, "st.global.v4.u32"))


def check_copy(body: str) -> None:
    x, y = aligned_floats(256), aligned_floats(256)
    x[:] = iota(256)
    compile_module(kernel(body)).launch("k", (1,), (64,), [x, y], outputs={1})
    np.testing.assert_array_equal(x, y)


def test_cache_policies() -> None:
    body = """
    unsigned long long policy; float v;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.f32 %0, [%1], %2;"
                 : "=f"(v) : "l"(x + threadIdx.x), "l"(policy));
    asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;"
                 :: "l"(y + threadIdx.x), "f"(v), "l"(policy) : "memory");"""
    np.testing.assert_array_equal(run(body), iota(64))


def test_narrow_loads_extend_to_the_register() -> None:
    body = """
    const char* p = reinterpret_cast<const char*>(x);
    unsigned short half; unsigned wide, byte; int sign; unsigned long long both;
    asm("ld.global.nc.u16 %0, [%1+2];" : "=h"(half) : "l"(p));
    asm("ld.global.u16 %0, [%1+2];" : "=r"(wide) : "l"(p));
    asm("ld.global.u8 %0, [%1 + 3];" : "=r"(byte) : "l"(p));
    asm("ld.global.s8 %0, [%1 + 3];" : "=r"(sign) : "l"(p));
    asm("ld.global.u64 %0, [%1];" : "=l"(both) : "l"(p));
    y[0] = half == 0xbf80 && wide == 0xbf80 && byte == 0xbf && sign == (int)0xffffffbf;
    y[1] = both == 0x40000000bf800000ull;"""
    x, y = aligned_floats(2), nans(2)
    x[:] = -1, 2
    compile_module(kernel(body)).launch("k", (1,), (1,), [x, y], outputs={1})
    assert y.all()


def test_atomic_instructions_return_the_old_value() -> None:
    body = """
    unsigned long long old; unsigned seen; float before;
    asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
                 : "=l"(old) : "l"(words), "l"(2ull) : "memory");
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" :: "l"(words + 1), "r"(3u) : "memory");
    asm volatile("red.release.gpu.global.add.u64 [%0], %1;" :: "l"(words + 2), "l"(1ull << 40));
    asm volatile("atom.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(seen) : "l"(words + 3), "r"(0u), "r"(7u + threadIdx.x));
    asm volatile("atom.global.add.f32 %0, [%1], %2;" : "=f"(before) : "l"(words + 4), "f"(0.5f));
    asm volatile("membar.gl;"); asm volatile("fence.acq_rel.gpu;" ::: "memory");
    asm volatile("griddepcontrol.wait;"); asm volatile("griddepcontrol.launch_dependents;");
    tickets[threadIdx.x] = old;"""
    words, tickets = np.zeros(5, dtype=np.uint64), np.zeros(64, dtype=np.uint64)
    module = compile_module(kernel(body, "unsigned long long* words, unsigned long long* tickets"))
    module.launch("k", (1,), (64,), [words, tickets], outputs={0, 1}, initialised={0}, seed=3)
    assert words[:3].tolist() == [128, 192, 64 << 40]
    assert 7 <= words[3] < 71
    assert words[4:].view(np.float32)[0] == 32
    assert sorted(tickets.tolist()) == list(range(0, 128, 2))


def test_multiply_add_keeps_the_low_word() -> None:
    body = """
    const unsigned a = 0x80000001u + threadIdx.x, b = 0u - blockDim.z;
    unsigned r;
    const unsigned c = 0x80000003u + 2 * threadIdx.x;
    asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    y[threadIdx.x] = r;"""
    np.testing.assert_array_equal(run(body, threads=32, n=32), iota(32) + 2)


def test_special_registers_registers_of_the_text_and_branches() -> None:
    body = """
    unsigned lane, count;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("{\\n\\t"
                 ".reg .b32 t, u;\\n\\t"
                 "mov.b32 t, %%tid.x; // its own line\\n\\t"
                 "mov.b32 u, 5;\\n\\t"
                 "bra DONE;\\n\\t"
                 "mov.b32 u, 6;\\n"
                 "DONE: mov.b32 %0, u;\\n\\t"
                 "}" : "=r"(count));
    y[threadIdx.x] = lane + 100 * count;"""
    np.testing.assert_array_equal(run(body, threads=32, n=32), iota(32) + 500)


def test_assembly_in_macros_and_templates_keeps_line_numbers() -> None:
    prelude = """
#define MAXIMUM(to, a, b)                                       \\
    asm volatile("max.NaN.f32 %0, %1, %2;"                      \\
                 : "=f"(to) : "f"(a), "f"(b)) /* twice */
template <int step> __device__ __forceinline__ void put(float* p, float v) {
    if constexpr (step > 0) asm volatile(
        "st.global.f32 [%0], %1;" :: "l"(p),
        "f"(v) : "memory"); else *p = v;
}"""
    body = """
    float high;
    MAXIMUM(high, x[threadIdx.x], 3.f); MAXIMUM(high, high, 4.f);
    put<1>(y + threadIdx.x, high);
    put<0>(y + 64 + threadIdx.x, 0.f);"""
    with pytest.raises(SimtError, match="out-of-bounds global write") as caught:
        run(body, prelude=prelude)
    assert caught.value.line == 8
    fine = body.replace("put<0>(y + 64 +", "put<0>(y +").replace(", 0.f", ", high")
    np.testing.assert_array_equal(run(fine, prelude=prelude), np.maximum(iota(64), 4))


# ---- Misuse --------------------------------------------------------------------------------------

LOAD4 = 'unsigned a, b, c, d;\nasm volatile("{} {{%0,%1,%2,%3}}, [%4];"'
LOAD4 += ' : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"({}));\ny[threadIdx.x] = a + b + c + d;'
NC4 = "ld.global.nc.L1::no_allocate.v4.u32"


@pytest.mark.parametrize(
    ("body", "pattern"),
    [
        (LOAD4.format(NC4, "x + 4 * threadIdx.x + 4"), "out-of-bounds global read: 16 bytes"),
        (LOAD4.format(NC4, "x + 1"), "misaligned access: ld .* alignment of 16 bytes"),
        (LOAD4.format(NC4, "y"), "uninitialised output|ld.global.nc of output argument 1"),
        ('unsigned a;\nasm("ld.global.u32 %0, [%1];" : "=r"(a) : "l"(y));', "uninitialised output"),
        ('\nasm("st.global.f32 [%0], %1;" :: "l"(x), "f"(1.f));', "write to read-only input"),
        ('\nasm("st.global.v2.f32 [%0], {%1, %1};" :: "l"(y + 1), "f"(1.f));', "misaligned access"),
        ('\nasm("prefetch.global.L2 [%0];" :: "l"(x + 256));', "out-of-bounds prefetch"),
        ('\nasm("red.global.add.f32 [%0], %1;" :: "l"(x), "f"(1.f));', "read-only input"),
        (
            '__shared__ float s;\nasm("st.global.f32 [%0], %1;" :: "l"(&s), "f"(1.f));',
            "shared or local memory: the state space is global",
        ),
        (
            '\nasm("st.shared.f32 [%0], %1;" :: "r"((unsigned)(uintptr_t)y), "f"(1.f));',
            "no shared memory at address",
        ),
    ],
)
def test_misuse_when_it_runs(body: str, pattern: str) -> None:
    x, y = aligned_floats(256), aligned_floats(256)
    with pytest.raises(SimtError, match=pattern) as caught:
        compile_module(kernel(body)).launch("k", (1,), (64,), [x, y], outputs={1})
    assert caught.value.line == 4


def test_a_prefetch_inside_a_buffer_is_harmless() -> None:
    body = 'asm volatile("prefetch.global.L2 [%0];" :: "l"(x + threadIdx.x));\n'
    body += 'asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(x), "r"(n * 4));'
    module = compile_module(kernel(body, "const float* x, int n"))
    module.launch("k", (1,), (64,), [iota(64), 64])
    with pytest.raises(SimtError, match="out-of-bounds prefetch"):
        module.launch("k", (1,), (64,), [iota(64), 65])


@pytest.mark.parametrize(
    ("statement", "pattern"),
    [
        ('asm volatile("bar.red.u32 0;");', "'bar.red.u32 0' is not an instruction"),
        ('asm("ld.global.v3.u32 %0, [%1];" : "=r"(a) : "l"(x));', "is not an instruction"),
        ('asm("ld.nc.global.u32 %0, [%1];" : "=r"(a) : "l"(x));', "is not an instruction"),
        ('asm("ld.global.u32 %0, [%2];" : "=r"(a) : "l"(x));', "no operand %2"),
        ('asm("ld.global.v2.u32 %0, [%1];" : "=r"(a) : "l"(x));', "2 registers expected"),
        ('asm("ld.global.u32 %0, %1;" : "=r"(a) : "l"(x));', "no address '%1'"),
        ('asm("ld.global.L2::evict_last.u32 %0, [%1];" : "=r"(a) : "l"(x));', "is not an instr"),
        ('asm("ld.global.L2::cache_hint.u32 %0, [%1];" : "=r"(a) : "l"(x));', "wrong number"),
        ('asm("mov.u32 %0, %%smid;" : "=r"(a));', "no special register %%smid"),
        ('asm("mov.u32 %0, 1" : "=r"(a));', "no semicolon"),
        ('asm("mov.u32 %0, 1;" : "=q"(a));', "cannot read the operand"),
        ("asm(TEXT);", "must be string literals"),
    ],
)
def test_what_cannot_be_read_is_refused(statement: str, pattern: str) -> None:
    body = f'// asm("in a comment")\nunsigned a;\n{statement}'
    with pytest.raises(SimtError, match=f"line 5: inline assembly: .*{pattern}"):
        compile_module(kernel(body))


@pytest.mark.parametrize(
    ("statement", "pattern"),
    [
        ('asm("mov.u32 %0, 1;" : "=r"(wide));', "does not fit its constraint"),
        ('asm("ex2.approx.f32 %0, %1;" : "=r"(a) : "f"(x[0]));', "another type than its output"),
        ('asm("ld.global.u64 %0, [%1];" : "=r"(a) : "l"(x));', "too small for the load"),
    ],
)
def test_operands_of_another_type_do_not_compile(statement: str, pattern: str) -> None:
    body = f"unsigned a; unsigned long long wide;\n{statement}"
    with pytest.raises(SimtError, match=re.compile(rf"kernel\.cu:4.*{pattern}", re.DOTALL)):
        compile_module(kernel(body))
