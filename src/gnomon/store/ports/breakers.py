"""Values of the breaker store.

A node decides by what it has seen itself. The stored breakers are for those who ask why a task
waits.
"""

from datetime import datetime
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
