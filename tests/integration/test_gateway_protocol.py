"""The worker protocol: what a gateway refuses, repeats and never counts twice."""

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.conftest import serving
from tests.integration.api_calls import TASKS, Api, call, submitted
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.remote_workers import SESSIONS, TestedWorker, opened, task_for
from tests.integration.support import Connection
from tests.integration.workflow_calls import RUNS
from tests.waiting import eventually

from gnomon.access.principal import Role
from gnomon.store.postgres.database import Database

QUICK = {"node_scan_seconds": 0.05, "node_sweep_seconds": 0.1, "node_lease_seconds": 2.0}
NO_RETRY = {"max_retries": 0}


@pytest.fixture
async def quick(database_dsn: str) -> AsyncIterator[Api]:
    async with serving(database_dsn, **QUICK) as client:
        yield client


def claim(delivery: dict[str, Any]) -> dict[str, Any]:
    return {"task_id": delivery["task_id"], "fence": delivery["fence"]}


async def test_the_answer_to_a_poll_is_the_same_when_it_is_sent_again(quick: Api) -> None:
    worker = await opened(quick)
    await submitted(quick, task_for())
    worker.sequence += 1
    body = worker.body(4, 10.0)
    first = await worker.ask(body)
    while not first["deliveries"]:
        worker.sequence += 1
        body = worker.body(4, 10.0)
        first = await worker.ask(body)
    assert await worker.ask(body) == first  # the answer was lost
    worker.take(first)
    assert await worker.settle(first["deliveries"][0])


async def test_what_an_answer_delivered_that_was_lost_is_delivered_again(
    quick: Api, connection: Connection
) -> None:
    worker = await opened(quick)
    await submitted(quick, task_for())
    lost = await worker.next()
    worker.held.clear()  # the answer never came
    again = await worker.next()
    assert claim(again) == claim(lost)
    assert await connection.fetchval("SELECT attempt FROM gnomon.task") == 1
    assert await worker.settle(again)


async def test_a_report_whose_receipt_was_lost_is_written_once(
    quick: Api, connection: Connection
) -> None:
    worker = await opened(quick)
    await submitted(quick, task_for())
    delivery = await worker.next()
    worker.report(delivery)
    worker.sequence += 1
    receipts = (await worker.ask(worker.body(0, 10.0)))["acknowledged"]
    assert receipts == [claim(delivery) | {"accepted": True}]
    # It did not come through: the worker says it again, with its next poll, and the one after.
    for _ in range(2):
        worker.sequence += 1
        again = await worker.ask(worker.body(0, 10.0))
        assert again["acknowledged"] == receipts
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task_archive") == 1


async def test_a_newer_poll_ends_one_that_waits(quick: Api) -> None:
    worker = await opened(quick)
    await worker.poll(1)
    worker.sequence += 1
    old = worker.body(1, 20.0)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(worker.ask(old))
        await worker.beat()
        await worker.poll(1)
        async with asyncio.timeout(5):
            assert (await waiting)["deliveries"] == []
    assert (await worker.ask(old))["deliveries"] == []  # and counts no more


async def test_a_stale_fence_changes_nothing(quick: Api, connection: Connection) -> None:
    worker = await opened(quick)
    task = await submitted(quick, task_for(retry_policy=NO_RETRY))
    delivery = await worker.next()
    for fence in (delivery["fence"] - 1, delivery["fence"] + 1):
        stale = {"task_id": delivery["task_id"], "fence": fence}
        worker.reports = {"stale": stale | {"outcome": "failed"}}
        answer = await worker.poll(0, 10.0)
        assert answer["acknowledged"] == [stale | {"accepted": False}]
        worker.reports.clear()
        worker.held[delivery["task_id"]] = delivery
        # Nor does it know what such a claim is for.
        answer = await worker.poll(0, 0.0, held=[stale, claim(delivery)])
        assert stale | {"reason": "lost"} in answer["cancel"]
    progress = {"fraction": 0.5, "message": "x"}
    await worker.poll(0, 0.0, progress=[stale | progress])
    assert await connection.fetchval("SELECT count(*) FROM gnomon.progress") == 0
    begun = (await worker.poll(0, 10.0, begin=[stale]))["begun"]
    assert begun == [stale | {"granted": False}]
    assert (await call(quick, "GET", f"{TASKS}/{task['task_id']}", 200))["status"] == "RUNNING"
    assert await worker.settle(delivery)


