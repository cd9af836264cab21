"""Submitting from Python over HTTP, and straight to the database: one behaviour."""

import asyncio
import pickle
import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from tests.commands import clean_environment
from tests.conftest import serving
from tests.integration.identity import make_key, make_tenant
from tests.integration.nodes import running_node
from tests.integration.shop import (
    Receipt,
    app,
    divide,
    gates,
    return_a_lot,
    send_email,
    wait_at_the_gate,
)
from tests.waiting import eventually

from gnomon import (
    ApiUnreachable,
    BatchProgress,
    Gnomon,
    InvalidArguments,
    InvalidRequest,
    InvalidResult,
    NotConnected,
    Prepared,
    ResultUnavailable,
    Status,
    TaskCancelled,
    TaskExpired,
    TaskFailed,
    WaitTimeout,
)
from gnomon.store.postgres.database import Database

WAYS = ["http", "direct"]
SHOP = {"node_app": "tests.integration.shop:app"}


@asynccontextmanager
async def reaching(way: str, dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The environment in which the app submits this way."""
    for name in ("GNOMON_URL", "DATABASE_URL", "GNOMON_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    try:
        if way == "direct":
            monkeypatch.setenv("DATABASE_URL", dsn)
            yield
            return
        async with serving(dsn) as api:
            monkeypatch.setenv("GNOMON_URL", str(api._base_url))
            yield
    finally:
        await app.close()


@pytest.fixture(params=WAYS)
async def reached(
    request: Any, database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    async with reaching(request.param, database_dsn, monkeypatch):
        yield database_dsn


async def test_results_and_failures(reached: str) -> None:
    async with running_node(reached, **SHOP):
        handle = await send_email.submit("u_1", on=date(2030, 2, 1))
        assert await handle.result(timeout="1m") == Receipt("u_1", date(2030, 2, 1))
        assert await handle.status() is Status.COMPLETED
        again = app.handle(str(handle.id), send_email)
        assert again == handle
        assert await again.result() == Receipt("u_1", date(2030, 2, 1))
        assert await app.handle(handle.id).result() == {"user_id": "u_1", "sent_on": "2030-02-01"}
        with pytest.raises(InvalidResult):
            await app.handle(handle.id, divide).result()
        failing = await divide.submit(1, 0)
        with pytest.raises(TaskFailed) as raised:
            await failing.result(timeout="1m")
        large = await return_a_lot.submit()
        with pytest.raises(ResultUnavailable, match="has 100002 bytes; 65536 are kept"):
            await large.result(timeout="1m")
        await app.client.delete_task(handle.id)
        with pytest.raises(ResultUnavailable, match="older than finished tasks are kept"):
            await handle.result()
    error = raised.value
    assert (error.task_id, error.task_type, error.attempts) == (failing.id, "divide", 1)
    assert error.status is Status.DEAD_LETTERED
    assert error.last_error == "ZeroDivisionError: float division by zero"
    # The remote traceback is in the local one.
    shown = "".join(traceback.format_exception(error))
    assert "after 1 attempt and is DEAD_LETTERED: ZeroDivisionError" in shown
    assert "return dividend / divisor" in shown
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.task, type(copied)) == (str(error), error.task, TaskFailed)


async def test_a_key_twice_gives_the_same_task(reached: str) -> None:
    once = send_email.options(key="welcome-u_1", delay="10m", priority="low", tags=["t"])
    first = await once.submit("u_1")
    assert await once.submit(user_id="u_1") == first
    task = await first.task()
    assert (task.priority, task.tags, task.idempotency_key) == ("LOW", ("t",), "welcome-u_1")
    assert round((task.execute_at - task.created_at).total_seconds()) == 600
    assert (task.task_type, task.payload) == ("send_email", {"user_id": "u_1"})
    with pytest.raises(InvalidRequest):
        await once.submit("u_2")


async def test_a_task_that_was_cancelled_or_expired_has_no_result(reached: str) -> None:
    cancelled = await send_email.options(delay="1h").submit("u")
    await cancelled.cancel()
    with pytest.raises(TaskCancelled, match=r"\(send_email\) was cancelled"):
        await cancelled.result()
    due = datetime.now(UTC) + timedelta(seconds=0.2)
    expired = await send_email.options(expires=due).submit("u")

    async def is_past() -> bool:
        return datetime.now(UTC) > due

    await eventually(is_past)
    async with running_node(reached, **SHOP):
        with pytest.raises(TaskExpired) as raised:
            await expired.result(timeout="1m")
    assert isinstance(raised.value, TaskFailed)


async def test_waiting_ends_and_the_task_goes_on(reached: str) -> None:
    async with running_node(reached, **SHOP):
        handle = await wait_at_the_gate.submit(f"slow {reached}")
        with pytest.raises(WaitTimeout, match="and goes on"):
            await handle.result(timeout="200ms")
        gates[f"slow {reached}"].set()
        assert await handle.result(timeout="1m") == f"passed slow {reached}"


async def test_a_submission_wakes_the_node(reached: str) -> None:
    """Its own look at the table would come too late."""
    async with running_node(reached, **SHOP, node_scan_seconds=600.0):
        assert await (await divide.submit(6, 2)).result(timeout="20s") == 3


async def test_ten_thousand_tasks_with_progress(reached: str) -> None:
    seen: list[BatchProgress] = []
    later = send_email.options(delay="1h")
    tasks = (later.prepare(f"u_{number}") for number in range(10_000))
    assert await app.submit_many(tasks, batch_size=2_500, key="all", progress=seen.append) == 10_000
    assert [done.submitted for done in seen] == [2_500, 5_000, 7_500, 10_000]
    handle = app.handle(seen[-1].batch[-1].task_id, send_email)
    assert (await handle.task()).payload == {"user_id": "u_9999"}

    async def again() -> AsyncIterator[Prepared[Receipt]]:
        for number in range(10_000):
            yield later.prepare(f"u_{number}")

    assert await app.submit_many(again(), batch_size=2_500, key="all") == 10_000
    async with await _connected(reached) as connection:
        assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 10_000


async def test_many_tasks_that_break_off_are_told_how_far_they_came(reached: str) -> None:
    def some() -> Iterator[Prepared[Receipt]]:
        for number in range(5):
            yield send_email.options(delay="1h").prepare(f"u_{number}")
        raise LookupError("no more")

    wrong: list[Any] = [send_email.prepare("u"), send_email.submit("u")]
    with pytest.raises(LookupError) as broken:
        await app.submit_many(some(), batch_size=2)
    told = "4 tasks were submitted; the batch after them was not"
    assert broken.value.__notes__ == [told]
    with pytest.raises(InvalidArguments, match=r"takes what prepare\(\) gives.*, not coroutine"):
        await app.submit_many(wrong)
    async with await _connected(reached) as connection:
        assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 4


@asynccontextmanager
async def _closing(connection: "asyncpg.Connection[Any]") -> AsyncIterator[Any]:
    try:
        yield connection
    finally:
        await connection.close()


async def _connected(dsn: str) -> Any:
    return _closing(await asyncpg.connect(dsn))


async def test_the_api_may_restart_while_a_result_is_waited_for(
    database_dsn: str, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    try:
        async with running_node(database_dsn, **SHOP):
            async with serving(database_dsn, api_port=unused_tcp_port):
                handle = await wait_at_the_gate.submit(f"restart {database_dsn}")
                waiting = asyncio.create_task(handle.result(timeout="1m"))

                async def is_running() -> bool:
                    return await handle.status() is Status.RUNNING

                await eventually(is_running)
            gates[f"restart {database_dsn}"].set()  # while nobody answers
            async with serving(database_dsn, api_port=unused_tcp_port):
                assert await waiting == f"passed restart {database_dsn}"
    finally:
        await app.close()


SYNC = """
import asyncio, os, sys, threading
from tests.integration.shop import app, send_email

later = send_email.options(delay="1h")
ids = [later.submit_sync("first").id]
failures = []

def many():
    try:
        ids.extend(later.submit_sync(f"thread {n}").id for n in range(5))
    except BaseException as error:
        failures.append(error)

threads = [threading.Thread(target=many) for _ in range(4)]
for thread in threads:
    thread.start()

async def inside():
    ids.append(later.submit_sync("inside a loop").id)
    ids.append((await later.submit("awaited")).id)
    assert app.handle(ids[-1], send_email).status_sync() == "SCHEDULED"

asyncio.run(inside())
asyncio.run(inside())  # another loop
for thread in threads:
    thread.join()
child = os.fork()
ids.append(later.submit_sync(f"forked {child == 0}").id)
if child == 0:
    sys.exit(0 if app.handle(ids[0]).task_sync().payload == {"user_id": "first"} else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
ids.append(later.submit_sync("after the child").id)
assert app.submit_many_sync(later.prepare(f"m {n}") for n in range(3)) == 3
assert not failures, failures
assert len(set(ids)) == 27, len(set(ids))
print("done")
"""


@pytest.mark.parametrize("way", WAYS)
async def test_from_synchronous_code_threads_forks_and_inside_a_loop(
    way: str, database_dsn: str
) -> None:
    async with serving(database_dsn) as api:
        reach = {"GNOMON_URL": str(api._base_url)}
        if way == "direct":
            reach = {"DATABASE_URL": database_dsn}
        done = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SYNC,
            env=clean_environment(reach),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        printed, errors = await done.communicate()
    assert (done.returncode, errors.decode()) == (0, "")
    assert printed == b"done\n"
    async with await _connected(database_dsn) as connection:
        assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 31


async def test_the_ways_in_their_order(
    database: Database, database_dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("GNOMON_URL", "DATABASE_URL", "GNOMON_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    nobody = Gnomon()
    monkeypatch.setenv("GNOMON_API_PORT", "1")
    with pytest.raises(ApiUnreachable, match=r"127\.0\.0\.1:1 .*start one with `gnomon up`"):
        await nobody.client.get_tenant()
    _, key = await make_key(database)
    async with serving(database_dsn, auth_enabled=True) as api:
        monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/nowhere")
        async with Gnomon(url=str(api._base_url), key=key) as given:
            assert (await given.client.get_tenant()).tenant_id == "default"
        monkeypatch.setenv("GNOMON_URL", str(api._base_url))
        monkeypatch.setenv("GNOMON_API_KEY", key)
        async with Gnomon() as by_variable:
            assert (await by_variable.client.get_tenant()).tenant_id == "default"


async def test_a_database_that_cannot_be_used_is_named_by_its_variable(
    database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GNOMON_URL", raising=False)
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:secret@127.0.0.1:1/nowhere")
    async with Gnomon() as wrong:
        for _ in range(2):
            with pytest.raises(NotConnected, match="that DATABASE_URL names cannot be") as raised:
                await wrong.client.get_tenant()
            assert "secret" not in str(raised.value)
        with pytest.raises(NotConnected, match="DATABASE_URL"):
            wrong.sync_client.get_tenant()
    monkeypatch.setenv("DATABASE_URL", database_dsn)
    async with Gnomon(tenant="acme") as stranger:
        with pytest.raises(NotConnected, match="there is no tenant 'acme' in the database"):
            await stranger.client.get_tenant()


async def test_straight_to_the_database_as_another_tenant(
    database: Database, database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_tenant(database, "acme")
    monkeypatch.delenv("GNOMON_URL", raising=False)
    monkeypatch.setenv("DATABASE_URL", database_dsn)
    async with Gnomon(tenant="acme") as acme:

        @acme.task
        async def hello() -> None: ...

        handle = await hello.submit()
        assert (await acme.client.get_tenant()).tenant_id == "acme"
        async with Gnomon() as default:
            with pytest.raises(ResultUnavailable):
                await default.handle(handle.id, hello).result()


async def test_closing_leaves_no_connection_and_the_app_can_be_used_again(
    database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GNOMON_URL", raising=False)
    monkeypatch.setenv("DATABASE_URL", database_dsn)
    async with await _connected(database_dsn) as connection:
        for _ in range(2):
            async with app:
                handle = await send_email.options(delay="1h").submit("u")
                waiting = asyncio.create_task(handle.result())
                assert await connection.fetchval(_OTHERS) > 0
            with pytest.raises(NotConnected, match="the app was closed"):
                await waiting

            async def all_gone() -> bool:
                return bool(await connection.fetchval(_OTHERS) == 0)

            await eventually(all_gone)


_OTHERS = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)

BARE = """
import sys
for name in ("asyncpg", "litestar", "structlog"):
    sys.modules[name] = None  # as if it were not installed
from gnomon import Gnomon, NotConnected

app = Gnomon()

@app.task
def f() -> None: ...

try:
    f.submit_sync()
except NotConnected as error:
    print(error)
"""


async def test_without_the_server_extra_one_line_says_so() -> None:
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BARE,
        env=clean_environment({"DATABASE_URL": "postgresql://127.0.0.1:1/x"}),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    printed, _ = await done.communicate()
    assert printed.decode() == (
        "DATABASE_URL is set, and submitting straight to a database needs the server: "
        "pip install 'gnomon[server]'; or set GNOMON_URL to submit over HTTP\n"
    )
