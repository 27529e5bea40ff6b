"""⊕ in another engine: an Apache Beam CombineFn for any pipeline that has states.

    pip install apache-beam && python examples/accumulate_beam.py

Beam cuts a collection into bundles, sends accumulators between workers and merges them in an order
of its own. Accumulators hold states, and cross as bytes with a versioned layout and a checksum.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np

import fusegen as fg


@fg.pipeline
def readings(x, *, k=3):
    """Of each sensor: mean and variance, the K greatest and when they were."""
    return {"mean": fg.mean(x), "variance": fg.var(x), "top": fg.topk(x, k)}


class AccumulatorCoder(beam.coders.Coder):
    """Accumulators on their way."""

    def __init__(self, pipeline: fg.Pipeline) -> None:
        self.pipeline = pipeline

    def encode(self, value: fg.Accumulator) -> bytes:
        return value.to_bytes()

    def decode(self, encoded: bytes) -> fg.Accumulator:
        return fg.Accumulator.from_bytes(self.pipeline, encoded)

    def is_deterministic(self) -> bool:
        return True


class Combined(beam.CombineFn):
    """A pipeline over rows that arrive in pieces: (number of the first column, array)."""

    def __init__(self, pipeline: fg.Pipeline, **constants: Any) -> None:
        self.pipeline, self.constants = pipeline, constants

    def create_accumulator(self) -> fg.Accumulator:
        return self.pipeline.accumulator(**self.constants)

    def add_input(
        self, mutable_accumulator: fg.Accumulator, element: tuple[int, np.ndarray]
    ) -> fg.Accumulator:
        first, piece = element
        return mutable_accumulator.update(piece, at=first)

    def merge_accumulators(self, accumulators: Iterable[fg.Accumulator]) -> fg.Accumulator:
        return self.create_accumulator().merge(*accumulators)

    def extract_output(self, accumulator: fg.Accumulator) -> Any:
        return accumulator.finish()

    def get_accumulator_coder(self) -> AccumulatorCoder:
        return AccumulatorCoder(self.pipeline)


def check(found: tuple[str, Any], rows: dict[str, np.ndarray]) -> str:
    """Against NumPy's float64."""
    sensor, got = found
    x = rows[sensor].astype("f8")
    best = np.argsort(-x, kind="stable")[:3]
    np.testing.assert_allclose(got["mean"], x.mean(), rtol=1e-6)
    np.testing.assert_allclose(got["variance"], x.var(), rtol=1e-5)
    np.testing.assert_array_equal(got["top"][1], best)
    np.testing.assert_array_equal(got["top"][0], x[best])
    return f"{sensor}: mean {got['mean']:.3f}, variance {got['variance']:.3f}, most at {best}"


def main() -> None:
    rng = np.random.default_rng(0)
    rows = {f"sensor {i}": rng.normal(20 + i, 2, 5000 + 100 * i).astype("f4") for i in range(3)}
    pieces = [(sensor, (first, row[first : first + 700]))
              for sensor, row in rows.items() for first in range(0, len(row), 700)]
    pieces = [pieces[i] for i in rng.permutation(len(pieces))]
    with beam.Pipeline() as pipeline:
        (pipeline | beam.Create(pieces) | beam.CombinePerKey(Combined(readings))
         | beam.Map(check, rows) | beam.Map(print))


if __name__ == "__main__":
    main()
