"""Notifications on their way: as tasks of the notifier, by the rules of the subscriber."""

import re
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
import pytest
from aiohttp import web
from standardwebhooks import Webhook
from tests.conftest import opened, serving
from tests.integration.api_calls import call
from tests.integration.identity import bearer, make_key, make_operator, make_tenant
from tests.integration.nodes import SECRET, Receiver, answers, receiver_on, running_node
from tests.integration.notifying import (
    died,
    made,
    mail_server,
    mail_settings,
    notifier_on,
    subscribe,
)
from tests.integration.support import Connection
from tests.waiting import eventually

from gnomon.access.principal import Role
from gnomon.clock import SystemClock, new_id
from gnomon.notify.notification import NOTIFIER_TENANT
from gnomon.notify.subscription import EmailChannel, SlackChannel, WebhookChannel
from gnomon.store.ports.insight.subscriptions import MOST_TESTS
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.notify.notifier_store import PostgresNotifier

SUBSCRIPTIONS = "/api/v1/subscriptions"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async def now() -> datetime:
        return SystemClock().now()

    async with receiver_on(now) as started:
        yield started


async def ended(api: aiohttp.ClientSession, path: str, sent: Any, **options: Any) -> Any:
    async def look() -> Any:
        one = f"{path}/notifications/{sent['notification_id']}"
        found = await call(api, "GET", one, 200, **options)
        return found if found["status"] in ("COMPLETED", "DEAD_LETTERED") else None

    return await eventually(look)


async def test_a_test_is_signed_as_the_tasks_of_the_tenant_are(
    api: aiohttp.ClientSession, database_dsn: str, receiver: Receiver
) -> None:
    channel = {"type": "webhook", "url": receiver.url, "headers": {"x-team": "night"}}
    made_now = await call(api, "PUT", f"{SUBSCRIPTIONS}/ops", 201, {"channel": channel})
    assert made_now["channel"] == {"type": "webhook", "to": receiver.url, "confirmed": None}
    async with running_node(database_dsn):
        sent = await call(api, "POST", f"{SUBSCRIPTIONS}/ops/test", 202)
        found = await ended(api, f"{SUBSCRIPTIONS}/ops", sent)
    assert (found["status"], found["response_status"]) == ("COMPLETED", 200)
    (received,) = receiver.calls
    assert received.headers["x-team"] == "night"
    assert received.headers["gnomon-tenant"] == "default"
    event = Webhook(SECRET).verify(received.body, dict(received.headers))
    assert event["type"] == "gnomon.notification"
    assert event["data"]["status"] == "test"
    listed = await call(api, "GET", f"{SUBSCRIPTIONS}/ops/notifications", 200)
    assert [each["notification_id"] for each in listed["notifications"]] == [
        sent["notification_id"]
    ]


async def test_a_test_tells_what_the_receiver_answered(
    api: aiohttp.ClientSession, database_dsn: str, receiver: Receiver
) -> None:
    receiver.answer = answers(web.Response(status=403, body=b"no such room"))
    channel = {"type": "slack", "url": f"{receiver.url}/secret-path"}
    shown = await call(api, "PUT", f"{SUBSCRIPTIONS}/chat", 201, {"channel": channel})
    assert "secret-path" not in str(shown)
    async with running_node(database_dsn):
        sent = await call(api, "POST", f"{SUBSCRIPTIONS}/chat/test", 202)
        found = await ended(api, f"{SUBSCRIPTIONS}/chat", sent)
    assert found["status"] == "DEAD_LETTERED"
    assert (found["response_status"], found["response_body"]) == (403, "no such room")
    assert "text" in msgspec.json.decode(receiver.calls[0].body)


