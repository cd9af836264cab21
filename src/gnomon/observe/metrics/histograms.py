"""Histograms that are added up by the batch, as plain lists.

A client library's observation takes a lock and a microsecond for every one; here it is an
increment, and the buckets are summed when somebody scrapes.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString

from gnomon.observe.counts import Bucket


class BucketCounts:
    """The counts of one series. Its last bucket is for what exceeds all bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, buckets: Iterable[Bucket], total: float) -> None:
        """Values that were counted by these bounds, and their sum."""
        for place, number in buckets:
            self.counts[place] += number
        self.total += total

    def show(self, family: HistogramMetricFamily, labels: Sequence[str] = ()) -> None:
        """Add these to what is scraped."""
        bounds = [*map(floatToGoString, self.bounds), "+Inf"]
        buckets = list(zip(bounds, map(float, accumulate(self.counts)), strict=True))
        family.add_metric(labels, buckets, self.total)
