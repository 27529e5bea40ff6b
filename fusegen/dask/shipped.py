"""How pipelines travel to Dask's workers: by name where they can be imported there, else by value.
"""

from __future__ import annotations

import io
import pickle
from functools import lru_cache
from typing import Any

import cloudpickle

from fusegen.ir.errors import ArgumentError
from fusegen.lang.callables import Held
from fusegen.pipeline.pipeline import Pipeline

_MOST = 256  # pipelines by value that a worker keeps


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """As cloudpickle does with functions, so with pipelines and those that their texts call: what
    no worker can import goes by value."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Held) and _is_here_alone(obj):
            maker, given = obj.recipe()
            return maker, given, {"_method": obj._method}
        return super().reducer_override(obj)


def _is_here_alone(held: Held) -> bool:
    """Is its name of the main program, or of a module that cloudpickle was told to send?"""
    module = getattr(held, "__module__", "")
    by_value = module == "__main__" or module in cloudpickle.list_registry_pickle_by_value()
    return by_value and isinstance(held.__reduce__(), str)


def shipped(pipeline: Pipeline) -> bytes:
    """What `arrived` makes it of. Raises ArgumentError for what cannot be sent."""
    file = io.BytesIO()
    try:
        _Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(pipeline)
    except Exception as error:  # whatever the user's objects raise
        raise ArgumentError(
            f"{pipeline.name} cannot be sent to Dask's workers", why=f"{error}",
            fix="Write it in a module that the workers can import.") from error
    return file.getvalue()


@lru_cache(_MOST)
def arrived(data: bytes) -> Pipeline:
    """The pipeline, the same object for the same bytes: its kernels are found once a worker."""
    found: Pipeline = pickle.loads(data)
    return found
