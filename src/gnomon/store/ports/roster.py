"""Roster port: which nodes are alive.

A lease is renewed, and a node declared dead, by compare-and-set on the node's row: a node that was
declared dead can never renew again, and must join as a new incarnation.
"""

from datetime import datetime
from enum import IntEnum
from typing import Protocol
from uuid import UUID

import msgspec

from gnomon.model.fleet.pool import EVERYTHING, Pool, Work


class AppVersion(msgspec.Struct, frozen=True):
    """The app of a worker: by its path, for its tenant, and what version of it, as a digest of all
    that it declares."""

    name: str
    tenant_id: str
    version: str


class Unhandled(msgspec.Struct, frozen=True):
    """A task type that waits for a handler, and how many tasks of it do."""

    tenant_id: str
    task_type: str
    waiting: int
    at_least: bool  # there are more than were counted

    def __str__(self) -> str:
        more = "at least " if self.at_least else ""
        return f"{self.task_type} ({more}{self.waiting} waiting, tenant {self.tenant_id})"


class NodeKind(IntEnum):
    """What a row of the roster is; stored as the number, shown as the name in lower case."""

    NODE = 0
    GATEWAY = 1  # a node whose slots are those of remote workers
    SESSION = 2  # such a worker: tasks name it, and it owns no shards

    @property
    def label(self) -> str:
        return self.name.lower()


class NodeRecord(msgspec.Struct, frozen=True):
    """A node as the roster shows it."""

    incarnation: UUID
    name: str
    version: str
    slots: int
    started_at: datetime
    alive_until: datetime
    beat: int
    dead: bool
    pool: Pool = EVERYTHING  # what it serves
    kind: NodeKind = NodeKind.NODE


class Removal(msgspec.Struct, frozen=True):
    """A batch of rows that were removed."""

    removed: int
    more: bool  # there may be more past their time


class RosterStore(Protocol):
    """Keeps the leases of nodes. `gnomon.testing.contracts.roster` tests it."""

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
        """Enter the roster, as a worker of `app` if it is one. Gives the store's time."""

    async def renew(self, incarnation: UUID, lease: float) -> datetime:
        """Extend the lease, however late. Raises LeaseLost once declared dead."""

    async def leave(self, incarnation: UUID) -> None:
        """Leave the roster, with nothing left running."""

    async def roster(self) -> list[NodeRecord]:
        """The nodes that are not dead, and the sessions whose leases have run out."""

    async def unserved(self) -> list[Work]:
        """Waiting work that no node serves; where it is of many kinds, only some of them."""

    async def declare_dead(self, incarnation: UUID, beat: int) -> bool:
        """Declare a node dead, if it has not renewed since `beat`."""