async def test_what_was_swept_meanwhile_is_refused(quick: Api, connection: Connection) -> None:
    worker = await opened(quick)
    await submitted(quick, task_for())
    delivery = await worker.next()
    await connection.execute("UPDATE gnomon.task SET fence = fence + 1")
    assert not await worker.settle(delivery)


async def test_progress_results_and_tracebacks_are_kept(quick: Api) -> None:
    worker = await opened(quick)
    task = await submitted(quick, task_for(retry_policy=NO_RETRY))
    path = f"{TASKS}/{task['task_id']}"
    delivery = await worker.next()
    await worker.poll(0, 0.0, progress=[claim(delivery) | {"fraction": 0.5, "message": "half"}])

    async def shown() -> Any:
        return (await call(quick, "GET", path, 200))["progress"]

    progress = await eventually(shown)
    assert (progress["fraction"], progress["message"]) == (0.5, "half")
    assert await worker.settle(delivery, "failed", error="no", traceback="Traceback: here")
    (execution,) = (await call(quick, "GET", f"{path}/executions", 200))["executions"]
    assert (execution["error"], execution["traceback"]) == ("no", "Traceback: here")
    assert execution["worker"] == "remote-1"
    large = await submitted(quick, task_for())
    assert await worker.settle(await worker.next(), result="x" * 70_000)
    done = await call(quick, "GET", f"{TASKS}/{large['task_id']}", 200)
    assert "are kept" in done["result"]["gnomon"]


async def test_snoozed_released_and_never_again(quick: Api) -> None:
    worker = await opened(quick)
    task = await submitted(quick, task_for())
    delivery = await worker.next()
    assert await worker.settle(delivery, "released")
    delivery = await worker.next()
    assert delivery["attempt"] == 1  # it was not an execution
    assert await worker.settle(delivery, "snoozed", retry_after_seconds=0.0)
    delivery = await worker.next()
    assert delivery["attempt"] == 2
    assert await worker.settle(delivery, "failed", error="bad", retryable=False)
    dead = await call(quick, "GET", f"{TASKS}/{task['task_id']}", 200)
    assert dead["status"] == "DEAD_LETTERED"


async def test_a_cancelled_task_is_told_to_stop(quick: Api) -> None:
    worker = await opened(quick)
    task = await submitted(quick, task_for())
    delivery = await worker.next()
    worker.sequence += 1
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(worker.ask(worker.body(0, 20.0)))
        await worker.beat()
        path = f"{TASKS}/{task['task_id']}/cancel"
        await call(quick, "POST", path, 200, {"interrupt": True})
        async with asyncio.timeout(10):
            answer = await waiting
    assert answer["cancel"] == [claim(delivery) | {"reason": "cancelled"}]
    # Said again, but not as fast as a worker can ask.
    assert (await worker.poll(0, 0.0))["cancel"] == answer["cancel"]
    assert await worker.settle(delivery, "cancelled")
    ended = await call(quick, "GET", f"{TASKS}/{task['task_id']}", 200)
    assert ended["status"] == "CANCELLED"


async def test_a_critical_task_makes_another_give_way(quick: Api) -> None:
    worker = await opened(quick, slots=1)
    await submitted(quick, task_for(preemptible=True, priority="LOW"))
    low = await worker.next()
    urgent = await submitted(quick, task_for(priority="CRITICAL"))
    answer = await worker.poll(0, 15.0)
    assert answer["cancel"] == [claim(low) | {"reason": "preempted"}]
    worker.report(low, "cancelled")
    delivery = await worker.next()
    assert delivery["task_id"] == urgent["task_id"]
    assert await worker.settle(delivery)
    again = await worker.next()
    assert (again["task_id"], again["attempt"]) == (low["task_id"], 2)
    executions = await call(quick, "GET", f"{TASKS}/{low['task_id']}/executions", 200)
    assert "preempted" in {each["outcome"] for each in executions["executions"]}


