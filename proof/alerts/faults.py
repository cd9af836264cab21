"""The faults: what each does to a world, and the alerts that it has to raise."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from proof.alerts.prometheus import free_port
from proof.alerts.world import World
from tests.conftest import connected
from tests.system.harness import start_server, stop_server

from gnomon.store.embedded import EmbeddedServer

Inject = Callable[[World, EmbeddedServer], Coroutine[Any, Any, None]]
_HOT = """
INSERT INTO gnomon.task (tenant_id, id, task_type, lane, target, payload, execute_at, due_at)
SELECT 'default', overlay(uuidv7()::text PLACING '00' FROM 35)::uuid, 'limited', 2,
    '{"type": "python", "function": "limited"}', '{}', gnomon.now(), gnomon.now()
FROM generate_series(1, 200)
"""


@dataclass(frozen=True)
class Fault:
    """`seconds` is how long the alerts have to come; `may` are consequences that depend on how
    fast the machine is, and whose absence is no fault."""

    name: str
    inject: Inject
    raises: frozenset[str]
    seconds: float
    scale: float = 30
    may: frozenset[str] = frozenset()
    settings: Mapping[str, object] = field(default_factory=dict)


FAULTS: dict[str, Fault] = {}


def fault(
    *raises: str,
    seconds: float = 60,
    scale: float = 30,
    may: tuple[str, ...] = (),
    **settings: object,
) -> Callable[[Inject], Inject]:
    """Lists a fault under the name of its function."""

    def listed(inject: Inject) -> Inject:
        name = getattr(inject, "__name__", "").replace("_", "-")
        alerts = frozenset(f"Gnomon{each}" for each in raises)
        others = frozenset(f"Gnomon{each}" for each in may)
        FAULTS[name] = Fault(name, inject, alerts, seconds, scale, others, settings)
        return inject

    return listed


@fault(seconds=60)
async def control(world: World, server: EmbeddedServer) -> None:
    """Nothing but the normal load."""


@fault("ProcessDown", seconds=30)
async def node_killed(world: World, server: EmbeddedServer) -> None:
    world.nodes[0].kill()


@fault("ProcessDown", seconds=30)
async def node_paused(world: World, server: EmbeddedServer) -> None:
    """It stands still for longer than its lease, and goes on."""
    world.nodes[0].pause()
    await asyncio.sleep(10)
    world.nodes[0].go_on()


@fault("RecoveriesLasting", seconds=150, scale=6, may=("ProcessDown", "SuccessBudget"))
async def node_crashing(world: World, server: EmbeddedServer) -> None:
    """A node is killed while it runs something, as soon as it is back."""
    async with asyncio.TaskGroup() as group:
        group.create_task(world.keep_submitting("work", 10, payload={"seconds": 2.0}))
        while True:
            await asyncio.sleep(2)
            world.nodes[0].kill()
            world.nodes[0].start()
            await world.nodes[0].started()


@fault("NoNode", "NoProgress", "ProcessDown", seconds=40)
async def all_nodes_killed(world: World, server: EmbeddedServer) -> None:
    for node in world.nodes:
        node.kill()


@fault("BreakersOpen", seconds=60)
async def receiver_down(world: World, server: EmbeddedServer) -> None:
    """Nobody listens where a third of the tasks go."""
    url = f"http://127.0.0.1:{free_port()}/"
    await world.keep_submitting("hook", 10, callback_url=url)


@fault("DeadLettersMany", "DeadLettersGrowing", "FailuresMany", "EndBudget", seconds=60)
async def dead_letter_flood(world: World, server: EmbeddedServer) -> None:
    await world.keep_submitting("reject", 10, retry_policy={"max_retries": 0})


@fault("RunTimeLong", seconds=120)
async def slow_handler(world: World, server: EmbeddedServer) -> None:
    await world.keep_submitting("work", 4, payload={"seconds": 35.0}, timeout_seconds=120)


@fault("SlotsBusy", seconds=60, node_slots=20, node_prefetch=0)
async def slots_nearly_full(world: World, server: EmbeddedServer) -> None:
    """36 of 40 slots."""
    await world.keep_submitting("work", 12, payload={"seconds": 3.0})


@fault(
    "SlotsBusy", "BacklogLarge", "BacklogGrowing", "StartDelayP95", "StartDelayP99", "StartBudget",
    seconds=90, node_slots=10, node_prefetch=0, node_batch=20,
)  # fmt: skip
async def overload(world: World, server: EmbeddedServer) -> None:
    """Eight times as much as the slots can take."""
    await world.keep_submitting("work", 60, payload={"seconds": 2.0})


@fault("LowWaiting", seconds=40)
async def low_starved(world: World, server: EmbeddedServer) -> None:
    """A limiter lets no task of priority LOW start."""
    await world.limit("limited")
    await world.submit("limited", 20, priority="LOW")


@fault("SlaMissed", seconds=40)
async def job_late(world: World, server: EmbeddedServer) -> None:
    """A job whose runs cannot start."""
    await world.limit("limited")
    body = {"task_type": "limited", "cron_expression": "*/5 * * * * *", "sla_seconds": 1}
    await world.ask("PUT", "cron-jobs/late", body)


@fault("ShardHot", seconds=60)
async def hot_shard(world: World, server: EmbeddedServer) -> None:
    """Two hundred due tasks, all in one shard."""
    await world.limit("limited")
    connection = await connected(world.dsn)
    await connection.execute(_HOT)
    await connection.close()


@fault("HandlersHung", seconds=60)
async def handler_hung(world: World, server: EmbeddedServer) -> None:
    await world.submit("hang", 2, timeout_seconds=1, retry_policy={"max_retries": 0})


@fault("WorkUnserved", seconds=60)
async def work_unserved(world: World, server: EmbeddedServer) -> None:
    """No app has a handler for it."""
    await world.submit("nobody", 3)


@fault(seconds=25, may=("DatabaseUnavailable", "ApiAvailabilityBudget", "ChoreErrors"))
async def postgresql_restarted(world: World, server: EmbeddedServer) -> None:
    stop_server(server, signal.SIGINT)
    await asyncio.sleep(2)
    start_server(server)


@fault(
    "DatabaseUnavailable", "NoProgress", "ApiAvailabilityBudget", seconds=40, may=("ChoreErrors",)
)
async def postgresql_away(world: World, server: EmbeddedServer) -> None:
    stop_server(server, signal.SIGINT)


# While its pool is used up, a process cannot count what needs PostgreSQL either.
@fault(
    "ConnectionsAwaited", "ApiLatencyBudget", seconds=25, scale=60,
    may=("NoProgress", "ApiAvailabilityBudget", "InstallationUnseen", "ProcessDown"),
)  # fmt: skip
async def table_locked(world: World, server: EmbeddedServer) -> None:
    """Somebody's transaction holds a lock that every statement about tasks needs."""
    connection = await connected(world.dsn)
    async with connection.transaction():
        await connection.execute("LOCK TABLE gnomon.task IN ACCESS EXCLUSIVE MODE")
        await asyncio.sleep(8)
    await connection.close()


@fault("ChoreUnheld", seconds=40, may=("ChoreErrors",))
async def chore_blocked(world: World, server: EmbeddedServer) -> None:
    """Somebody's transaction holds the row by which a chore is taken."""
    connection = await connected(world.dsn)
    async with connection.transaction():
        await connection.execute("SELECT FROM gnomon.chore WHERE name = 'watch' FOR UPDATE")
        await asyncio.sleep(30)
    await connection.close()


@fault("NoRoom", "ApiAvailabilityBudget", seconds=40, database_max_bytes=2**20)
async def no_room(world: World, server: EmbeddedServer) -> None:
    """The database is larger than it may be, from the start."""
