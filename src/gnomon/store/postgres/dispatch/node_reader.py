"""The overview of nodes, read from PostgreSQL."""

from gnomon.store.ports.nodes import ListedNode, ShardBacklog
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.pools import pool_of

_SAME = [name for name in ListedNode.__struct_fields__ if name != "pool"]


class PostgresNodeReader:
    """Reads the whole roster at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def nodes(self, most: int) -> list[ListedNode]:
        """At most so many: living ones first, then the dead, each oldest first."""
        rows = await self._database.fetch("nodes", most)
        return [
            ListedNode(**{name: row[name] for name in _SAME}, pool=pool_of(row["serves"]))
            for row in rows
        ]

    async def backlog(self, most: int) -> list[ShardBacklog]:
        """Shards with due tasks that wait, each counted up to `most`."""
        return [ShardBacklog(*row) for row in await self._database.fetch("due_by_shard", most)]
