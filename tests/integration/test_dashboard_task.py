"""The page of one task, over HTTP: why it waits, its parts, and its actions."""

import re
from html import unescape
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from tests.integration.api_calls import BODY, LATER, TASKS, call, put, submitted
from tests.integration.identity import bearer, make_key
from tests.integration.nodes import running_node
from tests.integration.support import joined
from tests.integration.test_dashboard import guarded, posted, shown, signed_in
from tests.waiting import eventually

from gnomon.access.principal import Role
from gnomon.model.fleet.retention import RowKind
from gnomon.store.ports.roster import Removal
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresChores

if TYPE_CHECKING:
    import asyncpg

__all__ = ["guarded"]
Api = aiohttp.ClientSession


def explained(text: str) -> str:
    """The first part of the page, as it reads."""
    part = text[text.index('class="explain"') :].partition("</section>")[0]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", part)).split())


async def page_of(api: Api, task: Any) -> str:
    return await shown(api, f"/tasks/{task['task_id']}")


async def test_find_why_a_task_waits(
    api: Api, connection: "asyncpg.Connection[Any]", database_dsn: str
) -> None:
    alone = await submitted(api, BODY)
    assert "no scheduler node is in the roster" in explained(await page_of(api, alone))
    await call(api, "PUT", "/api/v1/limiters/bank", 201, {"task_type": "mail", "concurrency": 0})
    async with running_node(database_dsn, node_name="n1"):
        limited = await submitted(api, BODY)
        paused = await submitted(api, BODY | {"task_type": "other", "delay_seconds": 3600})
        await call(api, "POST", f"{TASKS}/{paused['task_id']}/pause", 200)

        async def told() -> str | None:
            text = await page_of(api, limited)
            return text if "'bank' is at its limit of 0" in explained(text) else None

        text = await eventually(told)
        assert '<a href="/limits/bank"><bdi>bank</bdi></a>' in text
        assert "What would help" in explained(text)
        assert "raise its limit" in explained(text)
        text = explained(await page_of(api, paused))
        assert "It was paused" in text
        assert "→ resume it".removeprefix("→ ") in text
        await connection.execute(
            "INSERT INTO gnomon.breaker (tenant_id, host, node, until) SELECT 'default', "
            "'127.0.0.1:9', incarnation, now() + interval '1 hour' FROM gnomon.node"
        )
        broken = await submitted(api, BODY | {"task_type": "else"})

        async def held() -> bool:
            text = explained(await page_of(api, broken))  # it may be tried in between
            host = "the breaker of host 127.0.0.1:9 is open on n1"
            return host in text and "open breaker 127.0.0.1:9" in text

        await eventually(held)


async def test_a_task_without_a_handler_says_so_at_once(api: Api, database: Database) -> None:
    await joined(database, "worker")
    async with database.connection() as connection:
        await connection.execute('UPDATE gnomon.node SET serves = \'{"handlers": ["other"]}\'')
    task = await submitted(api, {"task_type": "a/b <i>"})
    text = await page_of(api, task)
    assert "no live worker handles the task type 'a/b <i>'" in explained(text)
    waiting = re.search(r'href="(/tasks\?q=[^"]+)"><bdi>a/b &lt;i&gt;</bdi>', text)
    assert waiting is not None
    assert task["task_id"] in await shown(api, unescape(waiting[1]))
    later = await submitted(api, {"task_type": "x", "delay_seconds": 60})

    async def warned() -> bool:  # the API looks at the roster every second
        return "no worker that handles" in explained(await page_of(api, later))

    await eventually(warned)


async def test_a_task_is_moved_and_deleted(api: Api) -> None:
    task = await submitted(api)
    here = f"/tasks/{task['task_id']}"
    refused = {"at": "2030-03-31T02:30", "zone": "Europe/Berlin", "when": "at"}
    async with api.post(f"{here}/reschedule", data=refused) as answer:
        text = await answer.text()
        assert answer.status == 422
    assert "does not exist in Europe/Berlin" in text
    assert 'value="2030-03-31T02:30"' in text
    assert 'value="Europe/Berlin"' in text
    assert '<details class="sure" id="reschedule" open>' in text
    moved = {"at": "2090-07-01T12:00:00", "zone": "Europe/Berlin", "when": "at"}
    assert (await posted(api, f"{here}/reschedule", moved)).status == 303
    found = await call(api, "GET", f"{TASKS}/{task['task_id']}", 200)
    assert found["execute_at"].startswith("2090-07-01T10:00:00")
    for when, status in (("in-10-minutes", "SCHEDULED"), ("now", "READY")):
        assert (await posted(api, f"{here}/reschedule", {"when": when})).status == 303
        found = await call(api, "GET", f"{TASKS}/{task['task_id']}", 200)
        assert found["status"] == status
    assert f'action="{here}/delete"' in await shown(api, here)
    answer = await posted(api, f"{here}/delete")
    assert (answer.status, answer.headers["location"]) == (303, "/tasks?done=delete")
    await shown(api, here, 404)