async def test_a_few_tests_wait_at_once(api: aiohttp.ClientSession) -> None:
    channel = {"type": "webhook", "url": "http://127.0.0.1:9/hook"}
    await call(api, "PUT", f"{SUBSCRIPTIONS}/ops", 201, {"channel": channel})
    for _ in range(MOST_TESTS):
        await call(api, "POST", f"{SUBSCRIPTIONS}/ops/test", 202)
    problem = await call(api, "POST", f"{SUBSCRIPTIONS}/ops/test", 429)
    assert f"{MOST_TESTS} tests" in problem["detail"]


async def test_an_address_is_written_to_once_it_agrees(
    database_dsn: str, database: Database, connection: Connection
) -> None:
    async with (
        mail_server() as mailbox,
        serving(database_dsn, **mail_settings(mailbox)) as api,
        running_node(database_dsn, **mail_settings(mailbox)),
    ):
        path = f"{SUBSCRIPTIONS}/mail"
        channel = {"type": "email", "address": "ops@example.com"}
        shown = await call(api, "PUT", path, 201, {"channel": channel})
        assert shown["channel"]["confirmed"] is False
        await call(api, "POST", f"{path}/test", 409)

        async def asked() -> bool:
            return len(mailbox.messages) == 1

        await eventually(asked)
        token = re.findall(r"notify confirm (\S+)", mailbox.texts[0])[0]
        await call(api, "POST", f"{SUBSCRIPTIONS}/confirm", 404, {"token": "wrong"})
        confirmed = await call(api, "POST", f"{SUBSCRIPTIONS}/confirm", 200, {"token": token})
        assert confirmed == {"name": "mail"}
        await call(api, "POST", f"{SUBSCRIPTIONS}/confirm", 404, {"token": token})
        sent = await call(api, "POST", f"{path}/test", 202)
        found = await ended(api, path, sent)
        assert found["status"] == "COMPLETED"
        assert mailbox.recipients == ["ops@example.com"] * 2
        message = mailbox.messages[1]
        assert message["subject"] == "[gnomon] Test of the subscription mail"
        assert message["message-id"] == f"<{sent['notification_id']}@gnomon>"
        # Another address has to agree by itself; the same one need not again.
        same = await call(api, "PUT", path, 200, {"channel": channel, "severity": "error"})
        assert same["channel"]["confirmed"] is True
        other = {"type": "email", "address": "else@example.com"}
        changed = await call(api, "PUT", path, 200, {"channel": other})
        assert changed["channel"]["confirmed"] is False
    tokens = await connection.fetch("SELECT token_hash FROM gnomon.subscription")
    assert token.encode() not in tokens[0]["token_hash"]


async def test_addresses_are_asked_a_few_times_an_hour(
    database_dsn: str, connection: Connection
) -> None:
    async with mail_server() as mailbox, serving(database_dsn, **mail_settings(mailbox)) as api:
        for number in range(10):
            channel = {"type": "email", "address": f"a{number}@example.com"}
            await call(api, "PUT", f"{SUBSCRIPTIONS}/mail", 201 if number == 0 else 200,
                       {"channel": channel})  # fmt: skip
        channel = {"type": "email", "address": "one-more@example.com"}
        problem = await call(api, "PUT", f"{SUBSCRIPTIONS}/mail", 429, {"channel": channel})
        assert "10 times within an hour" in problem["detail"]


