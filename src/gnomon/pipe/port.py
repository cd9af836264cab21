"""Pipe port: the way between a dispatcher and its workers, the only thing that differs between a
laptop and a fleet.

A delivery is a hint that carries all that an execution needs; the row stays the truth. A pipe may
lose or repeat deliveries and reports: the holder of a claim releases what it does not know, and
the fence refuses what comes twice. `room` keeps the dispatcher from claiming more than the
workers can take, so that the backlog waits in PostgreSQL, where it can still be reordered.
"""

from collections.abc import Sequence
from typing import Protocol

from gnomon.pipe.envelope import Delivery, Report


class Pipe(Protocol):
    """Deliveries one way, reports the other."""

    def room(self) -> int:
        """How many more deliveries of any priority the workers can take now."""

    def urgent_room(self) -> int:
        """The room for CRITICAL deliveries: at least `room`, and more where slots are kept for
        them."""

    def free(self) -> int:
        """How many they could begin at once: the room, less what is claimed ahead."""

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Hand claimed tasks to the workers."""

    async def receive(self) -> Delivery:
        """A slot's next task: a CRITICAL one, where there is any. The slots that are kept for
        those get nothing else."""

    def stranded(self, now: float) -> int:
        """How many CRITICAL deliveries could start now, but for want of a slot."""

    def unsent(self) -> list[Delivery]:
        """Take back all that no slot has received."""

    def pace(self) -> None:
        """Called at a steady rhythm: decide how far to claim ahead until the next call."""

    def late(self, now: float) -> list[Delivery]:
        """Take back what no slot has received by its `start_by`. Like what is `unsent`, it must
        be reported."""

    def report(self, report: Report) -> None:
        """Say what became of a delivery. Its slot is free: it, or one that replaces it, comes
        back for another."""

    async def reports(self, most: int) -> list[Report]:
        """Reports since the last call: at least one, oldest first."""

    def settled(self, reports: Sequence[Report]) -> None:
        """The tasks of these reports are settled: there is room for as many more."""
