"""Renews the node's lease from a thread and a connection of its own.

A busy event loop must not let a lease run out, and a hung one must not keep it: so the thread
renews only while the loop shows progress.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

import structlog

from gnomon.clock import Clock
from gnomon.model.errors import LeaseLost, StoreError
from gnomon.node.membership.lease import Lease
from gnomon.observe.events import Observer, nobody
from gnomon.observe.node_events import LeaseRenewal

log = structlog.get_logger("gnomon.node")


_SOONER = 3  # times as often a renewal is tried after one that failed


class Renewal(Protocol):
    """A connection that only renews."""

    async def renew(self, incarnation: UUID, lease: float) -> float:
        """Extend the lease; gives by how many seconds. Raises LeaseLost or StoreError."""

    async def close(self) -> None:
        """Let go of the connection."""


class LeaseKeeper:
    """The thread. `progress` is called by the event loop that it watches over."""

    def __init__(
        self,
        lease: Lease,
        renewal: Renewal,
        clock: Clock,
        on_lost: Callable[[], None],
        emit: Observer = nobody,
    ) -> None:
        self._lease = lease
        self._renewal = renewal
        self._clock = clock
        self._on_lost = on_lost  # called on the watched loop, as is who listens
        self._emit = emit
        self._progress_at = clock.monotonic()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._stopped = False  # also where the thread had not come to make its event
        self._thread: threading.Thread | None = None

    @property
    def interval(self) -> float:
        return self._lease.interval

    async def progress(self) -> None:
        """The loop is alive."""
        self._progress_at = self._clock.monotonic()

    def start(self) -> None:
        watched = asyncio.get_running_loop()
        self._progress_at = self._clock.monotonic()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._keep(watched)), name="gnomon-lease", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        self._stopped = True
        if self._loop is not None and self._stop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, self._lease.ttl)

    async def _keep(self, watched: asyncio.AbstractEventLoop) -> None:
        # In this order: `stop` looks for the loop first.
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._stopped:
            self._stop.set()
        try:
            renewed = True
            while not await self._clock.wait(
                self._stop, self.interval if renewed else self.interval / _SOONER
            ):
                renewed = await self._renew()
                if not watched.is_closed():
                    watched.call_soon_threadsafe(self._emit, LeaseRenewal(renewed))
        except LeaseLost:
            self._lease.lost = True
            log.warning("this node was declared dead", incarnation=str(self._lease.incarnation))
            if not watched.is_closed():
                watched.call_soon_threadsafe(self._on_lost)
        finally:
            await self._renewal.close()

    async def _renew(self) -> bool:
        asked_at = self._clock.monotonic()
        if asked_at - self._progress_at > self._lease.ttl / 2:
            log.error("the event loop stands still: the lease is not renewed")
            self._lease.missed()
            return False
        try:
            granted = await self._renewal.renew(self._lease.incarnation, self._lease.ttl)
        except StoreError as error:
            if self._lease.since is not None:
                log.warning("the lease could not be renewed", why=str(error))
            self._lease.missed()
            return False
        self._lease.renewed(asked_at, granted)
        return True
