"""`/transitions/stream`: cut off and taken up again, it leaves nothing out and tells nothing
twice."""

import asyncio
from contextlib import aclosing
from datetime import timedelta
from itertools import pairwise

import pytest
from tests.conftest import connected, serving
from tests.integration.api_calls import LATER, TASKS, Api, call
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.support import Connection, database_now
from tests.integration.test_api_transitions import log_type, logged
from tests.integration.test_event_stream import url_of
from tests.waiting import eventually

from gnomon.access.principal import Role
from gnomon.client.client import Client
from gnomon.client.errors import ApiProblem
from gnomon.client.types.tasks import FollowedTransition
from gnomon.model.fleet.retention import RowKind
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.usecases.live import transition_feed

STREAM = "/api/v1/transitions/stream"
STORE = """
INSERT INTO gnomon.task (tenant_id, id, task_type, target, due_at, log_transitions)
SELECT 'default', overlay(gen_random_uuid()::text placing '7' from 15)::uuid, 'mail',
    '{"type": "python", "function": "f"}', gnomon.now(), true
RETURNING id
"""


async def told(client: Client, count: int, **asked: str) -> list[FollowedTransition]:
    """The next transitions."""
    found: list[FollowedTransition] = []
    async with asyncio.timeout(60), aclosing(client.follow_transitions(**asked)) as events:
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


async def test_transitions_are_told_as_they_happen(api: Api) -> None:
    await log_type(api)
    before = await logged(api)
    async with asyncio.timeout(60), api.get(STREAM) as answer:
        assert answer.content_type == "text/event-stream"
        assert (await answer.content.readuntil(b"\n\n")).startswith(b":\nid: ")
        await call(api, "POST", TASKS, 202, LATER | {"task_type": "not.logged"})
        await call(api, "POST", f"{TASKS}/{before}/pause", 200)
        first = await answer.content.readuntil(b"\n\n")
    assert before.encode() in first
    assert b'"from_state":"WAITING","to_state":"PAUSED"' in first
    async with Client(url_of(api)) as client:
        stored, paused = await told(client, 2, after="0")
    assert (stored.data.from_state, stored.data.to_state) == (None, "WAITING")
    assert paused.id == f"{before}.2"
    assert paused.subject == str(paused.data.task_id) == before
    assert (paused.type, paused.source) == ("gnomon.task.transition", "/tenants/default")


async def test_a_type_and_a_task_are_chosen(api: Api) -> None:
    await log_type(api)
    await log_type(api, "other")
    await logged(api)
    chosen = await logged(api, LATER | {"task_type": "other"})
    async with Client(url_of(api)) as client:
        for asked in ({"task_type": "other"}, {"task_id": chosen}):
            (only,) = await told(client, 1, after="0", **asked)
            assert str(only.data.task_id) == chosen


async def test_a_late_commit_is_neither_missed_nor_overtaken(
    api: Api, connection: Connection, superuser: Connection
) -> None:
    """What is appended meanwhile waits for the transaction that began before it."""
    async with (
        Client(url_of(api)) as client,
        aclosing(client.follow_transitions(after="0")) as all_,
    ):
        following = asyncio.ensure_future(anext(all_))
        async with superuser.transaction():
            late = await superuser.fetchval(STORE)
            early = await connection.fetchval(STORE)
            await asyncio.wait([following], timeout=2 * transition_feed.PAUSE_SECONDS)
            assert not following.done()
        async with asyncio.timeout(60):
            first, second = await following, await anext(all_)
    assert [first.data.task_id, second.data.task_id] == [late, early]


