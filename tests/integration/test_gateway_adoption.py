"""Sessions that go on at another gateway, and what must not happen on the way."""

import asyncio

import aiohttp
from tests.conftest import serving
from tests.integration.api_calls import TASKS, Api, call, submitted
from tests.integration.remote_workers import SESSIONS, TestedWorker, opened, task_for
from tests.integration.support import Connection
from tests.settings import settings_with
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.wiring.api import serve

# Quick to look, so that tests are quick.
QUICK = {
    "node_scan_seconds": 0.05,
    "node_sweep_seconds": 0.1,
    "node_lease_seconds": 2.0,
    "database_connections": 4,
}
RUNNING = "SELECT id::text, fence, node::text FROM gnomon.task WHERE state = 1"


async def status(api: Api, task_id: str) -> str:
    return str((await call(api, "GET", f"{TASKS}/{task_id}", 200))["status"])


async def fence_of(connection: Connection, task_id: str) -> int:
    query = "SELECT fence FROM gnomon.task WHERE id = $1::text::uuid"
    return int(await connection.fetchval(query, task_id))


async def test_a_worker_goes_on_at_another_gateway(
    database_dsn: str, connection: Connection
) -> None:
    async with serving(database_dsn, **QUICK) as second:
        async with serving(database_dsn, **QUICK) as first:
            worker = await opened(first)
            task = await submitted(first, task_for())
            delivery = await worker.next()
            before = delivery["fence"]
        # The first has stopped: it released nothing that the worker has.
        worker.api = second
        await worker.poll(3)  # adopts
        assert worker.answer["deliveries"] == []
        assert await fence_of(connection, task["task_id"]) == before
        await worker.poll(3)
        assert await fence_of(connection, task["task_id"]) == before
        assert await worker.settle(delivery)
        assert await status(second, task["task_id"]) == "COMPLETED"
        more = await submitted(second, task_for())
        assert (await worker.next())["task_id"] == more["task_id"]


LEFT = """
SELECT extract(epoch FROM alive_until - gnomon.now())::float8 FROM gnomon.node
WHERE incarnation = $1::text::uuid
"""


async def lease_left(connection: Connection, worker: TestedWorker) -> float:
    return float(await connection.fetchval(LEFT, worker.id))


async def test_adopting_a_session_renews_it(database_dsn: str, connection: Connection) -> None:
    """A gateway that has heard the worker may be cut off from the database before the next beat."""
    async with serving(database_dsn, **QUICK) as first, serving(database_dsn, **QUICK) as second:
        worker = await opened(first)
        end = "UPDATE gnomon.node SET alive_until = gnomon.now() + interval '1 s' WHERE kind = 2"
        await connection.execute(end)
        worker.api = second
        await worker.poll(0)
        assert 8.0 < await lease_left(connection, worker) <= 10.0


async def test_no_gateway_shortens_the_lease_that_another_one_has_granted(
    database_dsn: str, connection: Connection
) -> None:
    """Its worker relies on it until it has been told of a shorter one."""
    longer, shorter = QUICK | {"gateway_lease_seconds": 60.0}, QUICK
    async with serving(database_dsn, **longer) as first, serving(database_dsn, **shorter) as second:
        worker = await opened(first)
        worker.api = second
        await worker.poll(0)
        assert await lease_left(connection, worker) > 50.0
        assert await worker.beat() == {"lease_seconds": 10.0}
        assert await lease_left(connection, worker) > 50.0


async def test_a_waiting_poll_is_answered_when_the_gateway_stops(database_dsn: str) -> None:
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    settings = settings_with(api_port=0, **QUICK)
    async with asyncio.TaskGroup() as group:
        api = group.create_task(serve(settings, database_dsn, SystemClock(), started.set_result))
        async with aiohttp.ClientSession(await started) as client:
            worker = await opened(client)
            await worker.poll(3)
            worker.sequence += 1
            asking = group.create_task(worker.ask(worker.body(3, 20.0)))
            await worker.beat()  # by then it waits
            api.cancel()
            async with asyncio.timeout(10):
                answer = await asking
    assert (answer["deliveries"], answer["command"]) == ([], None)


async def test_what_a_dead_gateway_claimed_and_did_not_deliver_is_released_by_the_next(
    database_dsn: str, connection: Connection
) -> None:
    async with serving(database_dsn, **QUICK) as first, serving(database_dsn, **QUICK) as second:
        worker = await opened(first)
        task = await submitted(first, task_for())
        delivery = await worker.next()
        # The answer is lost with the gateway: the worker never had it.
        worker.held.clear()
        worker.api = second
        await worker.poll(0)
        assert len(await connection.fetch(RUNNING)) == 1  # nothing follows from this one
        await worker.poll(0)

        async def released() -> bool:
            return not await connection.fetch(RUNNING)

        await eventually(released)
        again = await worker.next()
        assert again["task_id"] == task["task_id"]
        assert (again["attempt"], again["fence"]) == (1, delivery["fence"] + 2)


