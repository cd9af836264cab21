"""A node: the stages of a task and what keeps them going, in one process, for one incarnation.

Everything that a node does again and again is a service. What happens where one fails is decided in
`gnomon.chores`: it never ends the node. Only a lost lease and a broken invariant do, and then its
tasks are taken over like those of any node that died.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

from gnomon.chores import Chores, Service, every
from gnomon.clock import Clock
from gnomon.model.errors import LeaseLost, StoreError
from gnomon.node.membership.lease_keeper import LeaseKeeper
from gnomon.node.membership.stage import Membership
from gnomon.node.workers import Workers


class Draining(Protocol):
    """Stops a node."""

    @property
    def held(self) -> int:
        """Tasks that are claimed and not settled."""

    async def run(self) -> None:
        """Claim nothing more, and end what is to end."""


class Node:
    """One incarnation, from joining the roster to leaving it. Built by `gnomon.wiring`."""

    def __init__(
        self,
        membership: Membership,
        services: Sequence[Service],
        worker: Workers,
        drain: Draining,
        chores: Chores,
        clock: Clock,
    ) -> None:
        self.membership = membership
        self.services = services
        self.worker = worker
        self.chores = chores
        self._drain = drain
        self._clock = clock
        self._lost = asyncio.Event()

    @property
    def name(self) -> str:
        return self.membership.entry.name

    @property
    def held(self) -> int:
        """Tasks that are claimed and not settled."""
        return self._drain.held

    def on_lease_lost(self) -> None:
        """The lease is gone for good."""
        self._lost.set()

    async def run(self, keeper: LeaseKeeper, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then drain. Raises LeaseLost when declared dead."""
        keeper.start()
        progress = every("progress", keeper.progress, self._clock, keeper.interval)
        try:
            async with asyncio.TaskGroup() as group:
                loops = [self.chores.run(each) for each in (*self.services, progress)]
                running = [group.create_task(each) for each in (*loops, self.worker.run())]
                await self._stopped_or_lost(stop)
                if self._lost.is_set():
                    self.worker.interrupt_all("this node was declared dead")
                else:
                    await self._drain.run()
                for task in running:
                    task.cancel()
        finally:
            await keeper.stop()
        if self._lost.is_set():
            raise LeaseLost(f"node {self.name} was declared dead")
        for last in (*(each.once for each in self.services if each.at_end), self.membership.leave):
            with contextlib.suppress(StoreError):
                await last()

    async def _stopped_or_lost(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(e.wait()) for e in (stop, self._lost)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in waits:
                task.cancel()
