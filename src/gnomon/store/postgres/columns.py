"""Batches as columns of arrays, kept short.

The driver looks at every element of an array, and that is most of what a batch costs in Python.
Most columns of most batches hold one value all through, so they are sent as one element, and the
statement fills in the rest: `unnest` pads the shorter arrays with NULL, and
`CASE WHEN cardinality($n) = 1 THEN ($n)[1] ELSE column END` reads them back.
"""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def same_or_all(column: Sequence[T]) -> Sequence[T]:
    """The column, or its one value where all are equal."""
    if len(column) > 1 and column.count(column[0]) == len(column):
        return [column[0]]
    return column