async def test_a_poll_that_was_delayed_releases_nothing(
    database_dsn: str, connection: Connection
) -> None:
    """A gateway that stood still reads a poll whose worker has gone on elsewhere."""
    async with serving(database_dsn, **QUICK) as first, serving(database_dsn, **QUICK) as second:
        worker = await opened(first)
        await worker.poll(0)
        worker.sequence += 1
        delayed = worker.body(3)  # holds nothing
        task = await submitted(first, task_for())
        delivery = await worker.next()
        late = TestedWorker(second, worker.opened, {})
        await late.ask(delayed)  # the second gateway adopts the session
        assert await fence_of(connection, task["task_id"]) == delivery["fence"]
        await worker.poll(0)  # the first takes it back
        await worker.poll(0)
        assert await fence_of(connection, task["task_id"]) == delivery["fence"]
        assert await worker.settle(delivery)


async def test_only_one_gateway_claims_for_a_session(
    database_dsn: str, connection: Connection
) -> None:
    async with serving(database_dsn, **QUICK) as first, serving(database_dsn, **QUICK) as second:
        worker = await opened(first, slots=50)
        await worker.poll(50)  # leaves its credit with the first
        elsewhere = TestedWorker(second, worker.opened, {})
        elsewhere.sequence = worker.sequence
        elsewhere.slots = 50
        await elsewhere.poll(50)
        await elsewhere.poll(50)
        for _ in range(10):
            await submitted(first, task_for())
        got = 0
        for _ in range(40):
            await elsewhere.poll(50, 1.0)
            got = len(elsewhere.held)
            if got == 10:
                break
        assert got == 10
        rows = await connection.fetch("SELECT attempt, fence FROM gnomon.task")
        assert {(row["attempt"], row["fence"]) for row in rows} == {
            (1, 1)
        }  # none was claimed twice


async def test_a_session_whose_worker_is_silent_dies_and_its_tasks_run_elsewhere(
    database_dsn: str, connection: Connection
) -> None:
    async with serving(database_dsn, gateway_lease_seconds=3.0, **QUICK) as api:
        worker = await opened(api)
        task = await submitted(api, task_for())
        delivery = await worker.next()
        other = await opened(api)

        async def dead() -> bool:
            await other.beat()
            query = "SELECT dead FROM gnomon.node WHERE incarnation = $1::text::uuid"
            return bool(await connection.fetchval(query, worker.id))

        await eventually(dead)
        again = await other.next()
        assert (again["task_id"], again["suspect"]) == (task["task_id"], True)
        assert again["fence"] > delivery["fence"]
        await worker.beat(410)
        worker.report(delivery)
        await worker.ask(worker.body(0) | {"sequence": 99}, 410)
        assert again["asks"]
        claim = {"task_id": again["task_id"], "fence": again["fence"]}
        granted = await other.poll(0, 10.0, begin=[claim])
        assert granted["begun"] == [claim | {"granted": True}]
        assert await other.settle(again)


async def test_a_silent_session_is_lost_when_its_lease_is_over(database_dsn: str) -> None:
    """And not a lease of a node later."""
    clock = SystemClock()
    async with serving(database_dsn, gateway_lease_seconds=3.0, **QUICK) as api:
        worker = await opened(api)
        other = await opened(api)
        await worker.beat()
        beaten = clock.monotonic()

        async def gone() -> bool:
            await other.beat()
            (listed, *more) = (await call(api, "GET", SESSIONS, 200))["worker_sessions"]
            return not more and listed["session_id"] == other.id

        await eventually(gone)
        assert clock.monotonic() - beaten >= 2.9  # however busy the machine, not sooner
        nodes = (await call(api, "GET", "/api/v1/nodes", 200))["nodes"]
        (lost,) = (each for each in nodes if each["incarnation"] == worker.id)
        assert lost["dead"]


async def test_two_polls_that_adopt_at_once_adopt_once(database_dsn: str) -> None:
    async with serving(database_dsn, **QUICK) as first, serving(database_dsn, **QUICK) as second:
        worker = await opened(first)
        await worker.poll(0)
        worker.api = second
        worker.sequence += 1
        body = worker.body(1)
        answers = await asyncio.gather(*(worker.ask(body) for _ in range(8)))
        assert len({answer["epoch"] for answer in answers}) == 1
        worker.take(answers[0])
        await submitted(second, task_for())
        assert await worker.settle(await worker.next())


async def test_a_session_is_adopted_for_its_own_worker_alone(database_dsn: str) -> None:
    async with serving(database_dsn, **QUICK) as first, serving(database_dsn, **QUICK) as second:
        worker = await opened(first)
        thief = TestedWorker(second, worker.opened | {"secret": "0" * 64}, {})
        await thief.ask(thief.body(1), 403)
        await thief.beat(403)
        await thief.leave(403)
        (listed,) = (await call(second, "GET", SESSIONS, 200))["worker_sessions"]
        await worker.poll(1)
        assert listed["session_id"] == worker.id
