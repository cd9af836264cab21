"""What is told, and what is known, of tasks that start and are settled: here, and of dead nodes."""

from datetime import datetime
from uuid import UUID

import pytest
from tests.integration.dispatching import Parts
from tests.integration.nodes import call_of, running_node
from tests.integration.support import Connection, database_now, joined, store, submission
from tests.waiting import eventually

from gnomon.chores import Troubles
from gnomon.clock import SystemClock
from gnomon.fairness import FairQueue
from gnomon.model.fleet.pool import everything_in
from gnomon.model.fleet.shard import SHARDS
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import VerdictKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.node.settle.sweeper import Sweeper
from gnomon.node.settle.takeover import Takeover
from gnomon.observe.events import (
    Event,
    TaskSettled,
    TasksSettled,
    TasksStarted,
    TaskStarted,
    nobody,
)
from gnomon.pipe.memory import MemoryPipe
from gnomon.settings import NodeSettings
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch


class Heard:
    """A listener that keeps what it is told of tasks."""

    def __init__(self) -> None:
        self.started: list[TaskStarted] = []
        self.settled: list[TaskSettled] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, TasksStarted):
            self.started += event.tasks
        elif isinstance(event, TasksSettled):
            self.settled += event.tasks


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


async def test_each_execution_is_told_to_who_listens_whatever_others_raise(
    database: Database, database_dsn: str, now: datetime
) -> None:
    def broken(event: Event) -> None:
        raise KeyError("a bug of a listener")

    heard = Heard()
    _, good = call_of(now, "echo", task_type="good", priority=Lane.HIGH)
    _, bad = call_of(now, "reject", task_type="bad")
    async with running_node(database_dsn, listeners=(broken, heard)):
        good_key, bad_key = await store(database, good, bad)

        async def both_are_settled() -> bool:
            return len(heard.settled) == 2

        await eventually(both_are_settled)
    started = {task.key: task for task in heard.started}
    settled = {task.key: task for task in heard.settled}
    assert started.keys() == settled.keys() == {good_key, bad_key}
    assert (started[good_key].task_type, started[good_key].attempt) == ("good", 1)
    assert good.due_at <= started[good_key].due_at <= started[good_key].started_at
    assert started[good_key].delay_seconds >= 0
    told = settled[good_key]
    assert (told.task_type, told.lane, told.attempt) == ("good", started[good_key].lane, 1)
    assert (told.outcome, told.verdict, told.state) == (
        OutcomeKind.SUCCEEDED, VerdictKind.COMPLETE, State.COMPLETED,
    )  # fmt: skip
    assert told.started_at is not None
    assert told.finished_at is not None
    assert now <= told.started_at <= told.finished_at
    assert (settled[bad_key].outcome, settled[bad_key].verdict, settled[bad_key].state) == (
        OutcomeKind.FAILED, VerdictKind.DEAD_LETTER, State.DEAD,
    )  # fmt: skip
    assert settled[bad_key].error


class Swept:
    """A sweeper, turned by hand, that serves these shards, and what it tells."""

    def __init__(self, database: Database, node: UUID, now: datetime, shards: set[int]) -> None:
        clock = SystemClock()
        clock.observe(now, clock.monotonic())
        dispatch = PostgresDispatch(database, 10.0)
        lease = Lease(node, 3600.0)
        self.agenda = Agenda(FairQueue(), now, 100)
        scanner = Scanner(dispatch, self.agenda, clock, NodeSettings(window=100))
        scanner.own(everything_in(frozenset(shards)))
        self.heard = Heard()
        parts = Parts(
            dispatch, PostgresPlanning(database, clock, 10.0), self.agenda, scanner,
            MemoryPipe(1, lambda: None), HeldTasks(SuspectRoom(1, 1)), lease, clock, self.heard,
        )  # fmt: skip
        takeover = Takeover(dispatch, parts.follow_up(), Troubles(clock, nobody), self.heard)
        self.sweeper = Sweeper(dispatch, takeover, lease, clock, lambda: 0.5)


@pytest.fixture
async def of_a_dead_node(database: Database, connection: Connection, now: datetime) -> TaskKey:
    (key,) = await store(database, submission(now, task_type="orphan", log_transitions=True))
    dead = await joined(database, "dead")
    claim = await PostgresDispatch(database, 10.0).claim(dead, [key], [])
    assert len(claim.deliveries) == 1
    await connection.execute("UPDATE gnomon.node SET dead = true WHERE incarnation = $1", dead)
    return key


async def test_what_a_sweeper_takes_over_is_on_its_agenda_at_once(
    database: Database, connection: Connection, of_a_dead_node: TaskKey
) -> None:
    """As what the recorder has put back is: no scan is needed to find it."""
    now = await database_now(connection)
    swept = Swept(database, await joined(database, "me"), now, set(range(SHARDS)))
    assert (await swept.sweeper.run_once()).lost == 1
    assert swept.agenda.knows(of_a_dead_node)
    (told,) = swept.heard.settled
    assert (told.key, told.task_type, told.attempt) == (of_a_dead_node, "orphan", 1)
    assert (told.outcome, told.verdict, told.state) == (
        OutcomeKind.LOST, VerdictKind.RETRY, State.WAITING,
    )  # fmt: skip
    assert told.due_at is not None
    steps = await connection.fetch(
        "SELECT from_state, to_state, node FROM gnomon.transition ORDER BY number"
    )
    assert [tuple(step) for step in steps] == [(None, 0, None), (0, 1, "dead"), (1, 0, "dead")]


async def test_what_others_serve_is_left_to_them(
    database: Database, connection: Connection, of_a_dead_node: TaskKey
) -> None:
    now = await database_now(connection)
    others = set(range(SHARDS)) - {of_a_dead_node.id.bytes[-1]}
    swept = Swept(database, await joined(database, "me"), now, others)
    assert (await swept.sweeper.run_once()).lost == 1
    assert not swept.agenda.knows(of_a_dead_node)