@pytest.mark.parametrize("mode", ["at_most_once", "exactly_once"])
async def test_a_delivery_that_asks_begins_by_consent(
    quick: Api, connection: Connection, mode: str
) -> None:
    worker = await opened(quick)
    await submitted(quick, task_for(delivery=mode))
    delivery = await worker.next()
    assert (delivery["asks"], delivery["delivery"]) == (True, mode)
    for _ in range(2):  # asked again, because the answer was lost, it says the same
        answer = await worker.poll(0, 10.0, begin=[claim(delivery)])
        assert answer["begun"] == [claim(delivery) | {"granted": True}]
    assert await connection.fetchval("SELECT begun FROM gnomon.task")
    # What has begun is never delivered again, whatever the worker has forgotten.
    worker.held.clear()
    assert (await worker.poll(1, 0.5))["deliveries"] == []
    worker.held[delivery["task_id"]] = delivery
    assert await worker.settle(delivery)


async def test_payloads_that_are_kept_apart_are_delivered(quick: Api) -> None:
    worker = await opened(quick)
    payload = {"text": "x" * 20_000}
    for _ in range(3):
        await submitted(quick, task_for(payload=payload))
    while len(worker.held) < 3:
        await worker.poll(3 - len(worker.held), 10.0)
    assert [each["payload"] for each in worker.held.values()] == [payload] * 3


@pytest.mark.parametrize(
    ("change", "status", "pointer"),
    [
        ({"name": ""}, 422, "name"),
        ({"name": "a\nb"}, 422, "name"),
        ({"name": "x" * 201}, 422, "name"),
        ({"handlers": []}, 422, "handlers"),
        ({"handlers": ["x"] * 1001}, 422, "handlers"),
        ({"handlers": ["x\u0000"]}, 422, "handlers"),
        ({"slots": 0}, 422, "slots"),
        ({"slots": 10_001}, 422, "slots"),
        ({"queues": [""]}, 422, "queues"),
        ({"labels": {"x": "y" * 201}}, 422, "labels"),
        ({"client": "\u2028"}, 422, "client"),
        ({"more": 1}, 422, "more"),
    ],
)
async def test_a_bad_opening_is_refused(
    shared_api: Api, change: dict[str, Any], status: int, pointer: str
) -> None:
    body = {"name": "w", "handlers": ["mail"], "slots": 1} | change
    problem = await call(shared_api, "POST", SESSIONS, status, body)
    assert pointer in problem["detail"] or pointer in str(problem.get("errors"))


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": -1},
        {"sequence": "x"},
        {"slots": -1},
        {"slots": 10_001},
        {"wait_seconds": 21},
        {"wait_seconds": "NaN"},
        {"held": [{"task_id": "x", "fence": 1}]},
        {"held": [{"task_id": "00000000-0000-7000-8000-000000000000", "fence": -1}]},
        {"held": [{"task_id": "00000000-0000-7000-8000-000000000000", "fence": 2**63}]},
        {"reports": [{"task_id": "00000000-0000-7000-8000-000000000000", "fence": 1}]},
        {"reports": [{"outcome": "won"}]},
        {"progress": [{"task_id": "00000000-0000-7000-8000-000000000000", "fence": 1}]},
        {"epoch": "x" * 65},
        {"unknown": True},
    ],
)
async def test_a_bad_poll_is_refused(shared_api: Api, change: dict[str, Any]) -> None:
    worker = await opened(shared_api)
    await worker.ask(worker.body() | change, 422)
    assert (await worker.poll(1))["deliveries"] == []  # and the session goes on


