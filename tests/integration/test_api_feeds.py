"""`/feeds` and `gnomon feeds` over real sockets: kept, changed, shown, and kept apart."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import api_running, gnomon_here
from tests.conftest import serving
from tests.integration.api_calls import Api, call
from tests.integration.feeding import put as put_feed
from tests.integration.support import Connection, store, submission

from gnomon.clock import SystemClock
from gnomon.model.insight.outcome_feed import MOST_FEEDS, OutcomeFeed
from gnomon.settings.queues import QueueConnection
from gnomon.store.postgres.database import Database

FEEDS = "/api/v1/feeds"
ALL = ["completed", "dead_lettered", "cancelled", "expired"]
KNOWN = {
    "orders": QueueConnection(
        url="redis://127.0.0.1:1", tenants={"default": ("results*",), "other": ("*",)}
    )
}
RESULTS = "queue://orders/results"


@pytest.fixture
async def api(database_dsn: str) -> AsyncIterator[Api]:
    async with serving(database_dsn, targets_queues=KNOWN) as client:
        yield client


async def put(api: Api, name: str, status: int = 201, **feed: Any) -> Any:
    return await call(api, "PUT", f"{FEEDS}/{name}", status, feed)


async def test_a_feed_is_kept_replaced_and_removed(
    api: Api, database: Database, connection: Connection
) -> None:
    assert await call(api, "GET", FEEDS, 200) == {"feeds": []}
    made = await put(api, "results", url=RESULTS)
    assert (made["url"], made["task_types"], made["outcomes"]) == (RESULTS, None, ALL)
    (key,) = await store(database, submission(SystemClock().now()))
    await connection.execute("UPDATE gnomon.task SET state = 4 WHERE id = $1", key.id)
    changed = await put(
        api, "results", 200, url=f"{RESULTS}.mail", task_types=["mail"], outcomes=["expired"]
    )
    assert (changed["task_types"], changed["outcomes"]) == (["mail"], ["expired"])
    assert changed["created_at"] == made["created_at"] < changed["updated_at"]
    assert changed["backlog"] == {"count": 1, "capped": False}
    assert changed["waiting_since"] is not None
    assert await call(api, "GET", f"{FEEDS}/results", 200) == changed
    assert await call(api, "GET", FEEDS, 200) == {"feeds": [changed]}
    await call(api, "DELETE", f"{FEEDS}/results", 204)
    for method in ("GET", "DELETE"):
        problem = await call(api, method, f"{FEEDS}/results", 404)
        assert problem["detail"] == "there is no feed results"


async def test_others_feeds_are_not_there(
    api: Api, database: Database, connection: Connection
) -> None:
    await connection.execute("INSERT INTO gnomon.tenant (id) VALUES ('other')")
    others = OutcomeFeed(
        tenant_id="other", name="o", url="queue://orders/o", task_types=None, outcomes=()
    )
    await put_feed(database, others)
    assert await call(api, "GET", FEEDS, 200) == {"feeds": []}
    for method in ("GET", "DELETE"):
        await call(api, method, f"{FEEDS}/o", 404)
    await put(api, "o", url=RESULTS)
    assert await connection.fetchval("SELECT count(*) FROM gnomon.feed") == 2


async def test_what_cannot_be_published_is_refused(api: Api) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("f", {}, ""),
        ("f", {"url": "kafka://broker/topic"}, "/url"),
        ("f", {"url": "queue://nowhere/results"}, "/url"),
        ("f", {"url": "queue://orders/secret"}, "/url"),
        ("f", {"url": RESULTS, "outcomes": []}, "/outcomes"),
        ("f", {"url": RESULTS, "outcomes": ["done"]}, "/outcomes/0"),
        ("f", {"url": RESULTS, "outcomes": ["expired", "expired"]}, "/outcomes"),
        ("f", {"url": RESULTS, "task_types": []}, "/task_types"),
        ("f", {"url": RESULTS, "task_types": ["a\0"]}, "/task_types/0"),
        ("f", {"url": RESULTS, "topic": "x"}, "/topic"),
        ("-f", {"url": RESULTS}, "/name"),
    ]
    for name, feed, pointer in wrong:
        problem = await put(api, name, 422, **feed)
        assert [each["pointer"] for each in problem["errors"]] == [pointer], feed
    for number in range(MOST_FEEDS):
        await put(api, f"f{number}", url=RESULTS)
    problem = await put(api, "more", 409, url=RESULTS)
    assert "remove one first" in problem["detail"]
    await put(api, "f0", 200, url=f"{RESULTS}.more")


@pytest.fixture
def served(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    with api_running(database_dsn, unused_tcp_port, tmp_path, targets_queues=KNOWN):
        yield


@pytest.mark.usefixtures("served")
def test_feeds_are_set_shown_and_removed_by_commands() -> None:
    assert gnomon_here("feeds", "list").err == "there are no feeds\n"
    made = gnomon_here("feeds", "set", "results", "--url", RESULTS)
    assert made.out == f"results: all outcomes to {RESULTS}\n"
    dead = gnomon_here(
        "feeds", "set", "dead", "--url", RESULTS, "--outcome", "dead_lettered", "--type", "mail"
    )
    assert dead.out == f"dead: dead_lettered of mail to {RESULTS}\n"
    lines = gnomon_here("feeds", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["feed", "dead", "results"]
    shown = gnomon_here("feeds", "show", "dead").out.splitlines()
    assert shown[1:] == ["published: 0", "waiting: 0"]
    assert gnomon_here("feeds", "rm", "dead").out == "dead is removed\n"
    assert "there is no feed dead" in gnomon_here("feeds", "show", "dead").err