async def test_a_storm_over_channels_that_fail_half_of_the_time(
    database_dsn: str, database: Database, receiver: Receiver
) -> None:
    """10 000 dead letters are one notification, its digests and the end, over both channels."""

    async def every_other(_request: web.Request, number: int) -> web.StreamResponse:
        return web.Response(status=503 if number % 2 else 200)

    receiver.answer = every_other
    async with mail_server() as mailbox:
        mailbox.refusals = 2
        await notifier_on(database).run_once()
        hook = await subscribe(database, WebhookChannel(receiver.url), name="hook")
        await subscribe(database, EmailChannel("ops@example.com"), name="mail")
        async with running_node(database_dsn, **mail_settings(mailbox)):
            event = None
            for count in range(500, 10_001, 500):
                event = await died(database, count, event)

            async def over() -> bool:
                done = {s["webhook-id"] for s in good(receiver)}
                told = [each for each in await made(database) if each.status == "resolved"]
                return len(told) == 2 and len(done) == len(hooks(await made(database), hook.id))

            await eventually(over, 90)

            async def all_written() -> bool:
                return "Resolved" in str([m["subject"] for m in mailbox.messages][-1:])

            await eventually(all_written, 60)
    notifications = await made(database)
    of_hook = hooks(notifications, hook.id)
    assert sum(group.count for each in of_hook for group in each.groups) == 10_000
    assert [each.sequence for each in of_hook] == [*range(1, len(of_hook) + 1)]
    # The webhook was called again after each failure, and each call that was answered told once.
    arrived = [headers["webhook-id"] for headers in good(receiver)]
    assert len(arrived) == len(set(arrived)) == len(of_hook)
    ids = [message["message-id"] for message in mailbox.messages]
    assert len(ids) == len(set(ids)) == len(notifications) - len(of_hook)


def hooks(notifications: Any, subscription_id: Any) -> Any:
    return [each for each in notifications if each.subscription_id == subscription_id]


def good(receiver: Receiver) -> list[Any]:
    """The headers of calls that were answered well: every other one."""
    return [each.headers for number, each in enumerate(receiver.calls, 1) if number % 2 == 0]


async def test_a_channel_that_fails_is_told_to_others_once(
    database_dsn: str, database: Database, connection: Connection, receiver: Receiver
) -> None:
    notifier = notifier_on(database)
    await notifier.run_once()
    await subscribe(database, WebhookChannel("http://127.0.0.1:1/"), name="broken")
    await subscribe(database, SlackChannel(receiver.url), name="working")
    await died(database, 1)
    await notifier.run_once()
    await connection.execute(  # as if it had been tried for an hour
        "UPDATE gnomon.task SET state = 4, last_error = 'no route'"
        " WHERE tenant_id = $1 AND name = 'broken'",
        NOTIFIER_TENANT,
    )
    await connection.execute("DELETE FROM gnomon.chore")  # the node need not wait for it
    async with running_node(database_dsn):

        async def told() -> bool:
            return any("notifications.failed" in str(each.body) for each in receiver.calls)

        await eventually(told)
    failed = await connection.fetch(
        "SELECT detail ->> 'error' AS error FROM gnomon.event WHERE kind = 'notifications.failed'"
    )
    assert [row["error"] for row in failed] == ["no route"]
    row = await connection.fetchrow(
        "SELECT failure, failing_since FROM gnomon.subscription WHERE name = 'broken'"
    )
    assert row is not None
    assert row["failure"] == "no route"
    about = [each for each in await made(database) if each.subscription == "broken"]
    told_of = {group.kind for each in about for group in each.groups}
    assert told_of == {"tasks.dead_lettered"}  # its own failure was not told to it
    left = await connection.fetchval(
        "SELECT count(*) FROM gnomon.task WHERE tenant_id = $1 AND state = 4", NOTIFIER_TENANT
    )
    assert left == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Apprise imports
async def test_operators_are_told_by_services_of_apprise(
    api: aiohttp.ClientSession, database_dsn: str, connection: Connection, receiver: Receiver
) -> None:
    path = "/api/v1/installation/subscriptions/chat"
    address = urlsplit(receiver.url).netloc
    channel = {"type": "apprise", "url": f"json://{address}/s3cr3t"}
    shown = await call(api, "PUT", path, 201, {"channel": channel})
    assert shown["channel"]["to"] == "json://***"
    async with running_node(database_dsn):
        sent = await call(api, "POST", f"{path}/test", 202)
        found = await ended(api, path, sent)
    assert found["status"] == "COMPLETED"
    assert "Test of the subscription chat" in str(receiver.calls[0].body)
    tasks = await connection.fetch("SELECT task_archive::text AS row FROM gnomon.task_archive")
    assert not any("s3cr3t" in each["row"] for each in tasks)