async def test_a_report_without_what_it_needs_is_refused(api: Api) -> None:
    worker = await opened(api)
    task = {"task_id": "00000000-0000-7000-8000-000000000000", "fence": 1}
    for wrong in (
        {"outcome": "snoozed"},
        {"outcome": "snoozed", "retry_after_seconds": 31 * 24 * 3600},
        {"outcome": "failed", "retry_after_seconds": 25 * 3600},
        {"outcome": "failed", "started_at": "2026-01-01T00:00:00"},
    ):
        await worker.ask(worker.body() | {"reports": [task | wrong]}, 422)


async def test_texts_of_a_worker_are_bounded_and_storable(quick: Api) -> None:
    worker = await opened(quick)
    task = await submitted(quick, task_for(retry_policy=NO_RETRY))
    delivery = await worker.next()
    moments = {"started_at": "1971-01-01T00:00:00Z", "finished_at": "2071-01-01T00:00:00Z"}
    text = "\x00" + "x" * 100_000
    assert await worker.settle(delivery, "failed", error=text, traceback=text, **moments)
    (execution,) = (await call(quick, "GET", f"{TASKS}/{task['task_id']}/executions", 200))[
        "executions"
    ]
    assert len(execution["error"]) == 2000
    assert len(execution["traceback"].encode()) <= 16 * 1024
    assert "2026" <= execution["started_at"] <= execution["finished_at"] < "2071"


async def test_spawns_of_a_report_become_nodes_of_the_run(quick: Api) -> None:
    worker = await opened(quick)
    nodes = {"first": task_for(), "next": task_for(after=["first"])}
    run = await call(quick, "POST", RUNS, 202, {"definition": {"nodes": nodes}})
    delivery = await worker.next()
    assert delivery["workflow_node"] == "first"
    assert await worker.settle(
        delivery, spawns=[{"task_type": "mail", "payload": n} for n in (1, 2)]
    )
    for number in range(2):
        delivery = await worker.next()
        assert delivery["workflow_node"] in ("first/0", "first/1")
        url = {"task_type": "mail", "callback_url": "http://127.0.0.1/"}
        assert await worker.settle(delivery, spawns=[url] if number else [])
    found = await call(quick, "GET", f"{RUNS}/{run['run_id']}", 200)
    assert (found["status"], found["nodes"][0]["spawned_ended"]) == ("FAILED", 1)
    (dead,) = (await call(quick, "GET", "/api/v1/dead-letters", 200))["dead_letters"]
    assert "/0/callback_url: is not for spawned tasks" in dead["last_error"]
    plain = await submitted(quick, task_for())
    delivery = await worker.next()
    assert await worker.settle(delivery, spawns=[{"task_type": "mail"}])
    failed = await call(quick, "GET", f"{TASKS}/{plain['task_id']}", 200)
    assert "only a task of a workflow run can spawn" in failed["last_error"]


async def test_a_body_that_is_too_large_is_refused(api: Api) -> None:
    worker = await opened(api)
    path = f"{SESSIONS}/{worker.id}/poll"
    body = b'{"sequence": 1, "slots": 1, "epoch": "' + b"x" * (9 * 1024 * 1024)
    headers = worker.headers | {"content-type": "application/json"}
    async with api.post(path, data=io.BytesIO(body), headers=headers) as answer:
        assert answer.status == 413


async def test_who_may_use_a_session(database_dsn: str, database: Database) -> None:
    await make_tenant(database, "a")
    await make_tenant(database, "b")
    keys = {
        name: bearer((await make_key(database, tenant, name=name, roles=[role]))[1])
        for name, tenant, role in (
            ("worker", "a", Role.WORK),
            ("another", "b", Role.WORK),
            ("reader", "a", Role.READ),
            ("submitter", "a", Role.SUBMIT),
        )
    }
    async with serving(database_dsn, auth_enabled=True, **QUICK) as api:
        worker = await opened(api, headers=keys["worker"])
        await worker.poll(1)
        for name, status in (("another", 404), ("reader", 403), ("submitter", 403)):
            worker.headers |= keys[name]
            await worker.ask(worker.body(), status)
            await worker.beat(status)
            await worker.leave(status)
        worker.headers |= keys["worker"]
        secret = worker.headers.pop("gnomon-session-secret")
        await worker.ask(worker.body(), 403)
        await worker.beat(403)
        worker.headers["gnomon-session-secret"] = "0" * 64
        await worker.leave(403)
        worker.headers["gnomon-session-secret"] = secret
        for unknown in ("x", "00000000-0000-4000-8000-000000000000"):
            path = f"{SESSIONS}/{unknown}/beat"
            await call(api, "POST", path, 404, headers=worker.headers)
        # Another tenant's tasks are not for it, though it handles their type.
        other = await opened(api, headers=keys["another"])
        made = await make_key(database, "b", name="s", roles=[Role.SUBMIT])
        await call(api, "POST", TASKS, 202, task_for(), headers=bearer(made[1]))
        assert (await other.next())["tenant_id"] == "b"
        assert (await worker.poll(1, 0.0))["deliveries"] == []


