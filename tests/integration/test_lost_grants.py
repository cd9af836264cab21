"""A grant whose answer is lost is not forgotten: its permits would be nobody's."""

from collections.abc import Sequence
from uuid import UUID

import pytest
from tests.integration.support import Connection, database_now, joined, key_of, store, submission
from tests.integration.test_doubtful_claims import Stage

from gnomon.chores import Troubles
from gnomon.limits.exchange import Ask, PermitGrant
from gnomon.model.errors import StoreUnavailable
from gnomon.model.tasks.priority import Lane
from gnomon.node.dispatch.permit_keeper import PermitKeeper
from gnomon.observe.events import nobody
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.limits.permits import PostgresLimits


class Forgetful(PostgresLimits):
    """Grants, and loses the answer, where it is told to."""

    loses = False

    async def exchange(self, node: UUID, turn: int, asks: Sequence[Ask]) -> list[PermitGrant]:
        answer = await super().exchange(node, turn, asks)
        if self.loses:
            raise StoreUnavailable("the answer was lost")
        return answer


async def test_it_is_returned_though_nothing_waits_any_more(
    database: Database, connection: Connection
) -> None:
    await connection.execute(
        "INSERT INTO gnomon.limiter (tenant_id, name, concurrency) VALUES ('default', 'one', 1)"
    )
    task = submission(await database_now(connection))
    await store(database, task)
    flow = await connection.fetchval("SELECT flow FROM gnomon.task")
    node = await joined(database)
    stage = Stage(database, node)
    await stage.directory.load()
    limits = Forgetful(database)
    keeper = PermitKeeper(
        limits,
        stage.permits,
        stage.pipe,
        stage.clock,
        node,
        Troubles(stage.clock, nobody),
    )
    stolen = Entry(key_of(task), task.due_at, Lane.MEDIUM, flow=flow)
    for _ in range(2):  # the flow is looked up first
        assert not stage.permits.admit(stolen)
        limits.loses = bool(stage.permits.accounts)
        if limits.loses:
            with pytest.raises(StoreUnavailable):
                await keeper.run_once()
        else:
            await keeper.run_once()
    held = "SELECT sum(permits) FROM gnomon.limit_lease"
    assert await connection.fetchval(held) == 1
    limits.loses = False
    for _ in range(4):
        stage.ahead += 20
        await keeper.run_once()
    assert await connection.fetchval(held) == 0
    assert not stage.permits.accounts
