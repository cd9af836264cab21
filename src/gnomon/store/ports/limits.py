"""What limits ask of the store.

Permits and starts belong to buckets (see `gnomon.limits`). A node holds some of each bucket that
it uses, and runs no more tasks of it than it holds permits. All nodes together never hold more than
the limiter allows, whatever order their calls are committed in: so no limit is exceeded while each
node keeps to what it was last told.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

import msgspec

from gnomon.limits.exchange import Ask, PermitGrant
from gnomon.limits.limiter import Bucket, Limiter
from gnomon.model.flow import Flow
from gnomon.model.task import TaskKey
from gnomon.store.ports.dispatch import Entry


class LimitStore(Protocol):
    """What a node asks, about limits."""

    async def exchange(self, node: UUID, turn: int, asks: Sequence[Ask]) -> list[PermitGrant]:
        """Return what is not wanted, get what is, as far as it goes. `turn` grows with every call:
        one that takes effect after a later one has changes nothing. When this raises
        `StoreUnavailable`, the node holds what it kept, or more."""

    async def wanted(self, node: UUID) -> list[Bucket]:
        """The buckets of which the node has something, and others wait for it."""

    async def flows_of(self, keys: Collection[TaskKey]) -> list[tuple[Entry, Flow]]:
        """The flows of live tasks, each with a hint as it would be given now."""

    async def running(self, node: UUID) -> set[TaskKey] | None:
        """All that runs in the node's name. None: a claim of it may be under way, ask later."""


class KeyUse(msgspec.Struct, frozen=True):
    """How much of one key is in use."""

    key: str
    running: int = 0
    started: int = 0


class LimiterUse(msgspec.Struct, frozen=True):
    """A limiter, and how much of it is in use."""

    limiter: Limiter
    created_at: datetime
    updated_at: datetime
    running: int  # tasks
    started: int  # starts that count at this moment
    keys: Sequence[KeyUse] | None = None  # the fullest ones, where they were asked for


class LimiterStore(Protocol):
    """What the API asks, about limiters."""

    async def list(self, tenant_id: str) -> list[LimiterUse]:
        """All of a tenant, by name."""

    async def get(self, tenant_id: str, name: str) -> LimiterUse:
        """One of them, with its fullest keys. Raises LimiterNotFound."""

    async def put(self, limiter: Limiter) -> bool:
        """Create or replace one; gives whether it is new. Raises TooManyLimiters."""

    async def delete(self, tenant_id: str, name: str) -> None:
        """Remove one. Raises LimiterNotFound."""
