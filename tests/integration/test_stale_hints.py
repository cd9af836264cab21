"""Hints that are older than what the node has done meanwhile: of a task that runs here by now, or
of one that was changed while it was due. They take nothing from what runs, and hold nothing."""

import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from tests.integration.dispatching import Parts
from tests.integration.support import Connection, database_now, joined, store, submission

from gnomon.clock import SystemClock, new_id
from gnomon.fairness import FairQueue, SlotShares
from gnomon.model.fleet.pool import everything_in
from gnomon.model.fleet.shard import SHARDS
from gnomon.model.outcomes.quarantine import ALONE_FROM
from gnomon.model.targets.target import Target
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.dispatch.places import PlaceCheck
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.node.run.targets import Place
from gnomon.node.start_checks import StartChecks
from gnomon.pipe.envelope import Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch

TENANT = "default"


class Overtaken(PostgresDispatch):
    """Something may happen between a look at what waits and its answer."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def repair(self, *args: Any) -> list[Entry]:
        entries = await super().repair(*args)
        if self.meanwhile is not None:
            await self.meanwhile()
        return entries


class Stage:
    """A dispatcher by hand, where a tenant may hold two of four slots, and all share
    one place."""

    def __init__(self, database: Database, node: UUID) -> None:
        clock = SystemClock(time.monotonic)
        dispatch = self.store = Overtaken(database, 10.0)
        lease = Lease(node, 3600.0)
        lease.renewed(clock.monotonic())
        self.clock = clock
        self.queue = FairQueue[Entry](slots=SlotShares(4, 0, 0.5), has_others=lambda _: True)
        self.agenda = Agenda(self.queue, clock.now(), 100)
        self.scanner = Scanner(dispatch, self.agenda, clock, NodeSettings(window=100))
        self.scanner.own(everything_in(frozenset(range(SHARDS))))
        self.pipe = MemoryPipe(10, lambda: None)
        self.suspect_room = SuspectRoom(4, 10)
        parts = Parts(
            dispatch, PostgresPlanning(database, clock, 10.0), self.agenda, self.scanner, self.pipe,
            HeldTasks(self.suspect_room), lease, clock,
        )  # fmt: skip
        self.claims = parts.claims(StartChecks([PlaceCheck(_place, self.agenda, 1)]))
        self.dispatcher = parts.dispatcher(self.claims, 10)

    async def look(self) -> None:
        """See all that is due as it is now."""
        self.scanner.look_everywhere()
        await self.scanner.forward()
        await self.scanner.repair()
        self.agenda.advance(self.clock.now())

    def hinted(self, *entries: Entry) -> None:
        self.agenda.add(entries)
        self.agenda.advance(self.clock.now())

    async def claimed(self) -> int:
        return (await self.dispatcher.run_once()).claimed

    def free(self) -> int:
        """How many slots the tenant may still take."""
        taken = 0
        while self.queue.allows(TENANT, Lane.MEDIUM):
            self.queue.started(TENANT, Lane.MEDIUM)
            taken += 1
        self.queue.ended_all([(TENANT, Lane.MEDIUM, None)] * taken)
        return taken


def _place(_: Target) -> Place:
    return Place("the only one", 1)


def _seen(stage: Stage) -> list[Entry]:
    """What is ready, as it would be taken; it stays there."""
    entries = stage.agenda.take(10, SuspectRoom(1, 10))
    stage.agenda.put_back(entries)
    return entries


async def test_a_stale_hint_of_what_runs_does_not_cost_it_its_place(
    database: Database, connection: Connection
) -> None:
    stage = Stage(database, await joined(database))
    now = await database_now(connection)
    await store(database, submission(now))
    await stage.look()
    (hint,) = _seen(stage)
    assert await stage.claimed() == 1
    stage.hinted(hint)
    assert await stage.claimed() == 0
    await store(database, submission(now))
    await stage.look()
    assert await stage.claimed() == 0, "the only place is taken"

    stage.claims.settled([Report(await stage.pipe.receive())])
    assert await stage.claimed() == 1


async def test_a_stale_hint_of_a_suspect_that_runs_does_not_cost_it_its_process(
    database: Database, connection: Connection
) -> None:
    stage = Stage(database, await joined(database))
    await store(database, submission(await database_now(connection)))
    await connection.execute("UPDATE gnomon.task SET losses = $1", ALONE_FROM)
    await stage.look()
    (hint,) = _seen(stage)
    assert await stage.claimed() == 1
    held = dict(stage.suspect_room.held)
    assert held
    stage.hinted(hint)
    assert await stage.claimed() == 0
    assert stage.suspect_room.held == held


async def test_a_task_that_was_changed_while_it_was_due_holds_one_slot(
    database: Database, connection: Connection
) -> None:
    stage = Stage(database, await joined(database))
    for lane in (Lane.HIGH, Lane.LOW):
        await store(database, submission(await database_now(connection)))
        await stage.look()
        await connection.execute("UPDATE gnomon.task SET lane = $1 WHERE state = 0", lane)
        await stage.look()
        assert stage.agenda.ready == 2
        assert await stage.claimed() == 1
        delivery = await stage.pipe.receive()
        assert delivery.lane is lane
        stage.claims.settled([Report(delivery)])
        assert stage.free() == 2, "nothing runs any more"
        await connection.execute("DELETE FROM gnomon.task")


async def test_a_task_that_is_found_twice_is_stolen_with_one_slot(
    database: Database, connection: Connection
) -> None:
    stage = Stage(database, await joined(database))
    now = await database_now(connection)
    (key,) = await store(database, submission(now, priority=Lane.HIGH))
    twice = [Entry(key, now, lane) for lane in (Lane.HIGH, Lane.LOW)]
    assert (await stage.dispatcher.steal(twice)).claimed == 1
    stage.claims.settled([Report(await stage.pipe.receive())])
    assert stage.free() == 2


async def test_what_is_claimed_while_it_is_read_is_not_taken_for_waiting(
    database: Database, connection: Connection
) -> None:
    """The look began before the claim: what it saw is over. Taken in, it would be chosen and not
    claimed; and so many at once look like theft, for which all that is known is forgotten."""
    stage = Stage(database, await joined(database))
    await store(database, submission(await database_now(connection)))
    await stage.look()
    claims: list[int] = []

    async def claimed() -> None:
        claims.append(await stage.claimed())

    stage.store.meanwhile = claimed
    stage.scanner.look_everywhere()
    found = await stage.scanner.repair()
    assert (found.read, found.new, claims) == (1, 0, [1])
    assert (await stage.dispatcher.run_once()).chosen == 0


async def test_what_waits_again_after_a_claim_is_found_by_the_next_look(
    database: Database, connection: Connection
) -> None:
    stage = Stage(database, await joined(database))
    await store(database, submission(await database_now(connection)))
    await stage.look()
    stage.store.meanwhile = stage.claimed
    stage.scanner.look_everywhere()
    await stage.scanner.repair()
    stage.store.meanwhile = None
    report = Report(await stage.pipe.receive())
    stage.claims.settled([report])
    await connection.execute("UPDATE gnomon.task SET state = 0, fence = fence + 1, node = NULL")
    await stage.look()
    assert await stage.claimed() == 1


async def test_what_is_claimed_during_a_long_look_is_kept_up_to_the_size_of_the_agenda(
    database: Database, connection: Connection
) -> None:
    stage = Stage(database, await joined(database))
    now = await database_now(connection)

    async def many() -> None:
        for _ in range(50):
            stage.scanner.claimed([TaskKey(TENANT, new_id(now)) for _ in range(10)])

    stage.store.meanwhile = many
    await stage.scanner.repair()
    assert len(stage.scanner._claimed) == 100, "as many as the agenda holds"
    stage.store.meanwhile = None
    await stage.scanner.repair()
    assert not stage.scanner._claimed
