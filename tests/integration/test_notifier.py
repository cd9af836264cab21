"""The notifier: events become notifications once, whatever ends in the middle of it."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import psycopg
import pytest
from tests.integration.identity import make_tenant
from tests.integration.notifying import (
    QUICK,
    TurnedClock,
    died,
    made,
    notifier_on,
    subscribe,
)
from tests.integration.support import Connection

from gnomon.clock import SystemClock
from gnomon.model.errors import StoreError
from gnomon.model.insight.event_kinds import INSTALLATION, NODE_LOST
from gnomon.model.insight.severity import Severity
from gnomon.notify.grouping import GroupState
from gnomon.notify.notification import NOTIFIER_TENANT, Notification
from gnomon.notify.quiet_hours import QuietHours
from gnomon.notify.subscription import AppriseChannel, EmailChannel, SlackChannel, WebhookChannel
from gnomon.store.ports.insight.events import NewEvent
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.events.event_log import PostgresEventLog
from gnomon.store.postgres.events.event_writer import PostgresEventWriter
from gnomon.store.postgres.notify.notifier_store import PostgresNotifier

HOOK = WebhookChannel("http://127.0.0.1:9/hook")


def told(notifications: list[Notification]) -> list[tuple[str, str, int]]:
    return [
        (each.subscription, group.state.value, group.count)
        for each in notifications
        for group in each.groups
    ]


async def test_an_event_is_told_once_at_once_then_by_digests_and_when_it_is_over(
    database: Database,
) -> None:
    clock = TurnedClock()
    notifier = notifier_on(database, clock)
    await notifier.run_once()
    await subscribe(database, HOOK)
    event = await died(database, 5)
    assert await notifier.run_once() == 1
    assert await notifier.run_once() == 0
    for count in (100, 10_000):
        await died(database, count, event)
        assert await notifier.run_once() == 0
    clock.ahead = timedelta(seconds=2)
    assert await notifier.run_once() == 1
    clock.ahead = timedelta(seconds=60)
    assert await notifier.run_once() == 1
    assert await notifier.run_once() == 0
    assert told(await made(database)) == [
        ("ops", "new", 5),
        ("ops", "ongoing", 9_995),
        ("ops", "resolved", 0),
    ]


async def test_what_was_before_a_subscription_is_not_told(database: Database) -> None:
    notifier = notifier_on(database)
    await died(database, 5)
    await subscribe(database, HOOK)
    assert await notifier.run_once() == 0
    await died(database, 6)
    assert await notifier.run_once() == 1


async def test_tenants_are_told_of_their_own_and_operators_of_all(database: Database) -> None:
    notifier = notifier_on(database)
    await make_tenant(database, "acme")
    await notifier.run_once()
    everybody = msgspec.structs.replace(QUICK, all_tenants=True)
    await subscribe(database, HOOK, name="default")
    await subscribe(database, HOOK, name="acme", tenant="acme")
    await subscribe(database, HOOK, name="operators", tenant=None)
    await subscribe(database, HOOK, everybody, name="all", tenant=None)
    await died(database, 1, tenant="acme")
    lost = {"node": "a"}
    await PostgresEventWriter(database).enter(
        [
            NewEvent(
                tenant_id=INSTALLATION,
                id=await died(database, 2, tenant=NOTIFIER_TENANT),
                kind=NODE_LOST,
                detail=msgspec.json.encode(lost).decode(),
            )
        ]
    )
    await notifier.run_once()
    found = {(each.subscription, g.kind) for each in await made(database) for g in each.groups}
    assert found == {
        ("acme", "tasks.dead_lettered"),
        ("operators", "node.lost"),
        ("all", "node.lost"),
        ("all", "tasks.dead_lettered"),
    }


async def test_a_notifier_that_ends_in_the_middle_loses_and_doubles_nothing(
    database: Database, connection: Connection
) -> None:
    notifier = notifier_on(database)
    await notifier.run_once()
    await subscribe(database, HOOK)
    await died(database, 7)
    before = await connection.fetchval("SELECT number FROM gnomon.subscription_cursor")
    store = PostgresNotifier(database)

    def killed(_held: Any) -> Any:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await store.advance(before, before + 1, ["default"], SystemClock().now(), killed)
    assert await connection.fetchval("SELECT number FROM gnomon.subscription_cursor") == before
    # Two that both believe to have the chore.
    others = [notifier, notifier_on(database), notifier_on(database)]
    rounds = await asyncio.gather(*(each.read_on() for each in others))
    assert sum(made_now for made_now, _ in rounds) == 1
    assert told(await made(database)) == [("ops", "new", 7)]


async def test_a_server_that_ends_in_the_middle_loses_and_doubles_nothing(
    database: Database, connection: Connection, server_dsn: str
) -> None:
    """Between reading the events and storing what they make, every connection is gone."""
    notifier = notifier_on(database)
    await notifier.run_once()
    await subscribe(database, HOOK)
    await died(database, 7)
    before = await connection.fetchval("SELECT number FROM gnomon.subscription_cursor")
    name = await connection.fetchval("SELECT current_database()")

    def ended(_held: Any) -> Any:
        with psycopg.connect(server_dsn, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = %s AND pid <> pg_backend_pid()",
                [name],
            )
        return []

    store = PostgresNotifier(database)
    with pytest.raises(StoreError):
        await store.advance(before, before + 1, ["default"], SystemClock().now(), ended)
    assert await notifier.run_once() == 1
    assert await notifier.run_once() == 0
    assert told(await made(database)) == [("ops", "new", 7)]


async def test_a_filter_and_a_mute_are_kept(database: Database, connection: Connection) -> None:
    notifier = notifier_on(database)
    await notifier.run_once()
    only = msgspec.structs.replace(QUICK, task_types=("billing",))
    errors = msgspec.structs.replace(QUICK, kinds=("breaker.*",))
    await subscribe(database, HOOK, only, name="billing")
    await subscribe(database, HOOK, errors, name="breakers")
    await subscribe(database, HOOK, name="muted")
    await connection.execute(
        "UPDATE gnomon.subscription SET muted_until = gnomon.now() + interval '1 hour'"
        " WHERE name = 'muted'"
    )
    await died(database, 1)
    assert await notifier.run_once() == 0
    await died(database, 1, task_type="billing")
    assert await notifier.run_once() == 1
    assert [each.subscription for each in await made(database)] == ["billing"]


async def test_an_address_that_does_not_agree_is_told_nothing(
    database: Database, connection: Connection
) -> None:
    notifier = notifier_on(database)
    await notifier.run_once()
    await subscribe(database, EmailChannel("a@example.com"))
    await connection.execute("UPDATE gnomon.subscription SET confirmed_at = NULL")
    await died(database, 1)
    assert await notifier.run_once() == 0


async def test_removed_events_do_not_stop_it(database: Database, connection: Connection) -> None:
    notifier = notifier_on(database)
    await notifier.run_once()
    await subscribe(database, HOOK)
    await connection.execute("UPDATE gnomon.subscription_cursor SET number = 10_000_000")
    assert await notifier.run_once() == 0
    await died(database, 1)
    assert await notifier.run_once() == 1


async def test_what_is_kept_is_told_though_some_before_it_was_removed(
    database: Database, connection: Connection
) -> None:
    notifier = notifier_on(database)
    await notifier.run_once()
    await subscribe(database, HOOK)
    first = await died(database, 1)
    await PostgresEventLog(database).number()
    await connection.execute("DELETE FROM gnomon.event WHERE id = $1", first)
    await connection.execute("UPDATE gnomon.event_order SET forgotten = last")
    await died(database, 2)
    assert await notifier.run_once() == 1


async def test_a_subscription_that_cannot_be_judged_keeps_no_other_waiting(
    database: Database,
) -> None:
    notifier = notifier_on(database)
    await notifier.run_once()
    nowhere = QuietHours(start="22:00", end="07:00", timezone="Nowhere/At_All")
    await subscribe(database, HOOK, msgspec.structs.replace(QUICK, quiet_hours=nowhere), "a")
    endless = msgspec.structs.replace(QUICK, digest_seconds=1e300)
    await subscribe(database, HOOK, endless, "b")
    await subscribe(database, HOOK, QUICK, "c")
    await died(database, 1)
    assert await notifier.run_once() == 2
    assert {each.subscription for each in await made(database)} == {"a", "c"}, "a: at any hour"


async def test_the_least_severity_counts(database: Database) -> None:
    notifier = notifier_on(database)
    await notifier.run_once()
    least = msgspec.structs.replace(QUICK, severity=Severity.ERROR)
    await subscribe(database, SlackChannel("http://127.0.0.1:9/x"), least)
    await subscribe(database, AppriseChannel("json://127.0.0.1:9"), least, "o", None)
    await PostgresEventWriter(database).enter(
        [
            NewEvent(
                tenant_id="default",
                id=await died(database, 1, tenant="nobody"),
                kind="breaker.opened",
                detail='{"host": "a:80"}',
            )
        ]
    )
    assert await notifier.run_once() == 0
    await died(database, 1)
    assert await notifier.run_once() == 1
    (notification,) = await made(database)
    assert notification.groups[0].state is GroupState.NEW
