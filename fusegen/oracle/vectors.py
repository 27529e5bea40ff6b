"""Vectors in the oracle: never one for every row and column at a time.

A vector per row is an array (rows, d), one per column (n_cols, d). What has one for every row and
column is looked at number by number, as (rows, n_cols) planes; products of the two kinds are matrix
products.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fusegen.ir import graph as g
from fusegen.oracle.rows import REDUCTIONS, Array, take, widened


class Vectors:
    """Vectors of a block of rows. known: the values of all that is no vector per element, and of
    inputs; mapped, cast: operations over given operands."""

    def __init__(
        self, known: Callable[[g.Node], Array], mapped: Callable[[g.Map, list[Array]], Array],
        cast: Callable[[g.Cast, Array], Array], n_cols: int,
    ) -> None:
        self.known, self.mapped, self.cast, self.n_cols = known, mapped, cast, n_cols
        self._columns: dict[g.Node, Array | None] = {}

    def value(self, node: g.Node) -> Array:
        """Vectors of rows, (rows, d); of a sum over the index, (rows, n_cols) or (rows, 1)."""
        match node:
            case g.Inner(arg=arg):
                return self._inner(arg)
            case g.Reduce(fold=fold, arg=arg):
                return self._reduced(fold, arg)
            case g.Take(arg=arg, index=index):
                return self._at(arg, self.known(index))
            case _ if g.extent(node) is g.Extent.ELEMENT:
                return np.empty(0)  # nothing has a vector for every row and column
            case g.Map(args=args):
                return self.mapped(node, [self.known(a) for a in args])
            case g.Cast(arg=arg):
                return self.cast(node, self.known(arg))
            case _:
                raise AssertionError(node)  # nothing else is a vector

    def _inner(self, arg: g.Node) -> Array:
        if not g.is_vector(arg):
            return self.known(arg)  # of one number
        if g.extent(arg) is g.Extent.ROW:
            return np.asarray(np.sum(self.known(arg), axis=1, keepdims=True))
        factors = self._product(arg)
        if factors is not None:
            return np.asarray(factors[0] @ factors[1].T)
        planes = (self.plane(arg, i) for i in range(self._length(arg)))
        return np.asarray(sum(planes))

    def _reduced(self, fold: g.Fold, arg: g.Node) -> Array:
        """A reduction over columns: (rows, d)."""
        pair = self._weighted(arg) if fold in (g.Fold.SUM, g.Fold.MEAN) else None
        if pair is not None:
            total = widened(pair[0], self.n_cols) @ pair[1]
            return np.asarray(total if fold is g.Fold.SUM else total / self.n_cols)
        planes = (widened(self.plane(arg, i), self.n_cols) for i in range(self._length(arg)))
        return np.concatenate([REDUCTIONS[fold](plane) for plane in planes], axis=1)

    def _at(self, arg: g.Node, columns: Array) -> Array:
        """The vectors of one column per row: (rows, d)."""
        planes = (widened(self.plane(arg, i), self.n_cols) for i in range(self._length(arg)))
        return np.concatenate([take(plane, columns) for plane in planes], axis=1)

    def _length(self, node: g.Node) -> int:
        """Numbers in each of a node's vectors."""
        if isinstance(node, g.Input):
            return int(self.known(node).shape[-1])
        return next(self._length(a) for a in g.operands(node) if g.is_vector(a))

    def _weighted(self, arg: g.Node) -> tuple[Array, Array] | None:
        """(p, v) of an element p times a vector per column; None for anything else."""
        match arg:
            case g.Map(op="mul", args=(a, b)):
                for weight, vector in ((a, b), (b, a)):
                    columns = None if g.is_vector(weight) else self.columns(vector)
                    if columns is not None:
                        return self.known(weight), columns
        return None

    def _product(self, arg: g.Node) -> tuple[Array, Array] | None:
        """(q, k) of a product of a row's and a column's vectors."""
        match arg:
            case g.Map(op="mul", args=(a, b)):
                for one, other in ((a, b), (b, a)):
                    columns = self.columns(other)
                    if g.is_vector(one) and g.extent(one) is g.Extent.ROW and columns is not None:
                        return self.known(one), columns
        return None

    def columns(self, node: g.Node) -> Array | None:
        """What is the same for every row, (n_cols, d); None for what is not."""
        if node not in self._columns:
            self._columns[node] = self._made_of_columns(node)
        return self._columns[node]

    def _made_of_columns(self, node: g.Node) -> Array | None:
        if not g.is_vector(node) or g.extent(node) is not g.Extent.ELEMENT:
            return None
        match node:
            case g.Input():
                return np.asarray(self.known(node))
            case g.Cast(arg=arg):
                inner = self.columns(arg)
                return None if inner is None else self.cast(node, inner)
            case g.Map(args=args):
                inner_all = [self.known(a) if isinstance(a, g.Literal) else self.columns(a)
                             for a in args]
                whole = [a for a in inner_all if a is not None]
                return self.mapped(node, whole) if len(whole) == len(args) else None
            case _:
                return None

    def plane(self, node: g.Node, i: int) -> Array:
        """Number i of every vector, broadcasting against (rows, n_cols)."""
        if not g.is_vector(node):
            return self.known(node)
        if g.extent(node) is g.Extent.ROW:
            return self.known(node)[:, i : i + 1]
        columns = self.columns(node)
        if columns is not None:
            return columns[None, :, i]
        match node:
            case g.Cast(arg=arg):
                return self.cast(node, self.plane(arg, i))
            case g.Map(args=args):
                return self.mapped(node, [self.plane(a, i) for a in args])
            case _:
                raise AssertionError(node)  # inputs are the same for every row
