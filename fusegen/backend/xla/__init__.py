"""Kernels within programs that XLA compiled: handlers of its foreign function interface."""
