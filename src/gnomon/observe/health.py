"""Health of a node's process: whether its event loop turns, and whether it can run tasks now.

Asked from a thread of its own: an answer that needs the loop says nothing about a loop that stands
still.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from gnomon.clock import Clock

BEAT_SECONDS = 0.5
# A handler that blocks the loop for seconds is bad, and no reason yet to end all others with it.
STUCK_SECONDS = 30.0


class Finding(NamedTuple):
    """What a probe is told."""

    well: bool
    status: str  # one or two words
    why: str | None = None


class Held(Protocol):
    """A node's lease, as far as health depends on it."""

    since: float | None  # None: the last renewal has failed

    def is_trusted(self, now: float) -> bool: ...


class NodeHealth:
    """Written by the loop, read by the thread that answers probes (plain attributes: each is one
    atomic store)."""

    def __init__(
        self, clock: Clock, stop: asyncio.Event, stuck_seconds: float = STUCK_SECONDS
    ) -> None:
        self.stop = stop  # set: the node drains
        self._clock = clock
        self._stuck_seconds = stuck_seconds
        self._beat_at = clock.monotonic()
        self._next: asyncio.TimerHandle | None = None
        self.lease: Held | None = None  # None: not in the roster

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Let the running loop show meanwhile that it turns."""
        self._beat(asyncio.get_running_loop())
        try:
            yield
        finally:
            if self._next is not None:
                self._next.cancel()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._beat_at = self._clock.monotonic()
        self._next = loop.call_later(BEAT_SECONDS, self._beat, loop)

    def live(self) -> Finding:
        """Whether the loop turns, whatever the database does."""
        still = self._clock.monotonic() - self._beat_at
        if still > self._stuck_seconds:
            return Finding(False, "stuck", f"the event loop has stood still for {still:.0f} s")
        return Finding(True, "ok")

    def ready(self) -> Finding:
        """Whether it may start tasks: it has a lease, and the last renewal was answered."""
        live, lease = self.live(), self.lease
        if not live.well:
            return live
        if self.stop.is_set():
            return Finding(False, "stopping", "it ends what runs, and starts nothing")
        if lease is None or not lease.is_trusted(self._clock.monotonic()):
            return Finding(False, "not ready", "it has no lease: see its log")
        if lease.since is None:
            return Finding(False, "not ready", "PostgreSQL did not answer the last renewal")
        return Finding(True, "ready")
