"""Who goes first when more is due than there are slots."""

from gnomon.fair.lanes import LaneRound
from gnomon.fair.queue import ReadyQueue
from gnomon.fair.slots import Slots
from gnomon.fair.tenants import FairQueue

__all__ = ["FairQueue", "LaneRound", "ReadyQueue", "Slots"]
