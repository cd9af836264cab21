"""A database that has too little room: new work is refused, and all else goes on."""

from typing import Any

from tests.conftest import serving
from tests.integration.api_calls import LATER, TASKS, Api, call, put, submitted
from tests.integration.support import Connection
from tests.waiting import eventually

from gnomon.cli.admin.checks.room import room
from gnomon.clock import SystemClock, new_incarnation
from gnomon.settings import DatabaseSettings
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.usage.room import PostgresRoom
from gnomon.store.room_watch import RoomWatch

JOBS = "/api/v1/cron-jobs"
JOB: dict[str, Any] = {
    "name": "report",
    "task_type": "report",
    "callback_url": "http://127.0.0.1:9/hook",
    "cron_expression": "0 9 * * *",
}
MIB = 1024**2


def watching(database: Database, **settings: Any) -> RoomWatch:
    store = PostgresRoom(database, "/nowhere")
    found = RoomWatch(store, DatabaseSettings(**settings), SystemClock(), new_incarnation())
    found.size_seconds = 0.0
    return found


async def said(api: Api, status: str) -> None:
    async def is_said() -> bool:
        return bool((await call(api, "GET", "/readyz", 200))["status"] == status)

    await eventually(is_said)


async def test_new_work_is_refused_and_accepted_again(
    api: Api, database: Database, connection: Connection
) -> None:
    task, dead = await submitted(api), await submitted(api)
    await put(connection, dead["task_id"], "state = 4")
    await call(api, "POST", JOBS, 201, JOB)
    size = await connection.fetchval("SELECT pg_database_size(current_database())")
    watch = watching(database, max_bytes=size + 8 * MIB, disk_reserve_bytes=0)
    assert await watch.run_once() is None
    await connection.execute(
        "CREATE TABLE public.big AS SELECT repeat('x', 1000) FROM generate_series(1, 12000)"
    )
    assert "database.max_bytes" in str(await watch.run_once())
    await said(api, "full")
    path = f"{TASKS}/{task['task_id']}"
    refused: list[tuple[str, str, Any]] = [
        ("POST", TASKS, LATER),
        ("POST", f"{TASKS}/batch", {"tasks": [LATER]}),
        ("PATCH", path, {"name": "n"}),
        ("POST", f"{path}/retry", {}),
        ("POST", f"/api/v1/dead-letters/{dead['task_id']}/retry", {}),
        ("POST", "/api/v1/bulk-operations", {"action": "retry"}),
        ("POST", JOBS, JOB | {"name": "other"}),
        ("PUT", f"{JOBS}/report", JOB),
        ("PATCH", f"{JOBS}/report", {"timezone": "Europe/Rome"}),
        ("POST", f"{JOBS}/report/trigger", {}),
        ("PUT", "/api/v1/task-types/mail", {"schema": {}}),
    ]
    for method, where, body in refused:
        problem = await call(api, method, where, 507, body)
        assert problem["type"] == "urn:gnomon:problem:no-room"
    async with api.post(TASKS, json=LATER) as answer:
        assert answer.headers["Retry-After"] == "30"
    async with api.get("/metrics") as answer:
        assert "gnomon_no_room 1.0" in await answer.text()
    check = await room(connection, DatabaseSettings(data_dir="/nowhere", disk_reserve_bytes=0))
    assert not check.ok
    assert "database.max_bytes" in check.detail
    # What is there goes on.
    assert (await call(api, "GET", TASKS, 200))["tasks"]
    await call(api, "POST", f"{path}/cancel", 200)
    await call(api, "DELETE", path, 204)
    await call(api, "POST", f"{JOBS}/report/pause", 200, {})
    await connection.execute("DROP TABLE public.big")
    assert await watch.run_once() is None
    await said(api, "ready")
    await submitted(api)
    assert (await room(connection, DatabaseSettings(data_dir="/nowhere", disk_reserve_bytes=0))).ok


async def test_all_processes_refuse_what_one_has_found(database_dsn: str, api: Api) -> None:
    async with serving(database_dsn, database_max_bytes=1) as other:
        await said(other, "full")
        await said(api, "full")
        await call(api, "POST", TASKS, 507, LATER)


async def test_one_process_asks_for_the_size_and_none_takes_back_anothers_word(
    database: Database, connection: Connection
) -> None:
    first = watching(database, max_bytes=1, disk_reserve_bytes=0)
    second = watching(database, max_bytes=1, disk_reserve_bytes=0)
    assert await first.run_once() is not None
    assert await second.run_once() is None
    assert await connection.fetchval("SELECT full_why FROM gnomon.revision")
    # Nobody says it again: it ends by itself.
    await connection.execute("UPDATE gnomon.revision SET full_until = gnomon.now()")
    row = await database.fetchrow("revision")
    assert row is not None
    assert row["full_why"] is None
