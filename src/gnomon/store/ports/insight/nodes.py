"""Values of the overview of nodes: who they are, what they run, and what waits for them."""

from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.model.fleet.pool import Pool, Work
from gnomon.store.ports.roster import NodeKind


class ListedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the roster, living or dead, at the time of the store."""

    name: str
    incarnation: UUID
    version: str
    slots: int
    started_at: datetime
    alive_until: datetime
    dead: bool
    pool: Pool
    kind: NodeKind = NodeKind.NODE
    tenant_id: str | None = None  # of a session
    gateway: UUID | None = None  # that has the session
    lease_seconds: float  # left of its lease; negative where it has run out
    running: int


class ShardBacklog(msgspec.Struct, frozen=True):
    """Due tasks of a shard that wait. Of their work is known what pools choose by."""

    shard: int
    due: int
    lag_seconds: float  # age of the oldest
    work: Work
