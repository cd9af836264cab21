"""Subscriptions, a mail server, and a notifier that is cranked by hand."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

import msgspec
from aiosmtpd.controller import Controller

from gnomon.clock import Clock, SystemClock, new_id, new_incarnation
from gnomon.model.insight.event_kinds import DEAD_LETTERED
from gnomon.node.maintenance.notifier import Notifier
from gnomon.node.membership.lease import Lease
from gnomon.notify.notification import NOTIFIER_TENANT, Notification
from gnomon.notify.subscription import Channel, Subscription, SubscriptionRules
from gnomon.store.ports.insight.events import NewEvent
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events.event_log import PostgresEventLog
from gnomon.store.postgres.events.event_writer import PostgresEventWriter
from gnomon.store.postgres.notify.notifier_store import PostgresNotifier
from gnomon.store.postgres.notify.subscription_store import PostgresSubscriptions

QUICK = SubscriptionRules(digest_seconds=1.0, resolve_seconds=3.0)


class Mailbox:
    """Keeps what a mail server was given; refuses the first `refusals` messages for a while."""

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.port = 0
        self.refusals = 0

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        if self.refusals > 0:
            self.refusals -= 1
            return "451 try again later"
        message = message_from_bytes(envelope.content, policy=default)
        assert isinstance(message, EmailMessage)
        self.messages.append(message)
        self.recipients += envelope.rcpt_tos
        return "250 kept"

    @property
    def texts(self) -> list[str]:
        bodies = [message.get_body(("plain",)) for message in self.messages]
        return [str(body.get_content()) for body in bodies if body is not None]


@asynccontextmanager
async def mail_server() -> AsyncIterator[Mailbox]:
    """A real SMTP server on a free port."""
    mailbox = Mailbox()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        mailbox.port = probe.getsockname()[1]
    controller = Controller(mailbox, hostname="127.0.0.1", port=mailbox.port)
    controller.start()
    try:
        yield mailbox
    finally:
        controller.stop()


def mail_settings(mailbox: Mailbox) -> dict[str, Any]:
    return {
        "notify_smtp_host": "127.0.0.1",
        "notify_smtp_port": mailbox.port,
        "notify_smtp_tls": "none",
        "notify_sender": "gnomon@example.com",
    }


async def subscribe(
    database: Database,
    channel: Channel,
    rules: SubscriptionRules = QUICK,
    name: str = "ops",
    tenant: str | None = "default",
) -> Subscription:
    """A subscription whose address, if it has one, is confirmed."""
    store = PostgresSubscriptions(database, CollectedHints(database))
    made, _ = await store.put(tenant, name, channel, rules, None, new_id(SystemClock().now()))
    async with database.connection() as connection:
        await connection.execute(
            "UPDATE gnomon.subscription SET confirmed_at = gnomon.now() WHERE id = $1", made.id
        )
    return made


async def died(
    database: Database,
    count: int,
    event_id: Any = None,
    tenant: str = "default",
    task_type: str = "mail.send",
) -> Any:
    """An event that so many tasks of a type are dead letters; given its id, the same has grown."""
    event_id = event_id or new_id(SystemClock().now())
    detail = msgspec.json.encode({"task_type": task_type, "count": count}).decode()
    event = NewEvent(tenant_id=tenant, id=event_id, kind=DEAD_LETTERED, detail=detail)
    await PostgresEventWriter(database).enter([event])
    return event_id


def notifier_on(database: Database, clock: Clock | None = None) -> Notifier:
    clock = clock or SystemClock()
    return Notifier(
        PostgresNotifier(database),
        PostgresEventLog(database),
        PostgresEventWriter(database),
        PostgresChores(database, clock),
        Lease(new_incarnation(), 10.0),
        clock,
    )


async def made(database: Database) -> list[Notification]:
    """All notifications that were ever made tasks of, in their order."""
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT id, payload FROM gnomon.task WHERE tenant_id = $1"
            " UNION ALL SELECT id, payload FROM gnomon.task_archive WHERE tenant_id = $1"
            " ORDER BY id",
            NOTIFIER_TENANT,
        )
    return [msgspec.json.decode(row["payload"], type=Notification) for row in rows]


class TurnedClock(SystemClock):
    """A clock that a test puts forward."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead: Any = None

    def now(self) -> datetime:
        now = super().now()
        return now if self.ahead is None else now + self.ahead
