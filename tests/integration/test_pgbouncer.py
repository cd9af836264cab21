"""What a pooler in between changes, and a whole Gnomon that has one."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest
from structlog.testing import capture_logs
from tests.commands import gnomon
from tests.conftest import serving
from tests.integration import handlers
from tests.integration.api_calls import TASKS, Api, call, submitted
from tests.integration.cron_calls import JOBS, runs_of
from tests.integration.nodes import answers, call_of, receiver_on, running_node
from tests.integration.support import Connection, database_now, joined, key_of
from tests.pooler import *  # noqa: F403
from tests.pooler import PgBouncer, require
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.errors import StoreUnavailable
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.database import Database, connect, is_pooled
from gnomon.store.postgres.dispatch.roster import LeaseConnection
from gnomon.store.postgres.hints import Announcer, Listener

_SETTINGS = "SELECT current_setting('jit'), current_setting('plan_cache_mode')"
DEAF = "new tasks are found by looking only"


@pytest.fixture
async def through(database_dsn: str) -> AsyncIterator[Connection]:
    """A connection of Gnomon's own making, through PgBouncer."""
    opened = await connect(database_dsn)
    yield opened
    await opened.close()


@pytest.fixture
def own_bouncer(server_dsn: str, tmp_path: Path) -> Iterator[PgBouncer]:
    """One that this test may treat badly."""
    require()
    bouncer = PgBouncer(server_dsn, tmp_path)
    bouncer.start()
    yield bouncer
    bouncer.kill()


# Connections


async def test_a_pooler_is_noticed(database_dsn: str, direct_dsn: str) -> None:
    for dsn, pooled in ((database_dsn, True), (direct_dsn, False)):
        opened = await connect(dsn)
        assert is_pooled(opened) == pooled
        await opened.close()
        with capture_logs() as logs:
            database = Database(dsn, 1)
            await database.open()
            await database.close()
        assert ["pooler" in line["event"] for line in logs] == [True] * pooled


async def test_statements_find_their_way_whichever_server_they_meet(database: Database) -> None:
    async def ask(number: int) -> tuple[int, int]:
        async with database.connection() as connection:
            text = "SELECT pg_backend_pid(), $1::integer, pg_sleep(0.001)"
            pid, answer, _ = await connection.fetchrow(text, number)  # type: ignore[misc]
            return pid, answer

    told = await asyncio.gather(*(ask(number) for number in range(200)))
    assert [number for _, number in told] == list(range(200))
    assert len({pid for pid, _ in told}) > 1


async def test_no_server_is_left_with_a_changed_session(
    database: Database, connection: Connection
) -> None:
    """The driver turns `jit` off while it looks up a type, and on again."""
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET jit TO on")
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'"  # not a vacuum, which is not ours to end
    )
    await eventually(lambda: _four_answer(database))
    for _ in range(8):
        fresh = await connect(database.dsn)
        assert await fresh.fetchval("SELECT $1::bigint[]", [1]) == [1]
        await fresh.close()
    seen = dict(await asyncio.gather(*(_jit(database) for _ in range(4))))
    assert len(seen) > 1
    assert set(seen.values()) == {"on"}


async def _four_answer(database: Database) -> bool:
    """Whether four servers are there, and none that was ended a moment ago."""
    try:
        await asyncio.gather(*(_jit(database) for _ in range(4)))
    except (asyncpg.PostgresConnectionError, OSError):
        return False
    return True


async def _jit(database: Database) -> tuple[int, str]:
    """Of one server, for so long that others are asked meanwhile. By a connection not of our
    making, which begins transactions without settings."""
    plain = await asyncpg.connect(database.dsn, statement_cache_size=0)
    try:
        async with plain.transaction():
            await plain.execute("SELECT pg_sleep(0.2)")
            row = await plain.fetchrow("SELECT pg_backend_pid(), current_setting('jit')")
    finally:
        await plain.close(timeout=5)
    assert row is not None
    return row[0], row[1]


async def test_no_statement_is_compiled(database_dsn: str, connection: Connection) -> None:
    """Nor is anything else changed: a pooler would give the session to others."""
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET jit TO on")
    database = Database(database_dsn, 4, reserved=2)
    await database.open()
    found = set()
    for way in (
        database.connection,
        database.reserved,
        database.transaction,
        lambda: database.scoped(DEFAULT_TENANT),
    ):
        async with way() as used:
            found.add(tuple(await used.fetchrow(_SETTINGS)))  # type: ignore[arg-type]
    await database.close()
    assert found == {("off", "auto")}
    assert (await _jit(database))[1] == "on"


async def test_a_refused_statement_leaves_nothing_open(through: Connection) -> None:
    with pytest.raises(asyncpg.DivisionByZeroError):
        await through.fetchval("SELECT 1 / $1::integer", 0)
    with pytest.raises(asyncpg.DataError):
        await through.execute("SELECT $1::integer", "no number")
    assert not through.is_in_transaction()
    assert await through.fetchval("SELECT $1::integer", 7) == 7


