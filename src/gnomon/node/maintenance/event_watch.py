"""Notices conditions that people care about, and tells when they begin and when they are over.

One node looks for all. What it reads is there for other reasons, so nobody's work pays for it.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial

from gnomon.clock import Clock
from gnomon.model.fleet.tenant import Quotas
from gnomon.model.insight import event_kinds as kinds
from gnomon.node.maintenance.told_once import told_once
from gnomon.node.membership.lease import Lease
from gnomon.store.ports.insight.events import Condition, NewEvent
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events.event_writer import PostgresEventWriter
from gnomon.store.postgres.events.looks import MOST_FOUND, PostgresLooks

CHORE = "events"
EVERY_SECONDS = 5.0
_HOLD_SECONDS = 20.0
STORM_MINUTES, STORM_RETRIES = 5, 100
STARVING_SECONDS = 600.0
QUOTA_SECONDS = 300.0  # since somebody was refused
LOST_SECONDS = 3_600.0  # after which nobody expects a node back
JOINED_SECONDS = 600.0
FAILING_SECONDS = 60.0
FEED_SECONDS = 60.0

Look = Callable[[], Awaitable[list[Condition]]]


class EventWatch:
    """Looks at one kind of condition after the other. One that cannot be looked at keeps no other
    from being told."""

    def __init__(
        self,
        looks: PostgresLooks,
        writer: PostgresEventWriter,
        chores: PostgresChores,
        lease: Lease,
        quotas: Callable[[str], Quotas],
        clock: Clock,
    ) -> None:
        self._looks = looks
        self._writer = writer
        self._chores = chores
        self._lease = lease
        self._quotas = quotas
        self._clock = clock
        self._server: tuple[object, ...] | None = None
        self._parts: Sequence[Callable[[], Awaitable[None]]] = (
            partial(self._tell, (kinds.RETRY_STORM,), self._retry_storms),
            partial(self._tell, (kinds.QUOTA_REACHED,), self._quotas_reached),
            partial(self._tell, (kinds.LIMITER_STARVING,), self._starving_limiters),
            partial(self._tell, (kinds.FEED_BEHIND, kinds.FEED_GAP), self._late_feeds),
            partial(self._tell, (kinds.NODE_LOST,), self._lost_nodes),
            partial(self._tell, (kinds.CHORE_FAILING,), self._failing_chores),
            partial(self._tell, (kinds.PARTITIONS_MISSING, kinds.DATABASE_FULL), self._database),
            self._end_breakers,
            self._tell_joined,
        )

    async def run_once(self) -> bool:
        """Whether this node has looked. Raises the last error, after all have been looked at."""
        if not await self._chores.hold(CHORE, self._lease.incarnation, _HOLD_SECONDS):
            self._server = None
            return False
        failed: Exception | None = None
        for part in self._parts:
            try:
                await part()
            except Exception as error:  # noqa: BLE001 - a row that cannot be read, say
                failed = error
        if failed is not None:
            raise failed
        return True

    async def _tell(self, looked_at: Sequence[str], look: Look) -> None:
        found = await look()
        # There may be more: one that was not among them need not be over.
        are_all = len(found) < MOST_FOUND
        await self._writer.conditions(looked_at, found, are_all=are_all)

    async def _end_breakers(self) -> None:
        await self._writer.end_breakers()

    async def _retry_storms(self) -> list[Condition]:
        rows = await self._looks.retry_storms(STORM_MINUTES, STORM_RETRIES)
        return [
            Condition(
                kind=kinds.RETRY_STORM,
                tenant_id=row["tenant_id"],
                key=row["task_type"],
                detail={
                    "task_type": row["task_type"],
                    "retries": row["retries"],
                    "executions": row["executions"],
                    "minutes": STORM_MINUTES,
                },
            )
            for row in rows
        ]

    async def _quotas_reached(self) -> list[Condition]:
        rooms = await self._looks.full_rooms(QUOTA_SECONDS)
        found = [_quota(row["tenant_id"], "scheduled_tasks", row["quota"]) for row in rooms]
        for row in await self._looks.storage():
            most = self._quotas(row["tenant_id"]).stored_bytes
            if most is not None and row["bytes"] >= most:
                found.append(_quota(row["tenant_id"], "stored_bytes", most))
        crowded = await self._looks.crowded_tenants()
        found += [_quota(row["tenant"], "ready_tasks", row["most"]) for row in crowded]
        return found

    async def _starving_limiters(self) -> list[Condition]:
        rows = await self._looks.starving_limiters(STARVING_SECONDS)
        return [
            Condition(
                kind=kinds.LIMITER_STARVING,
                tenant_id=row["tenant_id"],
                key=row["limiter"],
                detail={"limiter": row["limiter"], "waiting_since": row["since"]},
            )
            for row in rows
        ]

    async def _late_feeds(self) -> list[Condition]:
        found = []
        for row in await self._looks.late_feeds(FEED_SECONDS):
            gap, waiting = row["gap_since"], row["waiting_since"]
            detail = {"feed": row["name"], "error": row["last_error"]}
            about = {"tenant_id": row["tenant_id"], "key": row["name"]}
            if gap is not None:
                told = detail | {"gap_since": gap}
                found.append(Condition(kind=kinds.FEED_GAP, detail=told, **about))
            if waiting is not None:
                told = detail | {"waiting_since": waiting}
                found.append(Condition(kind=kinds.FEED_BEHIND, detail=told, **about))
        return found

    async def _lost_nodes(self) -> list[Condition]:
        rows = await self._looks.nodes(LOST_SECONDS)
        return [
            Condition(
                kind=kinds.NODE_LOST,
                key=row["name"],
                detail={"node": row["name"], "lost_at": row["ended_at"]},
            )
            for row in rows
            if row["lost"]
        ]

    async def _failing_chores(self) -> list[Condition]:
        rows = await self._looks.troubles(FAILING_SECONDS)
        return [
            Condition(
                kind=kinds.CHORE_FAILING,
                key=row["chore"],
                detail={
                    "chore": row["chore"],
                    "failing_since": row["since"],
                    "processes": row["processes"],
                },
            )
            for row in rows
        ]

    async def _database(self) -> list[Condition]:
        row = await self._looks.database()
        await self._tell_changed(row["system"], row["timeline"], row["started_at"])
        found = []
        if row["missing"]:
            detail = {"tables": row["missing"]}
            found.append(Condition(kind=kinds.PARTITIONS_MISSING, key="", detail=detail))
        if row["full_why"] is not None:
            detail = {"why": row["full_why"]}
            found.append(Condition(kind=kinds.DATABASE_FULL, key="", detail=detail))
        return found

    async def _tell_changed(self, system: int, timeline: int, started_at: datetime) -> None:
        """Another server answers than a while ago, or the same one was started again."""
        seen = (system, timeline, started_at)
        before, self._server = self._server, seen
        if before is None or before == seen:
            return
        what = "restarted" if before[:2] == seen[:2] else "failed_over"
        detail = {"what": what, "timeline": timeline, "started_at": started_at}
        about = f"{system}\0{timeline}"
        await self._writer.enter(
            [_of_installation(kinds.DATABASE_CHANGED, started_at, about, detail)]
        )

    async def _tell_joined(self) -> None:
        rows = await self._looks.nodes(JOINED_SECONDS)
        await self._writer.enter(
            [
                _of_installation(
                    kinds.NODE_JOINED,
                    row["started_at"],
                    str(row["incarnation"]),
                    {"node": row["name"], "version": row["version"], "slots": row["slots"]},
                )
                for row in rows
            ]
        )


def _quota(tenant_id: str, name: str, most: int) -> Condition:
    detail = {"quota": name, "limit": most}
    return Condition(kind=kinds.QUOTA_REACHED, tenant_id=tenant_id, key=name, detail=detail)


def _of_installation(kind: str, at: datetime, about: str, detail: dict[str, object]) -> NewEvent:
    return told_once(kinds.INSTALLATION, kind, at, about, detail)
