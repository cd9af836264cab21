"""The way between a dispatcher and its workers: the only thing that differs between a laptop
and a fleet.

A delivery is a hint that carries all that a try needs; the row stays the truth. A pipe may lose
or repeat deliveries and reports: whoever holds the claim gives back what it does not know, and
the fence refuses what comes twice. `room` keeps the dispatcher from claiming more than the
workers can take, so that the backlog waits in PostgreSQL, where it can still be reordered.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from gnomon.pipe.envelope import Delivery, Report


class Pipe(Protocol):
    """Deliveries one way, reports the other."""

    def room(self) -> int:
        """How many more deliveries the workers can take now."""

    def urgent_room(self) -> int:
        """The room for CRITICAL deliveries: where slots are kept for them, it is larger."""

    def free(self) -> int:
        """How many they could begin at once: the room, less what is claimed ahead."""

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Hand claimed tasks to the workers."""

    async def receive(self) -> Delivery:
        """A slot's next task."""

    def unsent(self) -> list[Delivery]:
        """Take back all that no slot has received."""

    def pace(self) -> None:
        """Called at a steady rhythm: decide how far to claim ahead until the next call."""

    def late(self, now: datetime) -> list[Delivery]:
        """Take back what no slot has received by its `start_by`."""

    def report(self, report: Report) -> None:
        """Say what became of a delivery."""

    async def reports(self, most: int) -> list[Report]:
        """What was reported since the last call: at least one, oldest first."""

    def settled(self, count: int) -> None:
        """So many deliveries are over and done with: there is room for as many more."""
