"""Health that tests give to pages of a process."""

import asyncio

from gnomon.clock import SystemClock
from gnomon.observe.health import NodeHealth


class Lease:
    """A lease that says what it is told to."""

    def __init__(self) -> None:
        self.since: float | None = 0.0
        self.trusted = True

    def is_trusted(self, now: float) -> bool:
        return self.trusted


def well() -> NodeHealth:
    """Of a node that has just started, and has a lease."""
    health = NodeHealth(SystemClock(), asyncio.Event())
    health.lease = Lease()
    return health
