"""Counts tasks that are due and wait, and tells all processes in which lanes new ones are
refused."""

from collections.abc import AsyncIterator, Mapping, Sequence
from uuid import UUID

import asyncpg

from gnomon.model.fleet.crowding import Crowd, Crowds, LaneKey, counted_up_to
from gnomon.model.fleet.shard import SHARDS
from gnomon.store.postgres.database import Database, statements_within
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import ANY_LANE, LANES

CHORE = "crowding"
_MOST_FLOWS = 1_000  # of a lane
_TENANTS_AT_ONCE = 200
_SAMPLED = 20_000  # tasks; where more may wait, some of the shards stand for all
_BEYOND = 2  # times what a shard may have is counted in it
_SPARE = 50  # tasks, beside that: shards are not all alike
_WITHIN_SECONDS = 5.0


class PostgresCrowding:
    """What one process at a time counts, and all read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def hold(self, process: UUID, seconds: float) -> bool:
        """Whether this process is the one to count."""
        return await self._database.fetchrow("hold_chore", CHORE, process, seconds) is not None

    async def of_lanes(self, quotas: Mapping[str, int]) -> AsyncIterator[dict[LaneKey, int]]:
        """Waiting tasks in each lane of these tenants, counted a little beyond their quotas: some
        tenants after the other."""
        tenants = sorted(quotas)
        for first in range(0, len(tenants), _TENANTS_AT_ONCE):
            some = tenants[first : first + _TENANTS_AT_ONCE]
            most = [counted_up_to(quotas[tenant]) for tenant in some]
            with statements_within(_WITHIN_SECONDS):
                rows = await self._database.fetch("ready_of_lanes", some, most, _MOST_FLOWS)
            yield {
                LaneKey(tenant, LANES.get(lane, ANY_LANE)): ready for tenant, lane, ready in rows
            }

    async def of_tenants(self, most: int, turn: int) -> dict[str, int]:
        """Waiting tasks of each tenant, where `most` may wait in all: an estimate by a part of
        the shards, another one at each turn, where counting all would take long."""
        part = min(SHARDS, max(8, SHARDS * _SAMPLED // max(1, most)))
        step = SHARDS // part
        shards = range(turn % step, SHARDS, step)
        limit = most * _BEYOND // SHARDS + _SPARE
        with statements_within(_WITHIN_SECONDS):
            rows = await self._database.fetch("ready_of_shards", list(shards), limit)
        return {row["tenant_id"]: row["ready"] * SHARDS // len(shards) for row in rows}

    async def tell(self, crowds: Crowds) -> None:
        """Let all processes refuse tasks for these lanes, and for no others."""
        async with self._database.transaction() as connection:
            await connection.execute(query("clear_lanes"))
            if crowds:
                await connection.execute(query("crowd_lanes"), *_columns(crowds))
            await connection.execute(query("tell_crowded"), bool(crowds))

    async def tell_again(self) -> None:
        """Let what was told last hold for longer."""
        async with self._database.transaction() as connection:
            await connection.execute(query("tell_crowded"), True)


def crowds_of(rows: Sequence[asyncpg.Record]) -> Crowds:
    """The rows of crowded_lanes.sql."""
    return {
        LaneKey(tenant, LANES.get(lane, ANY_LANE)): Crowd(*crowd) for tenant, lane, *crowd in rows
    }


def _columns(crowds: Crowds) -> list[list[object]]:
    rows = [(*key, *crowd) for key, crowd in crowds.items()]
    return [list(column) for column in zip(*rows, strict=True)]