async def test_the_rules_of_the_subscriber_hold(
    database_dsn: str, database: Database, connection: Connection, receiver: Receiver
) -> None:
    """Its networks, its hosts, and its secrets; not those of anybody else."""
    await make_tenant(database, "open")
    await make_tenant(database, "held")
    await make_tenant(database, "shut")
    await connection.execute(
        "UPDATE gnomon.tenant SET targets_allow = '{127.0.0.0/8}' WHERE id IN ('open', 'held')"
    )
    await connection.execute("UPDATE gnomon.tenant SET hosts = '{other}' WHERE id = 'held'")
    await connection.execute("UPDATE gnomon.revision SET authentication = true")
    notifier = notifier_on(database)
    await notifier.run_once()
    for tenant in ("open", "held", "shut"):
        await subscribe(database, WebhookChannel(receiver.url), tenant=tenant)
        await died(database, 1, tenant=tenant)
    await notifier.run_once()
    async with running_node(database_dsn):

        async def failed() -> bool:
            rows = await connection.fetch(
                "SELECT tenant_id, failure FROM gnomon.subscription WHERE failure IS NOT NULL"
            )
            return {row["tenant_id"] for row in rows} == {"held", "shut"}

        await eventually(failed)

        async def called() -> bool:
            return len(receiver.calls) == 1

        await eventually(called)
    assert receiver.calls[0].headers["gnomon-tenant"] == "open"
    secret = await connection.fetchval(
        "SELECT secret FROM gnomon.webhook_secret WHERE tenant_id = 'open'"
    )
    Webhook(secret).verify(receiver.calls[0].body, dict(receiver.calls[0].headers))


async def test_the_limits_of_the_subscriber_hold(
    database_dsn: str, database: Database, connection: Connection, receiver: Receiver
) -> None:
    await connection.execute(
        "INSERT INTO gnomon.limiter (tenant_id, name, task_type, concurrency)"
        " VALUES ('default', 'quiet', 'gnomon.notification', 0)"
    )
    notifier = notifier_on(database)
    await notifier.run_once()
    await subscribe(database, WebhookChannel(receiver.url))
    await died(database, 1)
    await notifier.run_once()
    async with running_node(database_dsn):

        async def waits() -> bool:
            bucket = "SELECT EXISTS (SELECT FROM gnomon.limit_bucket WHERE limiter = 'quiet')"
            return bool(await connection.fetchval(bucket))

        await eventually(waits)
        assert receiver.calls == []
        await connection.execute("DELETE FROM gnomon.limiter WHERE name = 'quiet'")

        async def called() -> bool:
            return len(receiver.calls) == 1

        await eventually(called)


async def test_nobody_can_be_the_notifier(
    database_dsn: str, api: aiohttp.ClientSession, database: Database, connection: Connection,
    receiver: Receiver,
) -> None:  # fmt: skip
    target = {"type": "notification", "on_behalf_of": "default", "host": "a", "subscription_id":
              "019a5f3e-0000-7000-8000-000000000000"}  # fmt: skip
    body = {"task_type": "x", "target": target}
    problem = await call(api, "POST", "/api/v1/tasks", 422, body)
    assert "/target" in str(problem)
    with pytest.raises(ValueError, match="tenant"):
        async with database.scoped(NOTIFIER_TENANT):
            pass
    with pytest.raises(Exception, match="id_is_a_name"):
        await make_tenant(database, NOTIFIER_TENANT)
    # Plain SQL may write any row; nodes call such a target for the notifier alone.
    subscription = await subscribe(database, WebhookChannel(receiver.url))
    task_id = new_id(SystemClock().now())
    target["subscription_id"] = str(subscription.id)
    await connection.execute(
        "INSERT INTO gnomon.task (tenant_id, id, task_type, target, payload, retries_left)"
        " VALUES ('default', $1, 'x', $2, '{}', 0)",
        task_id,
        msgspec.json.encode(target).decode(),
    )
    async with running_node(database_dsn):

        async def dead() -> bool:
            found = await call(api, "GET", f"/api/v1/tasks/{task_id}", 200)
            return bool(found["status"] == "DEAD_LETTERED")

        await eventually(dead)
    assert receiver.calls == []
    listed = await call(api, "GET", "/api/v1/tasks", 200)
    assert [each["task_id"] for each in listed["tasks"]] == [str(task_id)]


