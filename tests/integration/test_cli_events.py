"""`gnomon events` and `gnomon breakers` against the real API."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from tests.commands import api_running, gnomon_here

from gnomon.clock import new_id

NOW = datetime(2030, 1, 31, 9, tzinfo=UTC)
DETAIL = (
    '{"cron_job": "nightly", "fire_at": "2030-01-31T08:00:00Z", "started_at": null, "missed": 3}'
)


async def _enter(dsn: str, tenant_id: str = "default") -> None:
    connection = await asyncpg.connect(dsn)
    for age, kind in enumerate(("cron.sla_missed", "other", "cron.sla_missed")):
        at = NOW - timedelta(minutes=age)
        await connection.execute(
            "INSERT INTO gnomon.event VALUES ($5, $1, $2, $3, NULL, NULL, $4)",
            new_id(at),
            kind,
            at,
            DETAIL,
            tenant_id,
        )
    await connection.close()


@pytest.fixture
def dsn(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    with api_running(database_dsn, unused_tcp_port, tmp_path):
        yield database_dsn


def test_events_are_listed_newest_first(dsn: str) -> None:
    none = gnomon_here("events")
    assert (none.code, none.out, none.err) == (0, "", "nothing found\n")
    assert gnomon_here("events", "--json").json == {"events": []}
    asyncio.run(_enter(dsn))
    _, *rows = gnomon_here("events", "--kind", "cron.sla_missed").out.splitlines()
    assert [row.split()[1:3] for row in rows] == [
        ["2030-01-31", "09:00:00Z"],
        ["2030-01-31", "08:58:00Z"],
    ]
    assert all("nightly" in row for row in rows)
    assert rows[0].endswith("fire_at=2030-01-31T08:00:00Z missed=3")
    events = gnomon_here("events", "--limit", "2", "--json").json["events"]
    assert [event["kind"] for event in events] == ["cron.sla_missed", "other"]
    assert events[0]["detail"]["missed"] == 3
    assert len(gnomon_here("events", "--all", "--json").json["events"]) == 3


def test_an_event_is_acknowledged_by_the_beginning_of_its_id(dsn: str) -> None:
    asyncio.run(_enter(dsn))
    first, second, _ = gnomon_here("events", "--json").json["events"]
    done = gnomon_here("acknowledge", first["event_id"][:14], "--note", "the bank was down")
    assert (done.code, done.out) == (0, "acknowledged 1 event\n"), done.err
    found = gnomon_here("events", "--json").json["events"]
    assert [event["note"] for event in found] == ["the bank was down", None, None]
    left = gnomon_here("events", "--open", "--json").json["events"]
    assert [event["event_id"] for event in left] == [event["event_id"] for event in found[1:]]
    done = gnomon_here("acknowledge", second["event_id"], "--json")
    assert done.json == {"event_ids": [second["event_id"]]}
    assert gnomon_here("acknowledge", "xyz").code == 2
    gone = gnomon_here("acknowledge", "019a0000-0000-7000-8000-000000000000")
    assert gone.code == 1
    assert "there is no event 019a0000" in gone.err


def test_operators_list_and_acknowledge_those_of_the_installation(dsn: str) -> None:
    asyncio.run(_enter(dsn, "*"))
    assert gnomon_here("events", "--json").json == {"events": []}
    first, *_ = gnomon_here("events", "--installation", "--json").json["events"]
    assert gnomon_here("acknowledge", first["event_id"][:14]).code == 1
    done = gnomon_here("acknowledge", first["event_id"][:14], "--installation")
    assert (done.code, done.out) == (0, "acknowledged 1 event\n"), done.err
    left = gnomon_here("events", "--installation", "--open", "--json").json["events"]
    assert len(left) == 2
    wrong = gnomon_here("events", "--installation", "--type", "x")
    assert wrong.code == 2


async def _open(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until)"
        " VALUES (gen_random_uuid(), 'node-7', '1', 1, gnomon.now(), gnomon.now() + interval '1 h')"
    )
    await connection.execute(
        "INSERT INTO gnomon.breaker"
        " SELECT 'default', 'shop.test:443', incarnation, $1, $2, 20, 19, 'refused'"
        " FROM gnomon.node",
        NOW,
        NOW - timedelta(minutes=1),
    )
    await connection.close()


def test_open_breakers_are_listed(dsn: str) -> None:
    none = gnomon_here("breakers")
    assert (none.code, none.out, none.err) == (0, "", "no breaker is open\n")
    asyncio.run(_open(dsn))
    _, row = gnomon_here("breakers").out.splitlines()
    for text in ("host shop.test:443", " open ", "2030-01-31 09:00:00Z", "19 of 20", "refused"):
        assert text in row
    assert gnomon_here("breakers", "--json").json["breakers"][0]["nodes"] == ["node-7"]
