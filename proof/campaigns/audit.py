"""Looks into the tables while a campaign runs, for what no outcome would show: someone dead who
lives again, a fence that falls, a finished task that comes back, a claim by the dead.

Each look is one snapshot, of bounded cost: the roster, what runs, and what was seen to run lately.
"""

import asyncio
import contextlib
import time
from typing import NamedTuple
from uuid import UUID

import asyncpg
from proof.campaigns.history import Sighting

EVERY = 0.2  # seconds
# A claim may have seen its node alive, and be committed a moment after the word of its death.
SURELY_DEAD = 1.0  # seconds since it was first seen dead
_RUNNING = 2_000  # rows that run, at most, looked at
_OF_DEAD = 5_000  # rows that name someone dead
_WATCHED = 2_000  # tasks that were seen to run lately
_TENANT = "default"

_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_NODES = "SELECT incarnation, name, dead, beat FROM gnomon.node"
_HORIZON = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_CLAIMED_BY_DEAD = f"""
    SELECT t.id, t.state, t.fence, t.node, t.xmin::text::bigint AS written_by
    FROM gnomon.task AS t JOIN gnomon.node AS n ON n.incarnation = t.node
    WHERE t.state = 1 AND n.dead
    LIMIT {_OF_DEAD}
"""
_RUNNERS = f"""
    SELECT id, state, fence, node FROM gnomon.task WHERE state = 1 LIMIT {_RUNNING}
"""
_SEEN = """
    SELECT id, state, fence FROM gnomon.task WHERE tenant_id = $1 AND id = ANY ($2)
    UNION ALL
    SELECT id, state, fence FROM gnomon.task_archive WHERE tenant_id = $1 AND id = ANY ($2)
"""


class _Seen(NamedTuple):
    """A task as it was last seen."""

    fence: int
    final: bool  # in the archive, for good


class _Dead(NamedTuple):
    """Someone as when first seen dead."""

    since: float  # monotonic
    beat: int
    horizon: int  # transactions from this one on began later


class Audit:
    """`run` looks until it is cancelled. What must not be seen is in `sightings`."""

    def __init__(self, dsn: str, surely_dead: float = SURELY_DEAD) -> None:
        self.sightings: list[Sighting] = []
        self.looks = 0
        self._dsn = dsn
        self._surely_dead = surely_dead
        self.forget()

    def forget(self) -> None:
        """Begin anew: what was seen does not bind those who come (after a loss of data)."""
        self._dead: dict[UUID, _Dead] = {}
        self._tasks: dict[UUID, _Seen] = {}  # the latest seen last
        self._of_dead: set[tuple[UUID, int]] | None = None  # at the last look; None: not all known

    async def run(self) -> None:
        while True:
            # PostgreSQL may be away at any moment, and the next look is as good.
            with contextlib.suppress(*_AWAY):
                await self._look_on()
            await asyncio.sleep(EVERY)

    async def _look_on(self) -> None:
        connection = await asyncpg.connect(self._dsn, timeout=5, command_timeout=10)
        try:
            while True:
                await self.look(connection)
                await asyncio.sleep(EVERY)
        finally:
            connection.terminate()

    async def look(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        """One look."""
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            horizon = await connection.fetchval(_HORIZON)
            nodes = await connection.fetch(_NODES)
            of_dead = await connection.fetch(_CLAIMED_BY_DEAD)
            running = await connection.fetch(_RUNNERS)
            seen = await connection.fetch(_SEEN, _TENANT, list(self._tasks))
        self.looks += 1
        self._judge_claims(of_dead)
        self._judge_nodes(nodes, horizon)
        self._judge_tasks(seen, running)

    def _judge_nodes(self, nodes: list[asyncpg.Record], horizon: int) -> None:
        for incarnation, name, dead, beat in nodes:
            before = self._dead.get(incarnation)
            if before is None:
                if dead:
                    self._dead[incarnation] = _Dead(time.monotonic(), beat, horizon)
            elif not dead:
                self._saw(f"{name} ({incarnation}) was dead and lives again")
                del self._dead[incarnation]
            elif beat != before.beat:
                self._saw(f"{name} ({incarnation}) is dead and renewed its lease")
                self._dead[incarnation] = before._replace(beat=beat)

    def _judge_claims(self, rows: list[asyncpg.Record]) -> None:
        known, surely = self._of_dead, time.monotonic() - self._surely_dead
        for task_id, _, fence, node, written_by in rows:
            dead = self._dead.get(node)
            new = known is not None and (task_id, fence) not in known
            if new and dead is not None and dead.since < surely and written_by >= dead.horizon:
                self._saw(f"task {task_id} was claimed by {node}, which was dead (fence {fence})")
        self._of_dead = {(r["id"], r["fence"]) for r in rows} if len(rows) < _OF_DEAD else None

    def _judge_tasks(self, seen: list[asyncpg.Record], running: list[asyncpg.Record]) -> None:
        twice = len(seen) != len({row["id"] for row in seen})
        for task_id, state, fence in seen:
            before, final = self._tasks[task_id], state >= 10
            if fence < before.fence:
                self._saw(f"the fence of task {task_id} fell from {before.fence} to {fence}")
            if before.final and not final:
                self._saw(f"task {task_id} was finished and is live again (state {state})")
            self._tasks[task_id] = _Seen(fence, final or before.final)
        if twice:
            self._saw("a task is live and archived at once")
        for row in running:
            before = self._tasks.pop(row["id"], _Seen(row["fence"], final=False))
            self._tasks[row["id"]] = before._replace(fence=row["fence"])
        for task_id in list(self._tasks)[: max(0, len(self._tasks) - _WATCHED)]:
            del self._tasks[task_id]

    def _saw(self, what: str) -> None:
        self.sightings.append(Sighting(time.time(), what))
