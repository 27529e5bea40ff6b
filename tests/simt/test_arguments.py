"""Arguments reach the kernel as its parameters' types, or are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simt import available, compile_module
from simt.testing import iota, kernel

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))


@pytest.mark.long
def test_every_kind_of_scalar_parameter() -> None:
    parameters = """const float* __restrict__ nothing,  // a comment with ) and ,
        long long int a, unsigned b, int64_t c, /* int d, */ short s, bool flag,
        float f, double d, Index i, double* __restrict__ y"""
    body = "y[0] = a; y[1] = b; y[2] = c; y[3] = s + flag; y[4] = f; y[5] = d; y[6] = i;"
    prelude = "using Index = unsigned char; "
    y = np.zeros(8)
    args = [None, -(2**40), 2**32 - 1, 5, -7, True, 0.5, 0.1, np.uint8(9), y]
    body += " y[7] = nothing == nullptr;"
    module = compile_module(kernel(body, parameters, prelude))
    module.launch("k", (1,), (1,), args, outputs={9})
    assert y.tolist() == [-(2**40), 2**32 - 1, 5, -6, 0.5, 0.1, 9, 1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("args", "error"),
    [
        ([iota(4)], TypeError),
        ([iota(4), 2**31], OverflowError),
        ([iota(4), 1.5], TypeError),
        ([np.zeros(4), 1], TypeError),
        ([np.zeros(4, dtype=np.int32), 1], TypeError),
        ([1, 1], TypeError),
    ],
)
def test_arguments_that_do_not_fit_are_refused(args: list[Any], error: type[Exception]) -> None:
    module = compile_module(kernel("", "const float* x, int n"))
    with pytest.raises(error):
        module.launch("k", (1,), (1,), args)


@pytest.mark.long
def test_launch_shapes_that_do_not_fit_are_refused() -> None:
    module = compile_module(kernel("", ""))
    wrong = [((0,), (1,), 1), ((1,), (1025,), 1), ((3,), (1,), 2), ((17,), (1,), 17)]
    for grid, block, cluster in wrong:
        with pytest.raises(ValueError, match=r"grid|block"):
            module.launch("k", grid, block, [], cluster=cluster)
    with pytest.raises(ValueError, match="no kernel 'other'"):
        module.launch("other", (1,), (1,), [])


def test_an_array_passed_twice_is_one_buffer() -> None:
    module = compile_module(kernel("y[threadIdx.x] = 2.f * x[threadIdx.x];"))
    x = iota(64)
    module.launch("k", (1,), (64,), [x, x], outputs={1})
    np.testing.assert_array_equal(x, 2 * iota(64))


def test_the_pointer_is_to_the_first_element_wherever_the_others_lie() -> None:
    module = compile_module(kernel("y[-(int)threadIdx.x] = x[-(int)threadIdx.x];"))
    x, y = iota(6), np.zeros(3, np.float32)
    module.launch("k", (1,), (3,), [x[2::-1], y[::-1]], outputs={1})
    np.testing.assert_array_equal(y, x[:3])


def test_fields_of_records_are_one_buffer() -> None:
    """Arrays whose bytes interleave: what is written of one stays where another is written."""
    module = compile_module(kernel("x[2 * threadIdx.x] = 1.f; y[2 * threadIdx.x] = 2.f;",
                                   "float* x, float* y"))
    records = np.zeros((64, 2), np.float32)
    module.launch("k", (1,), (64,), [records[:, 0], records[:, 1]], outputs={0, 1})
    np.testing.assert_array_equal(records, np.tile(np.float32([1, 2]), (64, 1)))
