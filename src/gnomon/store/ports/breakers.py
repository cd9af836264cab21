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


class BreakerEvent(msgspec.Struct, frozen=True):
    """An event to be stored under `id`: once, however often the store is asked to."""

    id: UUID
    at: datetime
    told: BreakerOpened | BreakerClosed
