"""`/events` and `/metrics` over real sockets."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.integration.api_calls import Api, call
from tests.integration.support import Connection, database_now, joined

from gnomon.clock import new_id
from gnomon.model.insight.event_kinds import fingerprint
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresRoster

EVENTS = "/api/v1/events"
KIND = "cron.sla_missed"


async def entered(
    connection: Connection,
    count: int,
    *,
    kind: str = KIND,
    cron_job_id: UUID | None = None,
    tenant_id: str = "default",
) -> list[str]:
    """Events, each a second younger than the one before; gives their ids, newest first."""
    now = await database_now(connection)
    moments = [now + timedelta(seconds=n - count) for n in range(count)]
    ids = [new_id(at) for at in moments]
    await connection.executemany(
        "INSERT INTO gnomon.event VALUES ($1, $2, $3, $4, $5, NULL, $6)",
        [
            (tenant_id, each, kind, at, cron_job_id, '{"missed": 3}')
            for each, at in zip(ids, moments, strict=True)
        ],
    )
    return [str(each) for each in reversed(ids)]


async def test_an_event_is_shown_as_it_was_entered(api: Api, connection: Connection) -> None:
    assert await call(api, "GET", EVENTS, 200) == {
        "events": [],
        "next_cursor": None,
        "reached": None,
    }
    job_id = new_id(await database_now(connection))
    (event_id,) = await entered(connection, 1, cron_job_id=job_id)
    (event,) = (await call(api, "GET", EVENTS, 200))["events"]
    assert event.pop("at").endswith("Z")
    assert event == {
        "event_id": event_id,
        "number": None,
        "kind": KIND,
        "fingerprint": fingerprint(KIND, "default", {}),
        "cron_job_id": str(job_id),
        "task_id": None,
        "detail": {"missed": 3},
        "severity": "warning",
        "acknowledged_at": None,
        "acknowledged_by": None,
        "note": None,
    }


async def test_pages_go_from_the_newest_to_the_oldest(api: Api, connection: Connection) -> None:
    await entered(connection, 2, tenant_id="stranger")
    wanted = await entered(connection, 5)
    found, query = [], {"limit": "2"}
    pages = 0
    while True:
        page = await call(api, "GET", EVENTS, 200, params=query)
        found += [event["event_id"] for event in page["events"]]
        pages += 1
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert (found, pages) == (wanted, 3)


async def test_events_are_chosen_by_kind_and_job(api: Api, connection: Connection) -> None:
    job_id = new_id(await database_now(connection))
    mine = await entered(connection, 2, cron_job_id=job_id)
    others = await entered(connection, 1)
    await entered(connection, 1, kind="other")

    async def ids(**query: str) -> list[str]:
        page = await call(api, "GET", EVENTS, 200, params=query)
        return [event["event_id"] for event in page["events"]]

    assert await ids(cron_job_id=str(job_id)) == mine
    assert set(await ids(kind=KIND)) == {*mine, *others}
    assert await ids(kind="nothing") == []
    assert await ids(kind="other", cron_job_id=str(job_id)) == []


async def test_a_page_does_bounded_work(api: Api, connection: Connection) -> None:
    (rare,) = await entered(connection, 1, kind="rare")
    await entered(connection, 10_000)
    # All of them were made later than the rare one, whatever the second.
    await connection.execute(
        "UPDATE gnomon.event SET id = $1 WHERE kind = 'rare'", oldest := UUID(int=7 << 76)
    )
    page = await call(api, "GET", EVENTS, 200, params={"kind": "rare"})
    assert page["events"] == []
    query = {"kind": "rare", "cursor": page["next_cursor"]}
    page = await call(api, "GET", EVENTS, 200, params=query)
    assert [event["event_id"] for event in page["events"]] == [str(oldest)]
    assert page["next_cursor"] is None
    assert rare != str(oldest)


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"limit": "0"}, "/limit"),
        ({"limit": "501"}, "/limit"),
        ({"cursor": "x"}, "/cursor"),
        ({"cron_job_id": "x"}, "/cron_job_id"),
        ({"kinds": KIND}, "/kinds"),
    ],
)
async def test_a_wrong_parameter_is_named(
    shared_api: Api, query: dict[str, str], pointer: str
) -> None:
    problem = await call(shared_api, "GET", EVENTS, 422, params=query)
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


async def metrics(api: aiohttp.ClientSession) -> dict[tuple[str, Any], float]:
    async with api.get("/metrics") as answer:
        assert (answer.status, answer.content_type) == (200, "text/plain")
        families = text_string_to_metric_families(await answer.text())
        return {
            (sample.name, tuple(sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }


async def test_metrics_tell_of_the_process_and_the_roster(api: Api, database: Database) -> None:
    await joined(database)
    silent = await joined(database)
    await PostgresRoster(database).renew(silent, -1.0)
    found = await metrics(api)
    assert found["process_resident_memory_bytes", ()] > 0
    assert found["gnomon_nodes", ("alive",)] == 1
    assert found["gnomon_nodes", ("silent",)] == 1


async def test_events_are_read_on_from_a_number(api: Api, connection: Connection) -> None:
    oldest = list(reversed(await entered(connection, 3)))
    first = await call(api, "GET", EVENTS, 200, params={"after": "0", "limit": "2"})
    assert [event["event_id"] for event in first["events"]] == oldest[:2]
    assert first["next_cursor"] is None
    rest = await call(api, "GET", EVENTS, 200, params={"after": str(first["reached"])})
    assert [event["event_id"] for event in rest["events"]] == oldest[2:]
    gone = await call(api, "GET", EVENTS, 410, params={"after": "99"})
    assert gone["detail"].endswith("begin with a number from 0 to 3, or without one")


async def test_events_are_chosen_by_severity_and_type(api: Api, connection: Connection) -> None:
    await entered(connection, 1, kind="usage.recorded")
    (dead,) = await entered(connection, 1, kind="tasks.dead_lettered")
    await connection.execute(
        'UPDATE gnomon.event SET detail = \'{"task_type": "mail"}\' WHERE id = $1', UUID(dead)
    )
    (unknown,) = await entered(connection, 1, kind="of.a.newer.version")
    for asked, expected in (
        ({"severity": "error"}, [dead]),
        ({"severity": "warning"}, [unknown]),
        ({"task_type": "mail"}, [dead]),
        ({"task_type": "mail", "severity": "info"}, []),
    ):
        for order in ({}, {"after": "0"}):
            page = await call(api, "GET", EVENTS, 200, params=asked | order)
            assert [event["event_id"] for event in page["events"]] == expected
