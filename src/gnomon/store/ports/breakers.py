"""What the engine asks of its store about breakers: the contract that every store keeps.

A node decides by what it has seen itself. What is kept here is for those who ask why a task waits.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

import msgspec

from gnomon.observe.events import BreakerClosed, BreakerOpened

# What a breaker is for: a tenant, and a host as it sees it; None: all that the tenant runs.
Circuit = tuple[str, str | None]


class BreakerEvent(msgspec.Struct, frozen=True):
    """What is to be entered under `id`, once, however often it is asked for."""

    id: UUID
    at: datetime
    told: BreakerOpened | BreakerClosed


class BreakerStore(Protocol):
    """What a node asks, about its own breakers."""

    async def note(
        self,
        opened: Sequence[tuple[Circuit, datetime]],
        closed: Sequence[Circuit],
        events: Sequence[BreakerEvent],
    ) -> None:
        """These are open now, until then or longer, and those are not; and these events."""
