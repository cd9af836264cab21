"""Subscriptions on PostgreSQL, as the API changes them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.subscription_errors import (
    InvalidToken,
    NotificationNotFound,
    SubscriptionNotFound,
    TooManyConfirmations,
    TooManySubscriptions,
    TooManyTests,
)
from gnomon.model.tasks.lifecycle import State, status_of
from gnomon.notify.notification import NOTIFIER_TENANT, Purpose
from gnomon.notify.subscription import (
    MOST_SUBSCRIPTIONS,
    Channel,
    Subscription,
    SubscriptionRules,
)
from gnomon.store.ports.insight.subscriptions import (
    MOST_CONFIRMATIONS,
    MOST_LOGGED,
    MOST_TESTS,
    TOKEN_SECONDS,
    LoggedNotification,
    SentNotification,
)
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.hints import Hints
from gnomon.store.postgres.notify.rows import subscription_of
from gnomon.store.postgres.notify.sending import ToSend, send
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import readable

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection


class PostgresSubscriptions:
    """Stores the subscriptions of tenants; `owner` None: of the installation."""

    def __init__(self, database: Database, hints: Hints) -> None:
        self._database = database
        self._hints = hints

    async def list(self, owner: str | None) -> list[Subscription]:
        """All of a tenant, by name."""
        async with self._as(owner) as connection:
            rows = await connection.fetch(query("list_subscriptions"), owner)
        return readable(rows, subscription_of, "subscription")

    async def get(self, owner: str | None, name: str) -> Subscription:
        """Raises SubscriptionNotFound."""
        async with self._as(owner) as connection:
            row = await connection.fetchrow(query("get_subscription"), owner, name)
        return _found(row, name)

    async def put(
        self,
        owner: str | None,
        name: str,
        channel: Channel,
        rules: SubscriptionRules,
        by: str | None,
        subscription_id: UUID,
    ) -> tuple[Subscription, bool]:
        """Store one, in the place of one of its name; gives also whether it is new. Raises
        TooManySubscriptions."""
        async with self._as(owner) as connection:
            # Those who add to the same tenant count one after the other.
            await connection.execute(query("lock_subscriptions"), owner)
            row = await connection.fetchrow(
                query("put_subscription"),
                subscription_id,
                owner,
                name,
                msgspec.json.encode(channel).decode(),
                msgspec.json.encode(rules).decode(),
                by,
                MOST_SUBSCRIPTIONS,
            )
        if row is None:
            raise TooManySubscriptions(MOST_SUBSCRIPTIONS)
        return subscription_of(row), row["created"]

    async def delete(self, owner: str | None, name: str) -> None:
        """Remove one. Raises SubscriptionNotFound."""
        async with self._as(owner) as connection:
            row = await connection.fetchrow(query("delete_subscription"), owner, name)
        if row is None:
            raise SubscriptionNotFound(name)

    async def mute(self, owner: str | None, name: str, until: datetime | None) -> Subscription:
        """Tell it of nothing until a moment; None: of everything. Raises SubscriptionNotFound."""
        async with self._as(owner) as connection:
            row = await connection.fetchrow(query("mute_subscription"), owner, name, until)
        return _found(row, name)

    async def send_test(self, wanted: ToSend, now: datetime) -> UUID:
        """Send a test to a subscription. Raises TooManyTests: no quota counts notifications."""
        assert wanted.subscription is not None, "only subscriptions are tested"
        asked = NOTIFIER_TENANT, wanted.subscription.id, Purpose.TEST.value
        async with self._database.transaction() as connection:
            await connection.execute(query("lock_subscriptions"), wanted.subscription.tenant_id)
            if await connection.fetchval(query("waiting_tests"), *asked) >= MOST_TESTS:
                raise TooManyTests(MOST_TESTS)
            (task_id,), entries = await send(connection, [wanted], now)
        self._hints.due(entries)
        return task_id

    async def ask_consent(self, wanted: ToSend, token_hash: bytes, now: datetime) -> UUID:
        """Send a token to an address. Raises TooManyConfirmations."""
        assert wanted.subscription is not None, "only subscriptions have addresses"
        owner = wanted.subscription.tenant_id
        async with self._database.transaction() as connection:
            await connection.execute(query("lock_subscriptions"), owner)
            sent = await connection.fetchval(query("count_confirmations"), owner or "")
            if sent >= MOST_CONFIRMATIONS:
                raise TooManyConfirmations(MOST_CONFIRMATIONS)
            await connection.execute(
                query("note_confirmation"),
                wanted.subscription.id,
                owner or "",
                token_hash,
                TOKEN_SECONDS,
            )
            (task_id,), entries = await send(connection, [wanted], now)
        self._hints.due(entries)
        return task_id

    async def confirm(self, token_hash: bytes) -> Subscription:
        """Note the consent of whoever has got the token. Raises InvalidToken."""
        row = await self._database.fetchrow("confirm_subscription", token_hash)
        if row is None:
            raise InvalidToken
        return subscription_of(row)

    async def recent(self, subscription_id: UUID) -> Sequence[SentNotification]:
        """Its last notifications, newest first."""
        rows = await self._database.fetch(
            "recent_notifications", NOTIFIER_TENANT, subscription_id, None
        )
        return [_sent(row) for row in rows]

    async def notification(self, subscription_id: UUID, task_id: UUID) -> SentNotification:
        """One of its last notifications. Raises NotificationNotFound."""
        row = await self._database.fetchrow(
            "recent_notifications", NOTIFIER_TENANT, subscription_id, task_id
        )
        if row is None:
            raise NotificationNotFound(task_id)
        return _sent(row)

    async def log(self) -> Sequence[LoggedNotification]:
        """The newest notifications of all subscriptions, for operators."""
        rows = await self._database.fetch("all_notifications", NOTIFIER_TENANT, MOST_LOGGED)
        return [
            LoggedNotification(
                notification_id=row["id"],
                subscription=row["name"],
                tenant=row["queue"],
                status=status_of(State(row["state"]), row["due_at"], row["attempt"], row["now"]),
                attempt=row["attempt"],
                finished_at=row["finished_at"],
                error=row["last_error"],
            )
            for row in rows
        ]

    @asynccontextmanager
    async def _as(self, owner: str | None) -> AsyncIterator["Connection"]:
        """A transaction in which nothing of other tenants is seen."""
        scope = self._database.transaction() if owner is None else self._database.scoped(owner)
        async with scope as connection:
            yield connection


def _found(row: asyncpg.Record | None, name: str) -> Subscription:
    if row is None:
        raise SubscriptionNotFound(name)
    return subscription_of(row)


def _sent(row: asyncpg.Record) -> SentNotification:
    state = State(row["state"])
    return SentNotification(
        id=row["id"],
        status=status_of(state, row["due_at"], row["attempt"], row["now"]),
        attempt=row["attempt"],
        finished_at=row["due_at"] if state is State.DEAD else row["finished_at"],
        error=row["error"] or row["last_error"],
        response_status=row["response_status"],
        response_body=row["response_body"],
    )
