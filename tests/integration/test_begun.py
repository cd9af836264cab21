"""What becomes of tasks whose node died, by their mode and by whether they had begun."""

from datetime import datetime
from typing import NamedTuple

import msgspec
import pytest
from tests.integration.nodes import call_of, running_node
from tests.integration.support import (
    Connection,
    database_now,
    end_of,
    executions,
    joined,
    live,
    store,
)

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.quarantine import LAST
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DeliveryMode
from gnomon.node.settle.takeover import released
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch

LEAST, MOST, EXACTLY = DeliveryMode


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


class Case(NamedTuple):
    """A task of a dead node, and what must come of it."""

    mode: DeliveryMode
    begun: bool
    losses: int  # before its node died
    calls: int  # that a living node makes, or its quarantine
    tries: list[OutcomeKind]  # on record besides the one that succeeded
    state: State = State.COMPLETED


CASES = [
    # Nobody knows whether it had begun: a loss.
    Case(LEAST, begun=False, losses=0, calls=1, tries=[OutcomeKind.LOST]),
    # A node died on it before, so it would have been marked.
    Case(LEAST, begun=False, losses=1, calls=1, tries=[]),
    Case(LEAST, begun=True, losses=1, calls=1, tries=[OutcomeKind.LOST]),
    Case(LEAST, begun=True, losses=LAST - 1, calls=0, tries=[OutcomeKind.LOST], state=State.DEAD),
    Case(LEAST, begun=False, losses=LAST - 1, calls=1, tries=[]),
    Case(MOST, begun=False, losses=0, calls=1, tries=[]),
    Case(MOST, begun=True, losses=0, calls=0, tries=[OutcomeKind.LOST], state=State.DEAD),
    Case(EXACTLY, begun=False, losses=0, calls=1, tries=[]),
    Case(EXACTLY, begun=True, losses=0, calls=1, tries=[OutcomeKind.LOST]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_the_tasks_of_a_dead_node(
    case: Case, database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    _, new = call_of(now, "echo", delivery=case.mode)
    (key,) = await store(database, new)
    await connection.execute("UPDATE gnomon.task SET losses = $1", case.losses)
    dispatch, incarnation = PostgresDispatch(database, 10), await joined(database, "victim")
    claim = await dispatch.claim(incarnation, [key])
    if case.begun:
        assert {begun for begun, _ in await dispatch.begin(claim.deliveries)} == {key}
    await connection.execute(
        "UPDATE gnomon.node SET dead = true WHERE incarnation = $1", incarnation
    )

    async with running_node(database_dsn):
        row = await end_of(connection, key)
    assert row["state"] == case.state
    assert row["attempt"] == case.calls + len(case.tries)
    assert [t["outcome"] for t in await executions(connection, key)] == case.tries
    if case.mode is MOST and case.begun:
        assert "never tried again" in row["last_error"]
        assert row["losses"] == 0


async def test_only_a_claim_that_stands_may_begin(
    database: Database, connection: Connection, now: datetime
) -> None:
    dispatch, incarnation = PostgresDispatch(database, 10), await joined(database)
    other = await joined(database, "other")
    keys = await store(database, *(call_of(now, "echo", delivery=EXACTLY)[1] for _ in range(4)))
    deliveries = (await dispatch.claim(incarnation, keys)).deliveries
    good, swept, cancelled, locked = (d.key for d in deliveries)
    await connection.execute("UPDATE gnomon.task SET fence = fence + 1 WHERE id = $1", swept.id)
    await connection.execute(
        "UPDATE gnomon.task SET cancel_requested = true WHERE id = $1", cancelled.id
    )
    assert (
        await dispatch.begin([msgspec.structs.replace(d, incarnation=other) for d in deliveries])
        == set()
    )
    async with connection.transaction():
        await connection.execute("SELECT FROM gnomon.task WHERE id = $1 FOR UPDATE", locked.id)
        assert {key for key, _ in await dispatch.begin(deliveries)} == {good}
    # Asked again, as after an answer that was lost, it says the same.
    assert {key for key, _ in await dispatch.begin(deliveries)} == {good, locked}
    await connection.execute(
        "UPDATE gnomon.node SET dead = true WHERE incarnation = $1", incarnation
    )
    assert await dispatch.begin(deliveries) == set()


async def test_a_new_claim_has_not_begun(
    database: Database, connection: Connection, now: datetime
) -> None:
    dispatch, incarnation = PostgresDispatch(database, 10), await joined(database)
    (key,) = await store(database, call_of(now, "echo", delivery=EXACTLY)[1])
    claim = await dispatch.claim(incarnation, [key])
    assert {begun for begun, _ in await dispatch.begin(claim.deliveries)} == {key}
    await connection.execute("UPDATE gnomon.task SET state = 0, node = NULL, fence = fence + 1")
    assert len((await dispatch.claim(incarnation, [key])).deliveries) == 1
    (row,) = await dispatch.running_on(incarnation)
    assert (row.begun, row.mode) == (False, EXACTLY)


async def test_what_has_begun_meanwhile_is_notreleased(
    database: Database, connection: Connection, now: datetime
) -> None:
    """Whoever takes over reads first and writes then; in between, the task may begin."""
    dispatch, incarnation = PostgresDispatch(database, 10), await joined(database)
    begun, not_begun = await store(
        database, *(call_of(now, "echo", delivery=MOST)[1] for _ in range(2))
    )
    deliveries = (await dispatch.claim(incarnation, [begun, not_begun])).deliveries
    read = await dispatch.running_on(incarnation)
    assert [row.begun for row in read] == [False, False]
    asked = [d for d in deliveries if d.key == begun]
    assert {key for key, _ in await dispatch.begin(asked)} == {begun}
    given_back = await dispatch.settle([released(row) for row in read])
    assert [s.key for s in given_back] == [not_begun]
    row = await live(connection, begun)
    assert row is not None
    assert row["state"] == State.RUNNING


async def test_what_others_may_take_over_does_not_begin(
    database: Database, connection: Connection, now: datetime
) -> None:
    dispatch, incarnation = PostgresDispatch(database, 10), await joined(database)
    (key,) = await store(database, call_of(now, "echo", delivery=MOST)[1])
    claim = await dispatch.claim(incarnation, [key])
    await connection.execute("UPDATE gnomon.task SET run_until = clock_timestamp()")
    assert await dispatch.begin(claim.deliveries) == set()