async def test_a_key_binds_what_a_session_may_handle(database_dsn: str, database: Database) -> None:
    async with serving(database_dsn, auth_enabled=True, **QUICK) as api:
        _, admin = await make_key(database, name="admin", roles=[Role.ADMIN])
        limits = {"task_types": ["mail"], "queues": ["eu"]}
        body = {"name": "bound", "roles": ["work"]} | limits
        made = await call(api, "POST", "/api/v1/keys", 201, body, headers=bearer(admin))
        assert (made["roles"], made["queues"]) == (["work"], ["eu"])
        headers = bearer(made["key"])
        good = {"name": "w", "handlers": ["mail"], "slots": 1, "queues": ["eu"]}
        for wrong in ({"handlers": ["mail", "pay"]}, {"queues": ["us"]}, {"queues": None}):
            await call(api, "POST", SESSIONS, 403, good | wrong, headers=headers)
        worker = await opened(api, headers=headers, queues=["eu"])
        nodes = {"definition": {"nodes": {"first": task_for(queue="eu")}}}
        await call(api, "POST", RUNS, 202, nodes, headers=bearer(admin))
        for spawned, refused in (
            ({"task_type": "pay", "queue": "eu"}, "not for tasks of type pay"),
            ({"task_type": "mail", "queue": "us"}, "not for its queue"),
        ):
            first = await worker.next()
            assert await worker.settle(first, spawns=[spawned])
            path = f"/api/v1/dead-letters/{first['task_id']}/retry"
            dead = await call(api, "GET", f"{TASKS}/{first['task_id']}", 200, headers=bearer(admin))
            assert refused in dead["last_error"]
            await call(api, "POST", path, 202, headers=bearer(admin))
        assert await worker.settle(await worker.next())
        for queue in ("eu", "us", None):
            await call(api, "POST", TASKS, 202, task_for(queue=queue), headers=bearer(admin))
        assert (await worker.next(slots=3))["queue"] == "eu"
        assert (await worker.poll(2, 1.0))["deliveries"] == []


async def test_sessions_are_bounded(database_dsn: str) -> None:
    async with serving(database_dsn, gateway_tenant_sessions=2, **QUICK) as api:
        first = await opened(api)
        await opened(api)
        body = {"name": "w", "handlers": ["mail"], "slots": 1}
        problem = await call(api, "POST", SESSIONS, 409, body)
        assert "2 worker sessions" in problem["detail"]
        await first.leave()
        await opened(api)


async def test_sessions_that_are_opened_at_once_are_bounded(database_dsn: str) -> None:
    body = {"name": "w", "handlers": ["mail"], "slots": 1}
    async with serving(database_dsn, gateway_tenant_sessions=3, **QUICK) as api:

        async def status() -> int:
            async with api.post(SESSIONS, json=body) as answer:
                return answer.status

        found = await asyncio.gather(*(status() for _ in range(12)))
        assert sorted(found) == [201] * 3 + [409] * 9


