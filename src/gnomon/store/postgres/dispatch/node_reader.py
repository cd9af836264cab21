"""The overview of nodes, read from PostgreSQL."""

from collections.abc import Collection

from gnomon.model.fleet.pool import Pool, Work
from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.insight.nodes import ListedNode, ShardBacklog
from gnomon.store.ports.roster import NodeKind
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.pools import pool_of
from gnomon.store.postgres.rows import ANY_LANE, lane_of

_SAME = [name for name in ListedNode.__struct_fields__ if name not in ("pool", "kind")]


class PostgresNodeReader:
    """Reads the whole roster at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def nodes(self, most: int) -> list[ListedNode]:
        """At most so many: living ones first, then the dead, each oldest first."""
        rows = await self._database.fetch("nodes", most)
        return [
            ListedNode(
                **{name: row[name] for name in _SAME},
                pool=pool_of(row["serves"]),
                kind=NodeKind(row["kind"]),
            )
            for row in rows
        ]

    async def backlog(self, most: int, pools: Collection[Pool]) -> list[ShardBacklog]:
        """Shards with due tasks that wait, each counted up to `most`: in parts of which each is in
        one of these pools, or is not."""
        rows = await self._database.fetch(
            "due_by_shard",
            most,
            any(pool.tenants for pool in pools),
            any(pool.lanes for pool in pools),
            any(pool.types for pool in pools),
            any(pool.handlers for pool in pools),
            any(pool.queues for pool in pools),
        )
        return [
            ShardBacklog(shard, due, lag, Work(tenant or "", _lane(lane), kind, queue, by_handler))
            for shard, due, lag, by_handler, tenant, lane, kind, queue in rows
        ]


def _lane(lane: int | None) -> Lane:
    return ANY_LANE if lane is None else lane_of(lane)
