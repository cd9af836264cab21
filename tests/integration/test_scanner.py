"""The scanner against a real PostgreSQL: everything found, each once, nothing read too far."""

import random
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.conftest import connected
from tests.integration.support import Connection, database_now, store, submission

from gnomon.clock import SystemClock, new_id
from gnomon.fairness import FairQueue
from gnomon.model.fleet.pool import Territory, everything_in
from gnomon.model.fleet.shard import SHARDS, shard_of
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.work.writer import Writer
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.testing import turned_clock

ALL = frozenset(range(SHARDS))


class Interrupted(PostgresDispatch):
    """Something may happen while it is asked who writes."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    async def open_writers(self) -> tuple[frozenset[Writer], datetime]:
        found = await super().open_writers()
        self.meanwhile()
        return found


class Scanning:
    """A scanner, its agenda, and somebody who takes what is due."""

    def __init__(self, database: Database, clock: SystemClock, **settings: Any) -> None:
        self.clock = clock
        self.store = Interrupted(database, 10.0)
        self.settings = msgspec.structs.replace(NodeSettings(), **settings)
        self.agenda = Agenda(FairQueue(), clock.now(), self.settings.window)
        self.scanner = Scanner(self.store, self.agenda, clock, self.settings)
        self.scanner.own(everything_in(ALL))

    def take(self) -> list[TaskKey]:
        """What is due. It stays known."""
        self.agenda.advance(self.clock.now())
        return [e.key for e in self.agenda.take(1_000_000, SuspectRoom(1, 1))]


@pytest.fixture
async def clock(connection: Connection) -> SystemClock:
    clock = SystemClock()
    asked_at = clock.monotonic()
    clock.observe(await database_now(connection), asked_at)
    return clock


async def claimed_elsewhere(connection: Connection, keys: Iterable[TaskKey]) -> None:
    await connection.execute(
        "UPDATE gnomon.task SET state = 1 WHERE id = ANY ($1::uuid[])", [k.id for k in keys]
    )


async def spread(database: Database, now: datetime, count: int, due_in: float) -> list[TaskKey]:
    """Tasks due around a time."""
    return await store(
        database, *(submission(now, due_in + random.uniform(-1, 1)) for _ in range(count))
    )


async def test_what_is_due_within_the_horizon_is_read_once(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    scanning = Scanning(database, clock, horizon_seconds=15.0)
    now = await database_now(connection)
    near = await spread(database, now, 300, 7.0)
    far = await spread(database, now, 50, 60.0)
    found = await scanning.scanner.forward()
    assert (found.read, found.new, len(scanning.agenda)) == (300, 300, 300)
    assert (await scanning.scanner.forward()).read == 0
    assert scanning.take() == []
    assert len({*near, *far}) == 350


async def test_the_cursors_go_on_where_the_window_ended(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    """A backlog larger than the window is read in pieces, as entries are consumed."""
    now = await database_now(connection)
    wanted = set(await spread(database, now, 3000, -100.0))
    scanning = Scanning(database, clock, window=800)
    found: list[TaskKey] = []
    for _ in range(60):
        await scanning.scanner.forward()
        assert len(scanning.agenda) <= 800 + SHARDS
        taken = scanning.take()
        found += taken
        await claimed_elsewhere(connection, taken)
        scanning.agenda.forget(taken)
        if len(found) == 3000:
            break
    assert len(found) == 3000
    assert set(found) == wanted


async def test_a_row_that_is_committed_late_is_found_by_a_repair(
    database: Database, database_dsn: str, connection: Connection, clock: SystemClock
) -> None:
    scanning = Scanning(database, clock)
    await scanning.scanner.repair()  # the first is a full pass
    late = await connected(database_dsn)
    try:
        async with late.transaction():
            now = await database_now(late)
            key = TaskKey("plain", new_id(now))
            await late.execute(
                """
                INSERT INTO gnomon.task (tenant_id, id, task_type, target)
                VALUES ($1, $2, 'plain', '{}')
                """,
                key.tenant_id,
                key.id,
            )
            for _ in range(3):
                assert (await scanning.scanner.forward()).read == 0
                assert (await scanning.scanner.repair()).read == 0
    finally:
        await late.close()
    assert (await scanning.scanner.forward()).read == 0  # it is behind the cursor
    assert (await scanning.scanner.repair()).new == 1
    assert scanning.take() == [key]
    assert (await scanning.scanner.repair()).new == 0


async def test_a_row_of_a_transaction_that_was_open_for_long_is_found_soon_after_its_commit(
    database: Database, database_dsn: str, connection: Connection, clock: SystemClock
) -> None:
    """Not only by the full pass, which comes twice a minute."""
    await turned_clock.install(connection)
    scanning = Scanning(database, clock)
    await scanning.scanner.repair()  # the first is a full pass
    late = await connected(database_dsn)
    try:
        async with late.transaction():
            key = TaskKey("plain", new_id(await database_now(late)))
            await late.execute(
                """
                INSERT INTO gnomon.task (tenant_id, id, task_type, target)
                VALUES ($1, $2, 'plain', '{}')
                """,
                key.tenant_id,
                key.id,
            )
            for _ in range(4):
                await turned_clock.turn(connection, 5.0)
                assert (await scanning.scanner.repair()).read == 0
                assert (await scanning.scanner.forward()).read == 0
    finally:
        await late.close()
    looks = [await scanning.scanner.repair() for _ in range(3)]  # three seconds
    assert sum(look.new for look in looks) == 1
    assert scanning.take() == [key]


async def test_everything_is_found_exactly_once_whatever_comes_in_between(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    scanning = Scanning(database, clock, window=3000)
    wanted: set[TaskKey] = set()
    found: list[TaskKey] = []
    for _ in range(25):
        now = await database_now(connection)
        new = [submission(now, random.choice([-9, -1, 0, 0.05])) for _ in range(20)]
        wanted.update(await store(database, *new))
        if random.random() < 0.5:
            scanning.scanner.hinted(
                Entry(TaskKey(s.tenant_id, s.id), s.due_at, s.priority) for s in new
            )
        await random.choice([scanning.scanner.forward, scanning.scanner.repair])()
        taken = scanning.take()
        found += taken
        await claimed_elsewhere(connection, taken)
        scanning.agenda.forget(taken)
    while len(found) < len(wanted):
        scanning.scanner.look_everywhere()
        await scanning.scanner.repair()
        await scanning.scanner.forward()
        found += scanning.take()
    assert len(found) == len(wanted)
    assert set(found) == wanted


async def test_more_rows_behind_the_cursor_than_fit_are_found_in_time(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    scanning = Scanning(database, clock, window=600)
    await scanning.scanner.forward()  # the cursors are at the horizon now
    now = await database_now(connection)
    wanted = set(await spread(database, now, 2500, -2.0))
    found: set[TaskKey] = set()
    for _ in range(100):
        await scanning.scanner.repair()
        await scanning.scanner.forward()
        taken = scanning.take()
        assert not found & set(taken)
        found.update(taken)
        await claimed_elsewhere(connection, taken)
        scanning.agenda.forget(taken)
        if found == wanted:
            break
    assert found == wanted


async def found_going_forward(scanning: Scanning, connection: Connection) -> set[TaskKey]:
    """All that is due, taken until the forward scan finds nothing more."""
    found: set[TaskKey] = set()
    while taken := scanning.take():
        found.update(taken)
        await claimed_elsewhere(connection, taken)
        scanning.agenda.forget(taken)
        await scanning.scanner.forward()
    return found


async def test_what_a_repair_has_no_room_for_is_left_to_the_forward_scan(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    """And not to the repairs to come, of which each would read only a little more."""
    scanning = Scanning(database, clock, window=600)
    await scanning.scanner.forward()
    wanted = set(await spread(database, await database_now(connection), 1500, -2.0))
    await scanning.scanner.repair()
    assert await found_going_forward(scanning, connection) == wanted


async def test_a_backlog_that_was_just_stored_is_not_read_again_by_the_forward_scan(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    """Repairs look at it in parts, and find what is committed late beside it."""
    now = await database_now(connection)
    await store(database, *(submission(now, random.uniform(1.5, 2.0)) for _ in range(1500)))
    scanning = Scanning(database, clock, window=2400)
    while (await scanning.scanner.forward()).read:
        pass
    assert len(scanning.agenda) == 1500
    for _ in range(3):
        repaired = await scanning.scanner.repair()
        assert 0 < repaired.read < 1500
        assert repaired.new == 0
        assert (await scanning.scanner.forward()).read == 0
    late = await store(database, *(submission(now, random.uniform(1.5, 2.0)) for _ in range(10)))
    # The rest of one stretch, and all of the next: two more of a shard each time.
    for _ in range(40):
        await scanning.scanner.repair()
        if all(scanning.agenda.knows(key) for key in late):
            break
    assert all(scanning.agenda.knows(key) for key in late)


async def test_a_repair_that_finds_no_room_is_not_taken_for_done(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    """Hints have filled the agenda while it was asked who writes."""
    await turned_clock.install(connection)
    scanning = Scanning(database, clock, window=300)
    await scanning.scanner.forward()
    now = await database_now(connection)
    (unheard,) = await store(database, submission(now))
    keys = [TaskKey("default", new_id(now)) for _ in range(300)]
    crowd = [Entry(key, now + timedelta(hours=1), Lane.LOW, 0, False, 1, True) for key in keys]
    scanning.store.meanwhile = lambda: scanning.scanner.hinted(crowd)
    await turned_clock.turn(connection, 20.0)
    assert (await scanning.scanner.repair()).read == 0
    assert scanning.agenda.room() <= 0
    scanning.store.meanwhile = lambda: None
    scanning.agenda.forget(keys)
    assert (await scanning.scanner.repair()).new == 1
    assert scanning.agenda.knows(unheard)


async def test_a_look_reads_what_was_stored_just_now_and_nothing_that_waits_longer(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    await turned_clock.install(connection)
    before = await spread(database, await database_now(connection), 300, -1.0)
    await turned_clock.turn(connection, 3.0)
    scanning = Scanning(database, clock)
    assert (await scanning.scanner.forward()).new == 300
    await turned_clock.turn(connection, 4.0)
    await scanning.scanner.repair()  # which tells the clock
    new = await spread(database, await database_now(connection), 200, -1.0)
    looked = await scanning.scanner.look()
    assert (looked.read, looked.new) == (200, 200)
    await turned_clock.turn(connection, 5.0)
    await scanning.scanner.repair()
    assert (await scanning.scanner.look()).read == 0
    assert set(scanning.take()) == {*before, *new}


async def test_a_look_that_meets_more_than_it_reads_leaves_the_rest_to_the_forward_scan(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    scanning = Scanning(database, clock, window=600)
    await scanning.scanner.forward()
    wanted = set(await spread(database, await database_now(connection), 1500, -1.0))
    await scanning.scanner.look()
    assert await found_going_forward(scanning, connection) == wanted


async def test_a_look_reads_everything_where_that_was_asked_for(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    """A node that left has released what was due long ago."""
    await turned_clock.install(connection)
    scanning = Scanning(database, clock)
    await scanning.scanner.forward()
    released = await spread(database, await database_now(connection), 20, -1.0)
    await turned_clock.turn(connection, 60.0)
    scanning.scanner.look_everywhere()
    assert (await scanning.scanner.look()).new == 20
    assert set(scanning.take()) == set(released)


async def test_more_at_one_instant_than_a_repair_reads_hide_nothing(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    """It goes on from a moment, and so it cannot go on within one."""
    now = await database_now(connection)
    noon = now + timedelta(seconds=1)
    herd = [submission(noon, 0.0) for _ in range(1500)]
    wanted = set(await store(database, *herd))
    scanning = Scanning(database, clock, window=2400)
    while (await scanning.scanner.forward()).read:
        pass
    wanted |= set(await store(database, *(submission(noon, 0.0) for _ in range(20))))
    await turned_clock.install(connection)
    await turned_clock.turn(connection, 2.0)
    found: set[TaskKey] = set()
    for _ in range(100):
        await scanning.scanner.repair()
        await scanning.scanner.forward()
        taken = scanning.take()
        found.update(taken)
        await claimed_elsewhere(connection, taken)
        scanning.agenda.forget(taken)
        if found == wanted:
            break
    assert found == wanted


async def test_a_window_smaller_than_the_shards_finds_everything_too(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    scanning = Scanning(database, clock, window=50)
    await scanning.scanner.forward()
    now = await database_now(connection)
    wanted = set(await spread(database, now, 300, -5.0))
    found: set[TaskKey] = set()
    for _ in range(100):
        scanning.scanner.look_everywhere()
        await scanning.scanner.repair()
        await scanning.scanner.forward()
        taken = scanning.take()
        found.update(taken)
        await claimed_elsewhere(connection, taken)
        scanning.agenda.forget(taken)
        if found == wanted:
            break
    assert found == wanted


async def test_a_full_agenda_reads_nothing(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    scanning = Scanning(database, clock, window=10)
    now = await database_now(connection)
    await spread(database, now, 300, -5.0)
    await scanning.scanner.forward()
    full = len(scanning.agenda)
    assert full >= 10
    assert (await scanning.scanner.forward()).read == 0
    assert (await scanning.scanner.repair()).read == 0
    assert scanning.scanner.hinted([Entry(TaskKey("t", new_id(now)), now, Lane.LOW)]) == 0
    assert len(scanning.agenda) == full


async def test_only_owned_shards_are_read_and_new_ones_from_their_beginning(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    scanning = Scanning(database, clock)
    mine, others = frozenset(range(100)), frozenset(range(100, SHARDS))
    now = await database_now(connection)
    keys = await spread(database, now, 600, -50.0)
    scanning.scanner.own(everything_in(mine))
    assert scanning.scanner.territory.shards == mine
    await scanning.scanner.forward()
    first = scanning.take()
    assert set(first) == {k for k in keys if shard_of(k.id) in mine}
    stranger = next(k for k in keys if shard_of(k.id) not in mine)
    assert scanning.scanner.hinted([Entry(stranger, now, Lane.LOW)]) == 0
    scanning.scanner.own(everything_in(others))
    await scanning.scanner.forward()
    assert set(scanning.take()) == {k for k in keys if shard_of(k.id) in others}


async def test_a_repair_brings_the_clock_back_to_the_databases(
    database: Database, connection: Connection
) -> None:
    clock = SystemClock()
    behind = await database_now(connection) - timedelta(hours=1)
    clock.observe(behind, clock.monotonic())
    before = await database_now(connection)
    await Scanning(database, clock).scanner.repair()
    assert before <= clock.now() <= await database_now(connection)


async def test_what_was_read_while_shards_moved_is_not_taken_in(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    class Slow(PostgresDispatch):
        """Shards move while it reads."""

        async def scan(self, *args: Any) -> list[Entry]:
            entries = await super().scan(*args)
            scanner.own(everything_in(half))
            return entries

    half = frozenset(range(0, SHARDS, 2))
    agenda = Agenda(FairQueue(), clock.now(), 1000)
    scanner = Scanner(Slow(database, 10.0), agenda, clock, NodeSettings())
    scanner.own(everything_in(ALL))
    keys = await spread(database, await database_now(connection), 200, 0.0)
    await scanner.forward()
    own = [key for key in keys if shard_of(key.id) in half]
    assert 0 < len(own) < len(keys)
    assert len(agenda) == len(own)
    assert all(agenda.knows(key) for key in own)


class Counting(PostgresDispatch):
    """Remembers from when on each shard was read again."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, 10.0)
        self.since: list[datetime] = []

    async def repair(self, *args: Any) -> list[Entry]:
        self.since = list(args[1])
        return await super().repair(*args)


