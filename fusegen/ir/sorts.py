"""Words of graphs: how many values a node has, which axes an input, and the base monoids."""

from __future__ import annotations

from enum import Enum


class Extent(Enum):
    """How many values a node has."""

    ROW = "row value"
    ELEMENT = "element"
    LIST = "list"


class Axis(Enum):
    """Which axes an input array has."""

    ELEMENT = "element"
    PER_COLUMN = "per column"
    PER_ROW = "per row"
    ROW_VECTOR = "row vector"
    COLUMN_VECTOR = "column vector"
    SCALAR = "scalar"  # a number of the call, made of its constants: see ir/varying.py


VECTORS = (Axis.ROW_VECTOR, Axis.COLUMN_VECTOR)
"""Inputs with a vector for each row or column: their last axis is the vector's index."""


class Fold(Enum):
    """The base monoids: reductions that need nothing but their element."""

    MAX = "max"
    MIN = "min"
    SUM = "sum"
    PROD = "prod"
    MEAN = "mean"
    ARGMAX = "argmax"
    ARGMIN = "argmin"
