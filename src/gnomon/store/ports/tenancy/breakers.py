"""Values of the breaker store.

A node decides by what it has seen itself. The stored breakers are for those who ask why a task
waits.
"""

from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.observe.events import BreakerClosed, BreakerOpened

# The subject of a breaker: a tenant and a host; None: everything that the tenant runs.
Circuit = tuple[str, str | None]


class NotedBreaker(msgspec.Struct, frozen=True, kw_only=True):
    """A breaker that is open, to be stored."""

    circuit: Circuit
    until: datetime  # open so long, or longer
    opened_at: datetime
    calls: int  # of the minute before it opened
    failures: int
    error: str | None  # of the last call that failed


class BreakerEvent(msgspec.Struct, frozen=True):
    """An event to be stored under `id`: once, however often the store is asked to."""

    id: UUID
    at: datetime
    told: BreakerOpened | BreakerClosed
