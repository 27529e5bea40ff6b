"""Top-K lists by themselves: kernels written by hand instantiate the headers for every key type."""

from __future__ import annotations

from dataclasses import dataclass
from string import Template
from typing import Any

import numpy as np
import pytest
import simt
from support import nvrtc
from support.emulated import emulated

from fusegen.backend.cuda.schedule import networks
from fusegen.backend.emit.source import Source

compiled = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


@dataclass(frozen=True)
class Keys:
    """A way to make candidates, and the values that it is for."""

    type: str
    header: str
    value: str
    numpy: type
    rounded: type | None = None  # values have no more digits than this type


KEYS = {
    "float": Keys("PackedKeys<FloatOrder<0>, int>", "packed_keys", "float", np.float32),
    "half": Keys("PackedKeys<FloatOrder<13>, int>", "packed_keys", "float", np.float32, np.float16),
    "int": Keys("PackedKeys<IntOrder, int>", "packed_keys", "long long", np.int64, np.int32),
    "double": Keys("WideKeys<DoubleOrder, int>", "wide_keys", "double", np.float64),
    "long": Keys("WideKeys<LongOrder, int>", "wide_keys", "long long", np.int64),
    "float of long rows": Keys("WideKeys<FloatOrder<0>, long long>", "wide_keys", "float",
                               np.float32),
}
TEAMS = {"Block<128>": 128, "Block<64>": 64, "Lanes<32>": 32}
LISTS = ((1, 512), (5, 512), (40, 768), (300, 1536))
"""K, and slots."""

STREAMED = Template("""
typedef $keys Keys;
typedef Keys::Value Value;
typedef Keys::Column Column;
constexpr int kVectors = 2, kWidth = 4, kItems = kVectors * kWidth;
using Team = $team;
using Layout = Vectors<Team, kWidth>;

template <int K, int kRoom>
struct Plan {
    static constexpr int kK = K, kSlots = kRoom, kKept = K + K / 8 + 16, kCutAt = kRoom * 7 / 16;
    static constexpr int kCountable = 128, kFullBin = 96, kBinBits = 9;
    static constexpr int kGroups = $groups, kSamples = 0;
    static constexpr bool kGuess = false;
};

template <int K, int kRoom>
__device__ void best(const Value* x, Value* values, long long* columns, long long n)
{
    typedef KBest<Layout, kVectors, Keys, Plan<K, kRoom>, InShared> List;
    __shared__ List list;
    const int rank = threadIdx.x;
    const Keys keys(static_cast<Column>(n));
    clear(list, rank);
    Team::sync();
    const auto key = [=](Column column) { return keys.key(x[column], column); };
    const auto key_at = [=](Column vector, int item) { return key(vector * kWidth + item); };
    const auto keys_of = [=](typename List::Key (&found)[kWidth], Column vector) {
        for (int i = 0; i < kWidth; ++i) found[i] = key(vector * kWidth + i);
    };
    auto bar = bar_of(list, keys, 0);
    const Column end = static_cast<Column>(n / kWidth);
    for (Column tile = 0; tile < end; tile += kVectors * Team::kThreads) {
        const int live = live_vectors<Team, kVectors>(static_cast<Column>(tile + rank), end);
        const Tile<Column> here{0, end, tile, live, rank};
        const auto column_of = [&](int i) {
            return (tile + rank + i / kWidth * Team::kThreads) * kWidth + i % kWidth;
        };
        const auto item = [&](int i) { return x[column_of(i)]; };
        Value peak = Keys::Order::lowest();
        for (int i = 0; i < live * kWidth; ++i) peak = greater_of(peak, item(i));
        const auto key_of = [&](int i) { return key(column_of(i)); };
        FirstTile first{};
        if (tile == 0)
            first = first_tile<false>(list, keys, bar, here, 0, peak, item, [] {});
        const auto pending =
            pending_items(list, keys, bar, live, peak, first.late, item, column_of, key_of);
        take_tile(list, keys, bar, here, pending, peak, key_of, key_at, keys_of);
    }
    Team::sync();
    const auto* sorted = finish(list, rank);
    for (int entry = rank; entry < K; entry += Team::kThreads)
        values[entry] = keys.value(sorted[entry]), columns[entry] = keys.column(sorted[entry]);
}
""")
ENTRY = Template("""
extern "C" __global__ void best_$k(const $value* x, $value* values, long long* columns, long long n)
{
    best<$k, $room>(x, values, columns, n);
}
""")