async def test_a_writer_that_stays_open_is_not_read_for_until_it_ends(
    database: Database, database_dsn: str, connection: Connection, clock: SystemClock
) -> None:
    """However long it has been open: what it wrote cannot be seen before."""
    store = Counting(database)
    agenda = Agenda(FairQueue(), clock.now(), 1000)
    scanner = Scanner(store, agenda, clock, NodeSettings())
    scanner.own(everything_in(ALL))
    await scanner.forward()
    late = await connected(database_dsn)
    try:
        async with late.transaction():
            began = await database_now(late)
            key = TaskKey("plain", new_id(began))
            await late.execute(
                "INSERT INTO gnomon.task (tenant_id, id, task_type, target, due_at)"
                " VALUES ($1, $2, 'plain', '{}', now())",
                key.tenant_id,
                key.id,
            )
            # The database's clock goes on by an hour: the writer has been open for so long.
            await connection.execute(
                "CREATE OR REPLACE FUNCTION gnomon.now() RETURNS timestamptz LANGUAGE sql STABLE"
                " AS $$ SELECT clock_timestamp() + interval '1 hour' $$"
            )
            for _ in range(3):
                await scanner.repair()
            hour_later = await database_now(connection)
            assert min(store.since) > hour_later - timedelta(minutes=1)
    finally:
        await late.close()
    assert (await scanner.repair()).new == 1
    assert max(store.since) < began
    assert agenda.knows(key)
    await scanner.repair()
    assert min(store.since) > hour_later - timedelta(minutes=1)  # and then no more