async def test_a_cancelled_statement_is_undone(through: Connection, connection: Connection) -> None:
    await connection.execute("CREATE TABLE written (number integer)")
    slow = "INSERT INTO written SELECT $1 FROM pg_sleep(60)"
    with pytest.raises(TimeoutError):
        await through.execute(slow, 1, timeout=0.2)
    assert not through.is_in_transaction()

    async def over() -> bool:
        text = "SELECT true FROM pg_stat_activity WHERE query = $1 AND state <> 'idle'"
        return await connection.fetchval(text, slow) is None

    await eventually(over)
    assert await through.fetchval("SELECT $1::integer", 7) == 7
    assert await connection.fetchval("SELECT count(*) FROM written") == 0


async def test_text_goes_as_it_is(through: Connection) -> None:
    """What cannot run in a transaction can be said through a pooler, too."""
    await through.execute("CREATE TABLE thing (id integer)")
    await through.execute("CREATE INDEX CONCURRENTLY thing_id ON thing (id)")


async def test_the_time_zone_is_ours(database_dsn: str, connection: Connection) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET timezone TO 'Asia/Tokyo'")
    through = await connect(database_dsn)
    assert await through.fetchval("SHOW timezone") == "UTC"
    await through.close()


async def test_a_lease_does_not_wait_for_a_pooler_that_hangs(
    database: Database, direct_dsn: str, own_bouncer: PgBouncer
) -> None:
    incarnation = await joined(database)
    renewal = LeaseConnection(own_bouncer.to(direct_dsn))
    await renewal.renew(incarnation, 10.0)
    own_bouncer.freeze()
    async with asyncio.timeout(10):  # the driver itself would wait for half a minute
        with pytest.raises(StoreUnavailable):
            await renewal.renew(incarnation, 0.4)
    own_bouncer.thaw()
    await renewal.renew(incarnation, 10.0)
    await renewal.close()


async def test_whoever_waits_for_a_pooler_that_stands_still_can_be_cancelled(
    direct_dsn: str, own_bouncer: PgBouncer
) -> None:
    database = Database(own_bouncer.to(direct_dsn), 1)
    await database.open()
    own_bouncer.freeze()
    asking = asyncio.ensure_future(database.fetch_within(60.0, "find_api_keys", [b""]))
    await eventually(lambda: _is_busy(database))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    own_bouncer.thaw()
    await database.fetch_within(10.0, "find_api_keys", [b""])
    await database.close()


async def _is_busy(database: Database) -> bool:
    return database.use().used == 1


@pytest.mark.parametrize("way", ["none", "direct", "pooled", "elsewhere"])
async def test_the_doctor_looks_for_a_direct_way(
    way: str, database_dsn: str, direct_dsn: str, server_dsn: str, tmp_path: Path
) -> None:
    ways = {"direct": direct_dsn, "pooled": database_dsn, "elsewhere": server_dsn}
    env = {"DATABASE_URL": database_dsn, "GNOMON_DATABASE_DIRECT_URL": ways.get(way, "")}
    done = await asyncio.to_thread(gnomon, "doctor", "--json", cwd=tmp_path, env=env)
    (check,) = [check for check in done.json["checks"] if check["name"] == "pooler"]
    assert check["ok"] == (way == "direct")
    assert "GNOMON_DATABASE_DIRECT_URL" in check["remedy"] or check["ok"]


# Hints


class Heard:
    """What a listener says."""

    def __init__(self, dsn: str, look_seconds: float) -> None:
        self.looks = 0
        self.entries: list[Entry] = []
        self.cancels: list[TaskKey] = []
        self.listener = Listener(dsn, SystemClock(), self._due, self.cancels.append, look_seconds)

    def _due(self, entries: list[Entry] | None) -> None:
        self.looks += entries is None
        self.entries += entries or []


async def test_hints_pass_the_pooler_to_one_who_listens_past_it(
    database_dsn: str, direct_dsn: str, connection: Connection
) -> None:
    heard = Heard(direct_dsn, 3600.0)
    announcer = Announcer(database_dsn, SystemClock(), 15.0)
    _, new = call_of(await database_now(connection), "echo")
    entry = Entry(key_of(new), new.due_at, new.priority)

    async def told() -> bool:
        announcer.due([entry])
        announcer.cancel(entry.key)
        return bool(heard.entries and heard.cancels)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(heard.listener.run()), group.create_task(announcer.run())]
        await eventually(told)
        for task in tasks:
            task.cancel()
    assert (heard.entries[0], heard.cancels[0]) == (entry, entry.key)


async def test_who_cannot_listen_says_so_once_and_looks_often(database_dsn: str) -> None:
    heard = Heard(database_dsn, 0.01)

    async def looked() -> bool:
        return heard.looks > 5

    with capture_logs() as logs:
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(heard.listener.run())
            await eventually(looked)
            listening.cancel()
    (said,) = logs
    assert said["event"].startswith(DEAF)
    assert "GNOMON_DATABASE_DIRECT_URL" in said["remedy"]


