"""Pipelines as JAX has its own operations: under jit, vmap and grad."""

from fusegen.jax.functions import Function, op

__all__ = ["Function", "op"]
