"""Enters events into PostgreSQL."""

from collections.abc import Container, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import asyncpg
import msgspec

from gnomon.clock import new_id
from gnomon.model.insight.event_kinds import BREAKER_OPENED, end_of
from gnomon.store.ports.insight.events import Condition, NewEvent
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

MOST_CONDITIONS = 1_000  # of the kinds of one call; more are not told


class PostgresEventWriter:
    """Enters events, each once, whoever notices what they tell and however often."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def enter(self, events: Sequence[NewEvent]) -> None:
        """Enters events by their ids. One that is there already, with another detail, has grown:
        it is brought up to date, and told again."""
        if events:
            async with self._database.connection() as connection:
                await _enter(connection, events)

    async def conditions(
        self,
        kinds: Sequence[str],
        present: Iterable[Condition],
        *,
        are_all: bool = True,
        unsure: Container[str] = (),
    ) -> tuple[int, int]:
        """Tells which of the conditions of these kinds have begun, and which are over: `present`
        are all that hold now; where they are not, none is over, nor are those with the keys
        `unsure`. One that goes on is not told again. Gives how many of both."""
        wanted = {condition.place: condition for condition in present}
        async with self._database.transaction() as connection:
            now: datetime = await connection.fetchval("SELECT gnomon.now()")
            known = await connection.fetch(query("open_conditions"), kinds)
            places = {(row["kind"], row["tenant_id"], row["key"]) for row in known}
            room = max(MOST_CONDITIONS - len(places), 0)
            news = [wanted[place] for place in sorted(wanted.keys() - places)][:room]
            absent = (r for r in known if (r["kind"], r["tenant_id"], r["key"]) not in wanted)
            over = [row for row in absent if row["key"] not in unsure] if are_all else []
            begun = await _begin(connection, news, now)
            if over:
                columns = [[row[name] for row in over] for name in ("kind", "tenant_id", "key")]
                await connection.execute(query("end_conditions"), *columns)
            ended = _ends(over, now)
            if begun or ended:
                await _enter(connection, [*begun, *ended])
        return len(begun), len(ended)

    async def end_breakers(self) -> int:
        """Tells which breakers no node has open any more. Nodes tell that they have opened theirs.
        Gives how many."""
        async with self._database.transaction() as connection:
            now: datetime = await connection.fetchval("SELECT gnomon.now()")
            over = await connection.fetch(query("over_breakers"), BREAKER_OPENED, MOST_CONDITIONS)
            if over:
                await _enter(connection, _ends(over, now))
        return len(over)


async def _begin(
    connection: "Connection", conditions: Sequence[Condition], now: datetime
) -> list[NewEvent]:
    events = [
        NewEvent(
            tenant_id=condition.tenant_id,
            id=new_id(now),
            kind=condition.kind,
            detail=msgspec.json.encode(condition.detail).decode(),
            cron_job_id=condition.cron_job_id,
            task_id=condition.task_id,
        )
        for condition in conditions
    ]
    if not events:
        return []
    rows = await connection.fetch(
        query("begin_conditions"),
        [event.kind for event in events],
        [event.tenant_id for event in events],
        [condition.key for condition in conditions],
        [event.id for event in events],
        [event.detail for event in events],
    )
    noted = {row["event_id"] for row in rows}
    return [event for event in events if event.id in noted]


def _ends(over: Iterable[asyncpg.Record], now: datetime) -> list[NewEvent]:
    return [
        NewEvent(
            tenant_id=row["tenant_id"],
            id=new_id(now),
            kind=end_of(row["kind"]),
            detail=_ended(row["detail"], row["began_at"], now),
        )
        for row in over
    ]


def _ended(detail: str, began_at: datetime, now: datetime) -> str:
    """What was told at the beginning, and how long it was so."""
    told = msgspec.json.decode(detail)
    seconds = round((now - began_at).total_seconds(), 3)
    return msgspec.json.encode({**told, "since": began_at, "seconds": seconds}).decode()


async def _enter(connection: "Connection", events: Sequence[NewEvent]) -> None:
    await connection.execute(
        query("enter_events"),
        [event.tenant_id for event in events],
        [event.id for event in events],
        [event.kind for event in events],
        [event.at for event in events],
        [event.cron_job_id for event in events],
        [event.task_id for event in events],
        [event.detail for event in events],
    )
