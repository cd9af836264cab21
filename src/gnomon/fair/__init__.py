"""Who goes first when more is due than there are slots."""

from gnomon.fair.lanes import WeightedLanes
from gnomon.fair.queue import ReadyQueue

__all__ = ["ReadyQueue", "WeightedLanes"]