async def test_a_heartbeat_is_called_while_all_is_well(
    database_dsn: str, connection: Connection, receiver: Receiver
) -> None:
    async with running_node(
        database_dsn, notify_heartbeat_url=receiver.url, notify_heartbeat_seconds=5.0
    ):

        async def beats() -> bool:
            return len(receiver.calls) >= 1

        await eventually(beats)
    assert msgspec.json.decode(receiver.calls[0].body)["data"]["status"] == "heartbeat"
    async with opened(database_dsn) as database:
        store = PostgresNotifier(database)
        assert not await store.is_well(120)  # no node lives
        await connection.execute(
            "UPDATE gnomon.node SET dead = false, alive_until = gnomon.now() + interval '1 hour'"
        )
        assert await store.is_well(120)
        await connection.execute(
            "INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until,"
            " dead, ended_at) VALUES (gen_random_uuid(), 'lost', '1', 1, gnomon.now(),"
            " gnomon.now() - interval '10 s', true, gnomon.now())"
        )
        assert not await store.is_well(120)


BAD: list[tuple[Any, str]] = [
    ({}, "/channel"),
    ({"channel": {"type": "pigeon"}}, "/channel"),
    ({"channel": {"type": "webhook", "url": "ftp://a/"}}, "/channel/url"),
    ({"channel": {"type": "webhook", "url": "http://u:p@a/"}}, "/channel/url"),
    ({"channel": {"type": "webhook", "url": "http://a/\r\nx"}}, "/channel/url"),
    ({"channel": {"type": "webhook", "url": "http://a/" + "x" * 3000}}, "/channel/url"),
    ({"channel": {"type": "webhook", "url": "http://a/", "headers": {"a\nb": "c"}}},
     "/channel/headers"),
    ({"channel": {"type": "webhook", "url": "http://a/", "headers": {"a": "b\r\nc: d"}}},
     "/channel/headers"),
    ({"channel": {"type": "slack", "url": "nonsense"}}, "/channel/url"),
    ({"channel": {"type": "email", "address": "a@example.com"}}, "/channel/type"),
    ({"channel": {"type": "apprise", "url": "json://x"}}, "/channel/type"),
    ({"kinds": []}, "/kinds"),
    ({"kinds": ["Tasks.*"]}, "/kinds/0"),
    ({"kinds": ["tasks.*.x"]}, "/kinds/0"),
    ({"kinds": ["x"] * 51}, "/kinds"),
    ({"severity": "dreadful"}, "/severity"),
    ({"task_types": ["a\nb"]}, "/task_types/0"),
    ({"task_types": ["x" * 201]}, "/task_types/0"),
    ({"digest_seconds": 1}, "/digest_seconds"),
    ({"digest_seconds": 1e9}, "/digest_seconds"),
    ({"all_tenants": True}, "/all_tenants"),
    ({"quiet_hours": {"start": "22:00", "end": "07:00", "timezone": "Berlin"}},
     "/quiet_hours/timezone"),
    ({"quiet_hours": {"start": "22", "end": "07:00"}}, "/quiet_hours/start"),
    ({"quiet_hours": {"start": "07:00", "end": "07:00"}}, "/quiet_hours/end"),
    ({"unknown": 1}, "/unknown"),
]  # fmt: skip


