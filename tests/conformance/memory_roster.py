"""A roster in memory: a second implementation of the port, as a simulation would have one."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from gnomon.model.errors import LeaseLost
from gnomon.model.fleet.pool import EVERYTHING, Pool, Work
from gnomon.store.ports.roster import AppVersion, NodeKind, NodeRecord


class MemoryRoster:
    """`RosterStore` in memory; nothing waits in it."""

    def __init__(self) -> None:
        self._nodes: dict[UUID, NodeRecord] = {}
        self._now = datetime(2026, 6, 1, tzinfo=UTC)

    async def join(
        self,
        incarnation: UUID,
        name: str,
        slots: int,
        lease: float,
        pool: Pool = EVERYTHING,
        app: AppVersion | None = None,
        kind: NodeKind = NodeKind.NODE,
    ) -> datetime:
        until = self._now + timedelta(seconds=lease)
        new = NodeRecord(incarnation, name, "test", slots, self._now, until, 0, False, pool, kind)
        known = self._nodes.setdefault(incarnation, new)
        self._nodes[incarnation] = msgspec.structs.replace(known, beat=known.beat + 1)
        return self._now

    async def renew(self, incarnation: UUID, lease: float) -> datetime:
        node = self._nodes.get(incarnation)
        if node is None or node.dead:
            raise LeaseLost(f"node incarnation {incarnation} was declared dead")
        until = self._now + timedelta(seconds=lease)
        self._nodes[incarnation] = msgspec.structs.replace(
            node, alive_until=until, beat=node.beat + 1
        )
        return self._now

    async def leave(self, incarnation: UUID) -> None:
        self._nodes[incarnation] = msgspec.structs.replace(self._nodes[incarnation], dead=True)

    async def roster(self) -> list[NodeRecord]:
        return [node for node in self._nodes.values() if not node.dead]

    async def unserved(self) -> list[Work]:
        return []

    async def declare_dead(self, incarnation: UUID, beat: int) -> bool:
        node = self._nodes.get(incarnation)
        if node is None or node.dead or node.beat != beat:
            return False
        self._nodes[incarnation] = msgspec.structs.replace(node, dead=True)
        return True