def streamed(keys: Keys, team: str, groups: int, lists: Any = LISTS) -> Source:
    """A kernel for each list."""
    body = STREAMED.substitute(keys=keys.type, team=team, groups=groups)
    body += "".join(ENTRY.substitute(k=k, room=room, value=keys.value) for k, room in lists)
    names = (keys.header, "first_threshold", "tile", "finish")
    return Source(body, headers=tuple(f"fusegen/topk/{n}.cuh" for n in names))


def rows(keys: Keys, n: int) -> dict[str, np.ndarray]:
    """Values of the type: at random, in order, few of them, and what is special."""
    rng = np.random.default_rng(n)
    if keys.numpy is np.int64:
        info = np.iinfo(keys.rounded or np.int64)
        found = {
            "random": rng.integers(info.min, info.max, n, endpoint=True),
            "ascending": np.arange(n) - n // 2,
            "few": rng.integers(-2, 3, n),
            "ends": rng.choice([info.min, info.max, 0], n),
        }
    else:
        special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5], n)
        found = {
            "random": rng.standard_normal(n), "ascending": np.arange(n) / 16,
            "few": rng.integers(-2, 3, n) / 4, "special": special,
            "masked": np.where(rng.random(n) < 0.98, -np.inf, rng.standard_normal(n)),
        }
    return {name: row.astype(keys.rounded or keys.numpy).astype(keys.numpy)
            for name, row in found.items()}


def best_of(row: np.ndarray, k: int) -> list[int]:
    """NaN first, then greater values, then lower columns."""
    values = row.tolist()
    order = [(v == v, 0 if v != v else -v, c) for c, v in enumerate(values)]
    return [c for *_, c in sorted(order)[:k]]


CASES = [
    ("float", "Block<128>", 1), ("float", "Block<64>", 8), ("float", "Lanes<32>", 2),
    ("half", "Block<64>", 8), ("int", "Lanes<32>", 8), ("double", "Block<64>", 2),
    ("long", "Block<128>", 8), ("float of long rows", "Lanes<32>", 1),
]
"""Key type, team, and groups of items that set the first threshold."""


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("name", "team", "groups"), CASES)
def test_lists_are_exact(name: str, team: str, groups: int) -> None:
    """Every K, of rows of several tiles, of a part of one, and of fewer lanes than a warp has."""
    keys = KEYS[name]
    module = simt.compile_module(streamed(keys, team, groups).text())
    for n in (2400, 132, 72):
        for data, row in rows(keys, n).items():
            for k, _ in LISTS:
                if k > n:
                    continue
                values, columns = np.zeros(k, keys.numpy), np.zeros(k, np.int64)
                arguments: list[Any] = [row, values, columns, n]
                module.launch(f"best_{k}", (1,), (TEAMS[team],), arguments, outputs={1, 2}, seed=k)
                want = best_of(row, k)
                np.testing.assert_array_equal(columns, want, err_msg=f"{data} {n} {k}")
                np.testing.assert_array_equal(values, row[want])
                if row.dtype.kind == "f":
                    assert (np.signbit(values) == np.signbit(row[want]))[values == 0].all()


@pytest.mark.long
@compiled
@pytest.mark.parametrize(("name", "team", "groups"), CASES)
def test_lists_compile(name: str, team: str, groups: int) -> None:
    """Without spills; the lists take turns."""
    lists = LISTS[CASES.index((name, team, groups)) % len(LISTS):][:1]
    found = nvrtc.compile_for(streamed(KEYS[name], team, groups, lists).text(), "sm_80").reports
    assert [r.kernel for r in found] == [f"best_{k}" for k, _ in lists]
    assert all(r.spill_bytes == 0 for r in found)


SORTED = """
extern "C" __global__ void sort_keys(unsigned long long* keys)
{
    unsigned long long mine[8];
    for (int i = 0; i < 8; ++i) mine[i] = keys[threadIdx.x * 8 + i];
    sort<8>(mine);
    for (int i = 0; i < 8; ++i) keys[threadIdx.x * 8 + i] = mine[i];
}
extern "C" __global__ void best_of_lanes(const unsigned long long* keys, unsigned long long* found)
{
    const int rank = threadIdx.x;
    unsigned long long mine[32], own[2];
    for (int i = 0; i < 32; ++i) mine[i] = keys[i * 8 + rank];
    best_of_team<8, 16, 16>(own, mine, rank, Nothing{});
    give_out<8>(own, rank);
    for (int i = 0; i < 2; ++i) found[i * 8 + rank] = own[i];
}
extern "C" __global__ void kth(
    const unsigned long long* keys, int count, int k, unsigned long long* found)
{
    __shared__ Tally<Block<64>, 9> tally;
    const unsigned long long key = select(keys, count, k, k, tally, threadIdx.x);
    if (threadIdx.x == 0) *found = key;
}
"""