async def test_a_running_task_can_be_interrupted_and_not_deleted(
    api: Api, connection: "asyncpg.Connection[Any]"
) -> None:
    task = await submitted(api)
    await put(connection, task["task_id"], "state = 1, attempt = 1, started_at = now()")
    text = await page_of(api, task)
    assert "Interrupt" in text
    assert "/delete" not in text
    assert 'data-status="RUNNING"' in text
    assert re.search(r'class="bar b-running o-running"', text)
    assert (await posted(api, f"/tasks/{task['task_id']}/delete")).status == 409


async def test_tries_beyond_the_page_are_paged(
    api: Api, connection: "asyncpg.Connection[Any]"
) -> None:
    task = await submitted(api)
    await connection.execute(
        "INSERT INTO gnomon.execution (tenant_id, task_id, fence, attempt, outcome, started_at, "
        "finished_at, error, response_status, response_body) "
        "SELECT 'default', $1, n, n, 1, now(), now(), 'oh', 500, '<b>' || n "
        "FROM generate_series(1, 120) AS n",
        task["task_id"],
    )
    await put(connection, task["task_id"], "attempt = 120, fence = 240")
    text = await page_of(api, task)
    assert len(re.findall(r"<strong>#(\d+)</strong>", text)) == 50
    assert "&lt;b&gt;120" in text
    assert "HTTP 500" in text
    seen: list[str] = []
    path = f"/tasks/{task['task_id']}/executions"
    assert f'href="{path}"' in text
    while path:
        text = await shown(api, path)
        seen += re.findall(r"<strong>#(\d+)</strong>", text)
        more = re.search(r'href="([^"]+cursor=[^"]+)">Later', text)
        path = unescape(more[1]) if more else ""
    assert seen == [str(n) for n in range(1, 121)]


async def test_a_large_payload_is_cut_and_whole_elsewhere(api: Api) -> None:
    payload = {"rows": [{"n": 2**63 + n, "t": "<script>"} for n in range(5_500)]}
    task = await submitted(api, LATER | {"payload": payload})
    text = await page_of(api, task)
    assert len(text) < 400_000
    assert "Only a part is shown." in text
    assert str(2**63) in text
    assert "<script>&" not in text
    raw = f"/tasks/{task['task_id']}/payload"
    assert f'href="{raw}"' in text
    async with api.get(raw) as answer:
        assert answer.content_type == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert await answer.json() == payload
    await shown(api, f"/tasks/{task['task_id']}/result", 404)


async def test_keys_of_messages_and_types_of_calls_are_shown(
    api: Api, connection: "asyncpg.Connection[Any]"
) -> None:
    url = "grpc://localhost:50051/shop.Orders/Ship"
    target = {"type": "grpc", "url": url, "descriptor_set": "CgA="}
    body = {"task_type": "ship", "target": target, "delay_seconds": 3600}
    called = await submitted(api, body)
    assert "by a descriptor set of 3 B" in await page_of(api, called)
    await put(
        connection,
        called["task_id"],
        """target = '{"type": "queue", "url": "queue://orders/paid", "key": "o_<7>"}'""",
    )
    text = await page_of(api, called)
    assert '<dt>Key</dt><dd><code class="wrap">o_&lt;7&gt;</code>' in text
    assert "Types" not in text


async def test_secrets_of_the_target_are_masked(api: Api) -> None:
    target = {
        "type": "http",
        "url": "http://127.0.0.1:9/?token=hush-hush",
        "headers": {"X-Key": "key-not-for-you"},
    }
    task = await submitted(api, {"task_type": "t", "delay_seconds": 60, "target": target})
    text = await page_of(api, task)
    assert "hush-hush" not in text
    assert "key-not-for-you" not in text
    assert "token=***" in text