async def test_the_first_repair_reads_nothing_again_that_was_there_before_the_first_scan(
    database: Database, database_dsn: str, connection: Connection, clock: SystemClock
) -> None:
    """A node that starts on a backlog reads it once; what is committed meanwhile it finds."""
    await turned_clock.install(connection)
    await spread(database, await database_now(connection), 300, -100.0)
    scanning = Scanning(database, clock)
    late = await connected(database_dsn)
    try:
        async with late.transaction():
            key = await _stored_by(late)
            await turned_clock.turn(connection, 20.0)
            assert (await scanning.scanner.forward()).new == 300
            assert (await scanning.scanner.repair()).read == 0
    finally:
        await late.close()
    assert (await scanning.scanner.repair()).new == 1
    assert key in scanning.take()


async def test_cursors_that_a_read_under_way_has_moved_are_looked_behind(
    database: Database, clock: SystemClock
) -> None:
    """All that was served goes, and something else comes, while it reads for what was before."""

    class Moved(Counting):
        async def scan(self, *args: Any) -> list[Entry]:
            entries = await super().scan(*args)
            if not moved:
                moved.append(True)
                scanner.own(Territory())
                scanner.own(everything_in(ALL))
            return entries

    moved: list[bool] = []
    store = Moved(database)
    scanner = Scanner(store, Agenda(FairQueue(), clock.now(), 1000), clock, NodeSettings())
    scanner.own(everything_in(ALL))
    for _ in range(2):
        await scanner.forward()
    await scanner.repair()
    assert max(store.since) < clock.now() - timedelta(hours=1)


async def test_what_waits_again_before_the_next_statement_is_taken_in(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    """It was claimed while another statement of the same pass read."""

    class Claimed(PostgresDispatch):
        async def open_writers(self) -> tuple[frozenset[Writer], datetime]:
            scanner.claimed(keys)
            return await super().open_writers()

    keys: list[TaskKey] = []
    agenda = Agenda(FairQueue(), clock.now(), 1000)
    scanner = Scanner(Claimed(database, 10.0), agenda, clock, NodeSettings())
    scanner.own(everything_in(ALL))
    await scanner.forward()
    keys += await spread(database, await database_now(connection), 20, -2.0)
    assert (await scanner.repair()).new == 20


async def _stored_by(late: Connection) -> TaskKey:
    """A task that is due now, in a transaction that stays open."""
    key = TaskKey("plain", new_id(await database_now(late)))
    await late.execute(
        "INSERT INTO gnomon.task (tenant_id, id, task_type, target) VALUES ($1, $2, 'plain', '{}')",
        key.tenant_id,
        key.id,
    )
    return key