async def test_a_stream_that_is_cut_misses_and_doubles_nothing(
    database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three writers with transactions of several tasks, the API restarted, pages of three."""
    monkeypatch.setattr(transition_feed, "AT_ONCE", 3)
    found: list[FollowedTransition] = []
    stored: list[str] = []

    async def follow(url: str) -> None:
        async with Client(url) as client, aclosing(client.follow_transitions(after="0")) as events:
            async for event in events:
                found.append(event)  # noqa: PERF401 - looked at meanwhile

    async def write() -> None:
        writer = await connected(database_dsn)
        for _ in range(8):
            async with writer.transaction():
                stored.extend([str(await writer.fetchval(STORE)) for _ in range(3)])
        await writer.close()

    async def all_told() -> bool:
        return sorted(each.subject for each in found) == sorted(stored)

    async with serving(database_dsn) as api:
        port = api._base_url.port  # type: ignore[union-attr]
        following = asyncio.ensure_future(follow(url_of(api)))
        await asyncio.gather(*(write() for _ in range(3)))
        await eventually(all_told)
        await write()
    await write()
    async with serving(database_dsn, api_port=port):
        await write()
        await eventually(all_told)
        following.cancel()
    assert len({each.id for each in found}) == len(found)
    async with serving(database_dsn) as api, Client(url_of(api)) as client:
        again = await told(client, len(stored), after="0")
        assert [each.id for each in again] == [each.id for each in found], "always in one order"


async def test_every_id_is_a_place_to_go_on_from(api: Api) -> None:
    await log_type(api)
    for _ in range(4):
        await logged(api)
    async with asyncio.timeout(60), api.get(STREAM, params={"after": "0"}) as answer:
        await answer.content.readuntil(b"\n\n")
        parts = [await answer.content.readuntil(b"\n\n") for _ in range(4)]
    for one, following in pairwise(parts):
        last = one.split(b"\n")[0].removeprefix(b"id: ").decode()
        async with api.get(STREAM, headers={"Last-Event-ID": last}) as answer:
            await answer.content.readuntil(b"\n\n")
            assert await answer.content.readuntil(b"\n\n") == following


async def test_what_is_past_retention_is_gone(
    api: Api, database: Database, connection: Connection
) -> None:
    await log_type(api)
    await logged(api)
    async with Client(url_of(api)) as client:
        (first,) = await told(client, 1, after="0")
        await connection.execute("UPDATE gnomon.transition SET at = at - interval '40 days'")
        kept = await logged(api)
        await PostgresChores(database).remove(RowKind.TRANSITIONS, 100, 30.0)
        place = await connection.fetchrow("SELECT forgotten FROM gnomon.transition_order")
        assert place is not None
        for after in (f"{place['forgotten']}.1", f"{2**60}.1"):
            problem = await call(api, "GET", STREAM, 410, headers={"Last-Event-ID": after})
            assert problem["type"].endswith("gone")
        with pytest.raises(ApiProblem) as caught:
            await told(client, 1, after="1.1")
        assert caught.value.status == 410
        (left,) = await told(client, 1, after="0")
    assert (first.subject, left.subject) != (kept, first.subject)
    assert left.subject == kept
    assert left.time > await database_now(connection) - timedelta(minutes=5)
    for wrong in ("x", "1.2.3", "-1", f"{2**63}"):
        await call(api, "GET", STREAM, 422, headers={"Last-Event-ID": wrong})
        await call(api, "GET", STREAM, 422, params={"after": wrong})


async def test_nobody_follows_another_tenant(database: Database, database_dsn: str) -> None:
    for tenant in ("mine", "theirs"):
        await make_tenant(database, tenant)
    _, mine = await make_key(database, "mine", roles={Role.ADMIN})
    _, theirs = await make_key(database, "theirs", roles={Role.ADMIN})
    async with serving(database_dsn, auth_enabled=True) as api:
        submitted = {}
        for key in (theirs, mine):
            await log_type(api, headers=bearer(key))
            task = await call(api, "POST", TASKS, 202, {"task_type": "mail"}, headers=bearer(key))
            submitted[key] = task["task_id"]
        async with Client(url_of(api), key=mine) as client:
            (only,) = await told(client, 1, after="0")
    assert only.subject == submitted[mine]
