"""Events that somebody takes note of: who, when, a note; what is open, and who may say so."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from tests.integration.api_calls import call
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.support import Connection, database_now
from tests.integration.test_dashboard import guarded, posted, shown, signed_in

from gnomon.access.principal import Role
from gnomon.clock import SystemClock, new_id, new_incarnation
from gnomon.model.insight.event_kinds import (
    BREAKER_CLOSED,
    BREAKER_OPENED,
    DEAD_LETTERED,
    SLA_MISSED,
)
from gnomon.node.maintenance.dead_letter_alarm import WINDOW, DeadLetterAlarm
from gnomon.node.membership.lease import Lease
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events import dead_letter_counts
from gnomon.store.postgres.events.dead_letter_counts import PostgresDeadLetterCounts
from gnomon.store.postgres.events.event_writer import PostgresEventWriter

Api = aiohttp.ClientSession

__all__ = ["guarded"]  # a fixture

EVENTS = "/api/v1/events"
KINDS = (SLA_MISSED, BREAKER_OPENED, BREAKER_CLOSED, DEAD_LETTERED)


async def entered(connection: Connection, *kinds: str, tenant: str = "default") -> list[str]:
    """Events of these kinds, in this order."""
    ids = sorted(new_id(datetime.now(UTC)) for _ in kinds)
    for event_id, kind in zip(ids, kinds, strict=True):
        await connection.execute(
            "INSERT INTO gnomon.event (tenant_id, id, kind, at, detail)"
            " VALUES ($1, $2, $3, gnomon.now(), $4)",
            tenant, event_id, kind, '{"host": "<b>x</b>", "count": 3, "task_type": "a b"}',
        )  # fmt: skip
    return [str(each) for each in ids]


async def listed(api: Api, **query: str) -> list[Any]:
    path = EVENTS + ("?" + "&".join(f"{n}={v}" for n, v in query.items()) if query else "")
    found: list[Any] = (await call(api, "GET", path, 200))["events"]
    return found


async def test_an_event_is_acknowledged_once(api: Api, connection: Connection) -> None:
    first, second = await entered(connection, SLA_MISSED, BREAKER_CLOSED)
    assert [event["severity"] for event in await listed(api)] == ["info", "warning"]
    path = f"{EVENTS}/{first}/acknowledge"
    done = await call(api, "POST", path, 200, {"note": "the bank was down"})
    assert (done["event_id"], done["note"]) == (first, "the bank was down")
    assert done["acknowledged_at"] is not None
    assert await call(api, "POST", path, 200, {"note": "me too"}) == done
    assert [event["event_id"] for event in await listed(api, acknowledged="false")] == [second]
    assert [event["event_id"] for event in await listed(api, acknowledged="true")] == [first]
    await call(api, "POST", f"{EVENTS}/{second}/acknowledge", 200)
    assert await listed(api, acknowledged="false") == []


async def test_several_are_acknowledged_at_once(api: Api, connection: Connection) -> None:
    ids = await entered(connection, *KINDS)
    missing = str(new_id(datetime.now(UTC)))
    body = {"event_ids": [*ids[:3], missing]}
    done = await call(api, "POST", f"{EVENTS}/acknowledge", 200, body)
    assert sorted(done["event_ids"]) == ids[:3]
    assert [event["event_id"] for event in await listed(api, acknowledged="false")] == [ids[3]]


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/019a0000-0000-7000-8000-000000000000/acknowledge", 404, {}),
        ("/x/acknowledge", 404, {}),
        ("/acknowledge", 422, {}),
        ("/acknowledge", 422, {"event_ids": ["x"]}),
        ("/acknowledge", 422, {"event_ids": [], "note": "a\u0000"}),
        ("/acknowledge", 422, {"event_ids": ["019a0000-0000-7000-8000-000000000000"] * 501}),
    ],
)
async def test_what_cannot_be_acknowledged(
    shared_api: Api, path: str, status: int, body: Any
) -> None:
    await call(shared_api, "POST", EVENTS + path, status, body)


async def test_another_tenant_s_event_looks_unknown(
    guarded: Api, database: Database, connection: Connection
) -> None:
    await make_tenant(database, "other")
    _, mine = await make_key(database)
    _, limited = await make_key(database, name="limited", task_types=["a"])
    (event_id,) = await entered(connection, SLA_MISSED, tenant="other")
    path = f"{EVENTS}/{event_id}/acknowledge"
    await call(guarded, "POST", path, 404, headers=bearer(mine))
    body = {"event_ids": [event_id]}
    done = await call(guarded, "POST", f"{EVENTS}/acknowledge", 200, body, headers=bearer(mine))
    assert done == {"event_ids": []}
    assert await connection.fetchval("SELECT acknowledged_at FROM gnomon.event") is None
    await call(guarded, "POST", path, 403, headers=bearer(limited))


async def test_the_page_acknowledges_exactly_what_it_shows(
    api: Api, connection: Connection
) -> None:
    ids = await entered(connection, *KINDS)
    text = await shown(api, "/events")
    assert "&lt;b&gt;x&lt;/b&gt;" in text
    assert 'href="/dead-letters?q=type%3A%22a%20b%22"' in text
    assert badge(text) == "3"  # good news needs nobody
    form = re.search(r'name="ids" value="([^"]+)"', text)
    assert form is not None
    assert sorted(form[1].split()) == ids
    (later,) = await entered(connection, SLA_MISSED)
    done = await posted(api, f"/events/{ids[0]}/acknowledge", {"note": "known", "kind": SLA_MISSED})
    assert done.headers["location"] == f"/events?kind={SLA_MISSED}&done=acknowledge"
    done = await posted(api, "/events/acknowledge", {"ids": form[1], "state": "open"})
    assert done.headers["location"] == "/events?state=open&done=acknowledge_all"
    assert [event["event_id"] for event in await listed(api, acknowledged="false")] == [later]
    text = await shown(api, "/events?state=acknowledged")
    assert "known" in text
    assert badge(text) == "1"
    assert "Nothing waits" not in await shown(api, "/events")
    await shown(api, "/events?state=x", 422)
    assert (await posted(api, "/events/acknowledge", {"ids": "x"})).status == 422


def badge(text: str) -> str | None:
    found = re.search(r'id="open-events"( hidden)?><span>([^<]+)<', text)
    assert found is not None
    return None if found[1] else found[2]


async def test_who_only_reads_sees_no_form(
    guarded: Api, database: Database, connection: Connection
) -> None:
    _, reads = await make_key(database, name="reader", roles=[Role.READ])
    (event_id,) = await entered(connection, SLA_MISSED)
    async with signed_in(guarded, reads) as browser:
        text = await shown(browser, "/events")
        assert event_id in text
        assert "Acknowledge" not in text
        for path in ("/events/acknowledge", f"/events/{event_id}/acknowledge"):
            assert (await posted(browser, path, {"ids": event_id})).status == 403


# Dead letters


def alarm(database: Database) -> DeadLetterAlarm:
    clock = SystemClock()
    lease = Lease(new_incarnation(), 10.0)
    return DeadLetterAlarm(
        PostgresDeadLetterCounts(database),
        PostgresEventWriter(database),
        PostgresChores(database, clock),
        lease,
        clock,
    )


async def added(connection: Connection, task_type: str, dead: int, at: datetime) -> None:
    await connection.execute(
        """
        INSERT INTO gnomon.activity AS a
        VALUES ('default', 1, $1, $3, 2, 0, 0, 0, 0, $2, 0, array_fill(0, ARRAY[17]))
        ON CONFLICT (tenant_id, span, task_type, starts_at, lane)
        DO UPDATE SET dead = a.dead + excluded.dead
        """,
        task_type, dead, at.replace(second=0, microsecond=0),
    )  # fmt: skip


async def test_dead_letters_are_told_together(
    api: Api, database: Database, connection: Connection
) -> None:
    dog, now = alarm(database), await database_now(connection)
    assert await dog.run_once() == 0
    for task_type, dead in (("", 12), ("mail", 9), ("bill", 1)):
        await added(connection, task_type, dead, now)
    await dog.run_once()
    told = {event["detail"]["task_type"]: event["detail"]["count"] for event in await listed(api)}
    assert told == {"mail": 9, "bill": 1, None: 2}
    await added(connection, "mail", 5, now)
    await added(connection, "", 5, now)
    await alarm(database).run_once()  # another node, whose turn it is not
    await dog.run_once()
    events = await listed(api, kind=DEAD_LETTERED)
    assert {e["detail"]["task_type"]: e["detail"]["count"] for e in events} == {
        "mail": 14, "bill": 1, None: 2,
    }  # fmt: skip
    assert {event["severity"] for event in events} == {"error"}
    assert "14 tasks of the type mail failed for good." in await shown(api, "/events")


async def test_dead_letters_of_another_time_are_told_anew(
    database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    await added(connection, "", 3, now - WINDOW - timedelta(minutes=2))
    assert await alarm(database).run_once() == 0, "that time is over"


async def test_dead_letters_of_more_types_than_are_told_are_told_together(
    api: Api, database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_counts, "MOST_COUNTED", 3)
    now = await database_now(connection)
    for task_type, dead in (("", 16), ("a", 1), ("b", 5), ("c", 2), ("d", 8)):
        await added(connection, task_type, dead, now)
    await alarm(database).run_once()
    told = {event["detail"]["task_type"]: event["detail"]["count"] for event in await listed(api)}
    assert told == {"d": 8, "b": 5, None: 3}