async def test_a_node_with_a_direct_way_hears_of_new_tasks(
    database_dsn: str, direct_dsn: str
) -> None:
    """It looks so rarely that it would not find the second task in time by itself."""
    urls = {"database_url": database_dsn, "database_direct_url": direct_dsn}
    async with (
        serving(database_dsn) as api,
        running_node(database_dsn, node_scan_seconds=3600.0, **urls),
    ):
        for _ in range(2):
            await _ended(api, await submitted(api, _echo()), "COMPLETED")


# All together


def _echo(who: str | None = None, function: str = "echo", **fields: object) -> dict[str, object]:
    target = {"type": "python", "function": function}
    return {"task_type": "test", "target": target, "payload": {"who": who or uuid4().hex}, **fields}


async def _ended(api: Api, task: dict[str, str], status: str) -> dict[str, object]:
    async def look() -> dict[str, object] | None:
        found: dict[str, object] = await call(api, "GET", f"{TASKS}/{task['task_id']}", 200)
        return found if found["status"] == status else None

    return await eventually(look)


async def test_an_api_and_two_nodes_through_a_pooler(
    database_dsn: str, connection: Connection
) -> None:
    async def clock() -> object:
        return await database_now(connection)

    async with (
        receiver_on(clock) as receiver,  # type: ignore[arg-type]
        serving(database_dsn) as api,
        running_node(database_dsn, node_name="a"),
        running_node(database_dsn, node_name="b"),
    ):
        receiver.answer = answers(500, 200)
        retried = await submitted(
            api,
            {
                "task_type": "test",
                "callback_url": receiver.url,
                "retry_policy": {"base_seconds": 0.01, "jitter": False},
            },
        )
        job = {
            "name": "tick", "cron_expression": "* * * * * *", "task_type": "test",
            "target": {"type": "python", "function": "echo"}, "payload_template": {"who": "tick"},
        }  # fmt: skip
        await call(api, "POST", JOBS, 201, job)
        batch = {"tasks": [_echo() for _ in range(200)]}
        many = (await call(api, "POST", f"{TASKS}/batch", 202, batch))["tasks"]
        later = await submitted(api, _echo(delay_seconds=3600))
        who = uuid4().hex
        running = await submitted(api, _echo(who, "wait_at_the_gate"))

        async def at_the_gate() -> bool:
            return bool(handlers.calls[who])

        async def fired() -> bool:
            statuses = [run["status"] for run in await runs_of(api, "tick")]
            return statuses.count("COMPLETED") >= 2

        await eventually(at_the_gate)
        await call(api, "POST", f"{TASKS}/{later['task_id']}/cancel", 200, {})
        await call(api, "POST", f"{TASKS}/{running['task_id']}/cancel", 200, {"interrupt": True})
        assert (await _ended(api, later, "CANCELLED"))["attempt"] == 0
        assert (await _ended(api, running, "CANCELLED"))["attempt"] == 1
        assert (await _ended(api, retried, "COMPLETED"))["attempt"] == 2
        for task in many:
            assert (await _ended(api, task, "COMPLETED"))["attempt"] == 1
        await eventually(fired)
    assert all(len(handlers.calls[t["payload"]["who"]]) == 1 for t in batch["tasks"])  # type: ignore[index]


async def test_nothing_is_lost_when_the_pooler_dies(
    direct_dsn: str, connection: Connection, own_bouncer: PgBouncer
) -> None:
    dsn = own_bouncer.to(direct_dsn)
    accepted: list[UUID] = []
    enough = asyncio.Event()

    async def submit(api: Api) -> None:
        """On and on; what was not acknowledged does not count."""
        while not enough.is_set():
            async with api.post(TASKS, json=_echo()) as answer:
                if answer.status == 202:
                    accepted.append(UUID((await answer.json())["task_id"]))
                else:
                    assert answer.status == 503, await answer.text()

    async def more_than(count: int) -> None:
        async def enough() -> bool:
            return len(accepted) > count

        await eventually(enough)

    async with serving(dsn) as api, running_node(dsn), asyncio.TaskGroup() as group:
        submitting = [group.create_task(submit(api)) for _ in range(4)]
        for _ in range(3):
            await more_than(len(accepted) + 50)
            own_bouncer.kill()
            own_bouncer.start()
        await more_than(len(accepted) + 50)
        enough.set()
        await asyncio.wait(submitting)  # what is under way may be stored after the last look

        async def done() -> bool:
            left = await connection.fetchval("SELECT count(*) FROM gnomon.task")
            return bool(left == 0)

        await eventually(done)
    rows = await connection.fetch(
        "SELECT id, state FROM gnomon.task_archive WHERE tenant_id = $1", DEFAULT_TENANT
    )
    assert {row["id"] for row in rows} >= set(accepted)
    assert {row["state"] for row in rows} == {State.COMPLETED}


async def test_a_page_that_takes_too_long_is_given_up_through_a_pooler(
    database_dsn: str, superuser: Connection
) -> None:
    async with serving(database_dsn) as api:
        async with superuser.transaction():
            await superuser.execute("LOCK TABLE gnomon.limiter IN ACCESS EXCLUSIVE MODE")
            async with api.get("/limits") as answer:
                assert answer.status == 503
                assert "This took too long" in await answer.text()
        async with api.get("/limits") as answer:
            assert answer.status == 200
