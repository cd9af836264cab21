"""Fair queue: which tenant goes first when more is due than there are slots."""

from gnomon.fairness.fair_queue import FairQueue
from gnomon.fairness.lanes import LaneRound
from gnomon.fairness.ready_queue import ReadyQueue
from gnomon.fairness.slot_shares import SlotShares

__all__ = ["FairQueue", "LaneRound", "ReadyQueue", "SlotShares"]