COUNTS = [(n, k) for n in (1, 2, 3, 5, 6, 7, 11, 13, 16, 17, 23, 33, 40)
          for k in sorted({1, 2, n // 3, n // 2 + 1, n - 1, n}) if 1 <= k <= n]
NETWORK = """
extern "C" __global__ void best_{k}_of_{n}(const unsigned* keys, unsigned* found)
{{
    unsigned mine[{n}], best[{k}];
    for (int i = 0; i < {n}; ++i) mine[i] = keys[threadIdx.x * {n} + i];
    sort_best<{k}, {n}>(best, mine);
    for (int i = 0; i < {k}; ++i) found[threadIdx.x * {k} + i] = best[i];
}}
"""


@pytest.mark.long
@emulated
def test_networks_of_any_count() -> None:
    """Keys of zeros and ones in all orders that few have, or in many: a network that sorts these
    sorts any keys (Knuth, 5.3.4, theorem Z)."""
    text = "".join(NETWORK.format(n=n, k=k) for n, k in COUNTS)
    source = Source(text, headers=("fusegen/topk/networks.cuh",))
    module = simt.compile_module(source.text())
    rng = np.random.default_rng(1)
    for n, k in COUNTS:
        places = np.arange(n, dtype=np.uint64)
        every = np.arange(min(2**n, 4096), dtype=np.uint64)[:, None] >> places
        rows = every & 1 if n <= 11 else rng.random((4096, n)) < rng.random((4096, 1))
        other = rng.integers(0, 2**32, (1024, n), np.uint32)
        keys = np.concatenate([rows.astype(np.uint32), other])
        keys = keys[: len(keys) // 32 * 32]
        found = np.zeros((len(keys), k), np.uint32)
        for first in range(0, len(keys), 1024):
            here, there = keys[first : first + 1024].ravel(), np.zeros((1024, k), np.uint32)
            count = len(here) // n
            module.launch(f"best_{k}_of_{n}", (1,), (count,), [here, there], outputs={1})
            found[first : first + 1024] = there[:count]
        np.testing.assert_array_equal(found, -np.sort(-keys.astype(np.int64))[:, :k], f"{k} of {n}")


@pytest.mark.parametrize(("n", "k", "made"), [(4, 4, 10), (8, 8, 38), (16, 16, 126), (33, 1, 32)])
def test_what_networks_take(n: int, k: int, made: int) -> None:
    """Batcher's sorts of 4, 8, 16 keys have 5, 19, 63 comparators; the best alone takes one key a
    comparison."""
    assert networks.made_to_sort(n, k) == made


@emulated
def test_networks_and_histograms() -> None:
    """Keys of any value, but 0, which is none."""
    names = ("sorted", "select")
    source = Source(SORTED, headers=tuple(f"fusegen/topk/{n}.cuh" for n in names))
    module = simt.compile_module(source.text())
    rng = np.random.default_rng(0)
    for high in (2**63, 2**20, 3):
        keys = rng.integers(1, high, 256).astype(np.uint64)
        mine = keys.copy()
        module.launch("sort_keys", (1,), (32,), [mine], outputs={0}, initialised={0})
        descending = np.sort(keys.reshape(32, 8))[:, ::-1]
        np.testing.assert_array_equal(mine.reshape(32, 8), descending)
        found = np.zeros(16, np.uint64)
        module.launch("best_of_lanes", (1,), (8,), [keys, found], outputs={1})
        np.testing.assert_array_equal(found, np.sort(keys)[::-1][:16])
        for k in (1, 7, 100, 256):
            kth = np.zeros(1, np.uint64)
            module.launch("kth", (1,), (64,), [keys, 256, k, kth], outputs={3})
            reach = keys[keys >= kth[0]]
            assert len(reach) >= k > (keys > reach.min()).sum()