async def test_a_session_is_told_to_drain(database_dsn: str, database: Database) -> None:
    await make_tenant(database, "a")
    await make_tenant(database, "b")
    keys = {
        name: bearer((await make_key(database, tenant, name=name, roles=[role]))[1])
        for name, tenant, role in (
            ("worker", "a", Role.WORK),
            ("operator", "a", Role.OPERATE),
            ("stranger", "b", Role.OPERATE),
        )
    }
    async with serving(database_dsn, auth_enabled=True, **QUICK) as api:
        worker = await opened(api, headers=keys["worker"])
        assert (await worker.poll(1))["command"] is None
        path = f"{SESSIONS}/{worker.id}/drain"
        await call(api, "POST", path, 403, headers=worker.headers)
        await call(api, "POST", path, 404, headers=keys["stranger"])
        worker.sequence += 1
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(worker.ask(worker.body(1, 20.0)))
            await worker.beat()  # by then it waits
            for _ in range(2):
                await call(api, "POST", path, 204, headers=keys["operator"])
            async with asyncio.timeout(10):
                assert (await waiting)["command"] == "drain"
        worker.take(await worker.ask(worker.body(1)))
        assert worker.answer["command"] == "drain"  # the answer was lost
        await worker.leave()
        await call(api, "POST", path, 404, headers=keys["operator"])


async def test_a_worker_that_hangs_up_gets_nothing(quick: Api, connection: Connection) -> None:
    gone = await opened(quick)
    await gone.poll(4)
    gone.sequence += 1
    base = str(quick._base_url)
    async with aiohttp.ClientSession(base) as client:
        leaving = TestedWorker(client, gone.opened, {})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await leaving.ask(gone.body(4, 20.0))
    stays = await opened(quick)
    for _ in range(4):
        await submitted(quick, task_for())
    while len(stays.held) < 4:
        await stays.poll(4 - len(stays.held), 10.0)
    assert await connection.fetchval("SELECT count(DISTINCT node) FROM gnomon.task") == 1


async def test_nodes_tell_sessions_from_nodes_and_explain_does(quick: Api) -> None:
    task = await submitted(quick, task_for("unheard"))
    worker = await opened(quick)
    explain = f"{TASKS}/{task['task_id']}/explain"

    async def told() -> Any:
        text = (await call(quick, "GET", explain, 200))["summary"]
        return "no live worker handles" in text and "handle: mail" in text

    await eventually(told)
    nodes = (await call(quick, "GET", "/api/v1/nodes", 200))["nodes"]
    gateway, session = nodes
    assert (gateway["kind"], session["kind"]) == ("gateway", "session")
    assert (gateway["shards"], session["shards"]) == (256, 0)
    assert (session["gateway"], session["tenant_id"]) == (gateway["name"], "default")
    (listed,) = (await call(quick, "GET", SESSIONS, 200))["worker_sessions"]
    assert (listed["session_id"], listed["handlers"]) == (worker.id, ["mail"])
    assert (listed["alive"], listed["gateway"]) == (True, gateway["name"])
    running = await submitted(quick, task_for())
    await worker.next()
    text = (await call(quick, "GET", f"{TASKS}/{running['task_id']}/explain", 200))["summary"]
    assert text.startswith("It is running on the worker session remote-1")
    (gateway, session) = (await call(quick, "GET", "/api/v1/nodes", 200))["nodes"]
    assert (gateway["running"], session["running"]) == (1, 1)


async def test_metrics_count_sessions_deliveries_and_reports(quick: Api) -> None:
    worker = await opened(quick)
    await submitted(quick, task_for())
    assert await worker.settle(await worker.next())
    worker.reports = {
        "x": {"task_id": "00000000-0000-7000-8000-000000000000", "fence": 1, "outcome": "failed"}
    }
    await worker.poll(0, 10.0)

    async def counted() -> bool:
        async with quick.get("/metrics") as answer:
            text = await answer.text()
        wanted = (
            "gnomon_deliveries_total 1.0",
            'gnomon_reports_total{result="accepted"} 1.0',
            'gnomon_reports_total{result="refused"} 1.0',
            'gnomon_worker_sessions{state="busy"} 1.0',
        )
        return all(line in text for line in wanted)

    await eventually(counted)