async def test_bad_input(api: aiohttp.ClientSession) -> None:
    good_channel = {"type": "webhook", "url": "http://127.0.0.1:9/"}
    for given, place in BAD:
        body = given if "channel" in given or not given else {"channel": good_channel, **given}
        problem = await call(api, "PUT", f"{SUBSCRIPTIONS}/x", 422, body)
        assert place in str(problem), (given, problem)
    long_name = "x" * 101
    for name in ("a%0D%0ABcc:b", "%20", long_name):
        path = f"{SUBSCRIPTIONS}/{name}"
        problem = await call(api, "PUT", path, 422, {"channel": good_channel})
        assert "/name" in str(problem)
    for number in range(50):
        await call(api, "PUT", f"{SUBSCRIPTIONS}/n{number}", 201, {"channel": good_channel})
    await call(api, "PUT", f"{SUBSCRIPTIONS}/n50", 409, {"channel": good_channel})
    await call(api, "PUT", f"{SUBSCRIPTIONS}/n1", 200, {"severity": "error"})
    await call(api, "POST", f"{SUBSCRIPTIONS}/n1/mute", 422, {})
    muted = await call(api, "POST", f"{SUBSCRIPTIONS}/n1/mute", 200, {"seconds": 60})
    assert muted["muted_until"] is not None
    unmuted = await call(api, "POST", f"{SUBSCRIPTIONS}/n1/unmute", 200)
    assert unmuted["muted_until"] is None
    await call(api, "DELETE", f"{SUBSCRIPTIONS}/n1", 204)
    await call(api, "GET", f"{SUBSCRIPTIONS}/n1", 404)


async def test_tenants_and_roles_are_kept_apart(
    database_dsn: str, database: Database, receiver: Receiver
) -> None:
    await make_tenant(database, "acme")
    _, own = await make_key(database, "default")
    _, other = await make_key(database, "acme")
    _, reads = await make_key(database, "default", name="reads", roles=[Role.READ])
    _, part = await make_key(database, "default", name="part", task_types=["a"])
    _, operator = await make_operator(database)
    public = {"channel": {"type": "webhook", "url": "https://example.com/hook?key=s3cr3t"}}
    private = {"channel": {"type": "webhook", "url": receiver.url}}
    path = f"{SUBSCRIPTIONS}/ops"
    installation = "/api/v1/installation/subscriptions/ops"
    async with serving(database_dsn, auth_enabled=True) as api:
        shown = await call(api, "PUT", path, 201, public, headers=bearer(own))
        assert "s3cr3t" not in str(shown)
        problem = await call(api, "PUT", path, 422, private, headers=bearer(own))
        assert urlsplit(receiver.url).hostname in problem["detail"]
        await call(api, "GET", path, 404, headers=bearer(other))
        await call(api, "DELETE", path, 404, headers=bearer(other))
        await call(api, "GET", path, 200, headers=bearer(reads))
        await call(api, "DELETE", path, 403, headers=bearer(reads))
        await call(api, "DELETE", path, 403, headers=bearer(part))
        await call(api, "GET", installation, 403, headers=bearer(own))
        everything = public | {"all_tenants": True}
        await call(api, "PUT", installation, 201, everything, headers=bearer(operator))
        await call(api, "GET", path, 403, headers=bearer(operator))
        mine = await call(api, "GET", SUBSCRIPTIONS, 200, headers=bearer(own))
        assert len(mine["subscriptions"]) == 1
        await call(api, "POST", f"{SUBSCRIPTIONS}/confirm", 404, {"token": "x"})
        await call(api, "DELETE", path, 204, headers=bearer(own))
        theirs = await call(
            api, "GET", "/api/v1/installation/subscriptions", 200, headers=bearer(operator)
        )
        assert [each["name"] for each in theirs["subscriptions"]] == ["ops"]
        sent = await call(api, "POST", f"{installation}/test", 202, headers=bearer(operator))
        everything_sent = "/api/v1/installation/notifications"
        logged = await call(api, "GET", everything_sent, 200, headers=bearer(operator))
        assert [each["notification_id"] for each in logged["notifications"]] == [
            sent["notification_id"]
        ]
        await call(api, "GET", everything_sent, 403, headers=bearer(own))
