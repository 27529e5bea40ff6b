"""Pipelines over Dask's arrays: chunks folded where they are, states merged along Dask's tree."""

from fusegen.dask.calls import apply

__all__ = ["apply"]
