"""Permits of limits on PostgreSQL: what a node holds of each bucket.

Permits and starts belong to buckets (see `gnomon.limits`). A node holds some of each bucket that
it uses, and runs no more tasks of it than it holds permits. All nodes together never hold more than
the limiter allows, whatever order their calls are committed in: so no limit is exceeded while each
node keeps to what it was last told.
"""

from collections.abc import Collection, Sequence
from itertools import chain, repeat
from uuid import UUID

from gnomon.limits.exchange import Ask, PermitGrant, Starts
from gnomon.limits.limiter import Bucket
from gnomon.model.tasks.flow import Flow
from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import entries_of
from gnomon.store.postgres.queries import query


class PostgresLimits:
    """Exchanges the permits and starts that a node holds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def exchange(self, node: UUID, turn: int, asks: Sequence[Ask]) -> list[PermitGrant]:
        """Return permits that are not wanted, and get wanted ones as far as there are any. `turn`
        grows with every call: one that takes effect after a later one has changes nothing. When
        this raises `StoreUnavailable`, the node holds what it kept, or more."""
        # One order for all, so that two calls that meet cannot wait for each other.
        batch = sorted(asks, key=lambda ask: ask.bucket)
        told = list(chain.from_iterable(zip(repeat(i), ask.told) for i, ask in enumerate(batch, 1)))
        # Its first call costs PostgreSQL 11 ms on each connection, any other 0.3 ms: so it has few.
        # But it may wait for a bucket for long, and claims are not to wait for that.
        async with self._database.reserved(leaving=1) as connection:
            rows = await connection.fetch(
                query("exchange_permits"),
                node,
                turn,
                [ask.bucket.tenant_id for ask in batch],
                [ask.bucket.limiter for ask in batch],
                [ask.bucket.key for ask in batch],
                [ask.rate for ask in batch],
                [ask.kept for ask in batch],
                [ask.wanted for ask in batch],
                [ask.starts for ask in batch],
                [ask.seconds for ask in batch],
                [place for place, _ in told],
                [each.until for _, each in told],
                [each.starts for _, each in told],
                [each.at for _, each in told],
            )
        return [
            PermitGrant(
                batch[place - 1].bucket,
                now,
                permits,
                allowed,
                contended,
                again,
                [*map(Starts, *starts)],
            )
            for place, now, permits, allowed, contended, again, *starts in rows
        ]

    async def wanted(self, node: UUID) -> list[Bucket]:
        """The buckets of which this node holds permits that others wait for."""
        rows = await self._database.fetch("wanted_buckets", node)
        return [Bucket(*row) for row in rows]

    async def flows_of(self, keys: Collection[TaskKey]) -> list[tuple[Entry, Flow]]:
        """The flows of live tasks, each with a hint as it would be given now."""
        rows = await self._database.fetch(
            "flows_of", [key.tenant_id for key in keys], [key.id for key in keys]
        )
        flows = [Flow(row["tenant_id"], *row[8:]) for row in rows]
        return list(zip(entries_of(row[:8] for row in rows), flows, strict=True))

    async def running(self, node: UUID) -> set[TaskKey] | None:
        """The tasks that run on this node. None: one of its claims may be under way, ask later."""
        async with self._database.transaction() as connection:
            # In this order: what was claimed before the lock is seen by the second statement.
            if await connection.fetchrow(query("hold_node"), node) is None:
                return None
            rows = await connection.fetch(query("running_keys"), node)
        return {TaskKey(tenant_id, task_id) for tenant_id, task_id in rows}