async def test_related_tasks_are_found_by_key(
    api: Api, connection: "asyncpg.Connection[Any]"
) -> None:
    first = await submitted(api)
    await call(api, "POST", f"{TASKS}/{first['task_id']}/cancel", 200)
    again = await call(api, "POST", f"{TASKS}/{first['task_id']}/retry", 202)
    (found,) = (await call(api, "GET", f"{TASKS}/{again['task_id']}/related", 200))["tasks"]
    assert (found["relation"], found["task_id"]) == ("original", first["task_id"])
    assert found["status"] == "CANCELLED"
    assert f'href="/tasks/{first["task_id"]}"' in await page_of(api, again)
    (found,) = (await call(api, "GET", f"{TASKS}/{first['task_id']}/related", 200))["tasks"]
    assert (found["relation"], found["task_id"]) == ("copy", again["task_id"])
    assert f'href="/tasks/{again["task_id"]}"' in await page_of(api, first)
    job = {
        "name": "j",
        "interval_seconds": 3600,
        "overlap_policy": "allow",
        "task_type": "t",
        "callback_url": "http://127.0.0.1:9/",
    }
    made = await call(api, "POST", "/api/v1/cron-jobs", 201, job)
    ref = f"/api/v1/cron-jobs/{made['cron_job_id']}"
    runs = [(await call(api, "POST", f"{ref}/trigger", 202))["run_id"] for _ in range(3)]
    related = await call(api, "GET", f"{TASKS}/{runs[1]}/related", 200)
    assert [(each["relation"], each["task_id"]) for each in related["tasks"]] == [
        ("previous_run", runs[0]), ("next_run", runs[2]),
    ]  # fmt: skip
    related = await call(api, "GET", f"{TASKS}/{runs[0]}/related", 200)
    assert [each["relation"] for each in related["tasks"]] == ["next_run"]
    text = await shown(api, f"/tasks/{runs[1]}")
    assert "Run before" in text
    assert f'href="/cron/{made["cron_job_id"]}"' in text
    await call(api, "GET", f"{TASKS}/{made['cron_job_id']}/related", 404)


async def test_the_page_without_the_right_to_act(guarded: Api, database: Database) -> None:
    _, everything = await make_key(database)
    _, reads = await make_key(database, name="reader", roles=[Role.READ])
    task = await call(guarded, "POST", TASKS, 202, LATER, headers=bearer(everything))
    here = f"/tasks/{task['task_id']}"
    async with signed_in(guarded, reads) as browser:
        text = await shown(browser, here)
        assert "Duplicate with changes" not in text
        assert 'id="actions"' not in text
        for path in (f"{here}/delete", f"{here}/reschedule", f"{here}/cancel", "/tasks/new"):
            assert (await posted(browser, path, {"when": "now"})).status == 403
    async with signed_in(guarded, everything) as browser:
        assert "Duplicate with changes" in await shown(browser, here)


@pytest.mark.parametrize("keyed", [True, False])
async def test_a_task_and_its_duplicates_are_shown_from_each_other(
    api: Api, database: Database, keyed: bool
) -> None:
    original = await submitted(api)
    others = {"retry_of": original["task_id"], **({"idempotency_key": "k"} if keyed else {})}
    first = await submitted(api, LATER | others)
    batch = {"tasks": [LATER | {"retry_of": original["task_id"]} for _ in range(25)] + [LATER]}
    made = (await call(api, "POST", f"{TASKS}/batch", 202, batch))["tasks"]
    assert first["retry_of"] == original["task_id"]
    found = (await call(api, "GET", f"{TASKS}/{original['task_id']}/related", 200))["tasks"]
    newest = sorted((each["task_id"] for each in made[:25]), reverse=True)[:20]
    assert [(each["relation"], each["task_id"]) for each in found] == [
        ("copy", task_id) for task_id in newest
    ]
    (found,) = (await call(api, "GET", f"{TASKS}/{first['task_id']}/related", 200))["tasks"]
    assert (found["relation"], found["task_id"]) == ("original", original["task_id"])
    for task_id in newest:
        await call(api, "DELETE", f"{TASKS}/{task_id}", 204)
    chores = PostgresChores(database)
    assert (await chores.remove(RowKind.COPIES, 10, 1.0)).removed == 0
    assert await chores.remove(RowKind.COPIES, 20, -1.0) == Removal(20, more=True)
    assert await chores.remove(RowKind.COPIES, 20, -1.0) == Removal(6, more=False)
