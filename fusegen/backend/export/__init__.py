"""Pipelines as shared libraries with a plain C ABI, and what stands beside them."""
