"""Inboxes of subscriptions on PostgreSQL, as the notifier of a node works on them."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import Resolution
from gnomon.notify.grouping import Inbox
from gnomon.notify.notification import NOTIFIER_TENANT
from gnomon.notify.subscription import Subscription
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.insight.subscriptions import (
    FailedNotification,
    HeldInbox,
    InboxChange,
    NotifierPosition,
)
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.notify.rows import subscription_of
from gnomon.store.postgres.notify.sending import ToSend, send
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import readable

Work = Callable[[Sequence[HeldInbox]], Sequence[InboxChange]]

_MOST_FAILED = 100  # that are looked at in one pass
_MOST_DUE = 500  # whose time has come: many have the same end of quiet hours
_NOTE = "its subscription is shown as failing"
_inbox = msgspec.json.Decoder(Inbox)


class PostgresNotifier:
    """Reads and writes inboxes, with the tasks that they make."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._hints = CollectedHints(database)

    async def position(self) -> NotifierPosition:
        row = await self._database.fetchrow("read_cursor")
        assert row is not None, "the table has one row"
        return NotifierPosition(*row)

    async def skip(self, before: int | None, after: int) -> None:
        """Go on from there, without telling anybody."""
        await self._database.execute("move_cursor", before, after)

    async def advance(
        self,
        before: int | None,
        after: int,
        tenants: Collection[str],
        now: datetime,
        work: Work,
    ) -> int:
        """Let `work` change the inboxes that events of these tenants concern, and those whose time
        has come. Their new states, the tasks that they make, and how far events were read, are
        committed together. Gives how many tasks that were; 0 also where another has gone on from
        there."""
        async with self._database.transaction() as connection:
            if await connection.fetchrow(query("move_cursor"), before, after) is None:
                return 0
            rows = await connection.fetch(
                query("due_subscriptions"), [*tenants], now, bool(tenants), _MOST_DUE
            )
            changes = work(readable(rows, _held, "subscription"))
            if changes:
                await connection.execute(
                    query("put_inboxes"),
                    [each.subscription.id for each in changes],
                    [msgspec.json.encode(each.inbox).decode() for each in changes],
                    [each.next_at for each in changes],
                )
            _, entries = await send(connection, [*_to_send(changes)], now)
        return await self._hint(entries)

    async def send(self, wanted: ToSend, now: datetime) -> bool:
        """Send what no event is about; gives whether it is new."""
        async with self._database.transaction() as connection:
            _, entries = await send(connection, [wanted], now)
        return await self._hint(entries) > 0

    async def _hint(self, entries: Sequence[Entry]) -> int:
        self._hints.due(entries)
        await self._hints.send()
        return len(entries)

    async def failed(self) -> list[FailedNotification]:
        """Notifications that could not be sent."""
        rows = await self._database.fetch("dead_notifications", NOTIFIER_TENANT, _MOST_FAILED)
        return [
            FailedNotification(
                id=row["id"],
                error=row["last_error"],
                at=row["due_at"],
                subscription_id=row["subscription_id"],
                tenant_id=row["tenant_id"],
                name=row["name"],
                is_first=bool(row["is_first"]),
                purpose=row["purpose"],
            )
            for row in rows
        ]

    async def give_up(self, failed: Sequence[FailedNotification]) -> None:
        """Note which subscriptions cannot be told, and resolve what could not be sent."""
        causes = {f.subscription_id: f.error for f in failed if f.tells}
        async with self._database.transaction() as connection:
            if causes:
                await connection.execute(query("note_failures"), [*causes], [*causes.values()])
            for each in failed:
                await connection.execute(
                    query("archive_task"),
                    NOTIFIER_TENANT,
                    each.id,
                    int(State.RESOLVED),
                    str(Resolution.ARCHIVED),
                    None,
                    _NOTE,
                )

    async def is_well(self, lost_within: float) -> bool:
        """Whether nodes live, and none was lost lately."""
        row = await self._database.fetchrow("is_well", lost_within)
        return row is not None and bool(row["well"])


class PostgresChannels:
    """Reads subscriptions by their ids, for those who send."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def subscription(self, subscription_id: UUID) -> Subscription | None:
        row = await self._database.fetchrow("subscription_by_id", subscription_id)
        return None if row is None else subscription_of(row)

    async def recovered(self, subscription_id: UUID) -> None:
        """It could be sent again."""
        await self._database.execute("note_recovery", subscription_id)


def _held(row: asyncpg.Record) -> HeldInbox:
    written = row["inbox"]
    inbox = Inbox() if written is None else _inbox.decode(written)
    return HeldInbox(subscription=subscription_of(row), inbox=inbox, next_at=row["next_at"])


def _to_send(changes: Sequence[InboxChange]) -> list[ToSend]:
    return [
        ToSend(each.notification, key, each.subscription)
        for each in changes
        if each.notification is not None
        and (key := f"{each.subscription.id}:{each.inbox.sequence}")
    ]
