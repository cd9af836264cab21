"""A transactional handler that may not begin any more when its transaction is open."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
import pytest
from tests.integration.own_roles import as_role, grant, login_role
from tests.integration.support import Connection

from gnomon import Depends, Gnomon, TaskContext
from gnomon.clock import SystemClock
from gnomon.model.targets.target import PythonTarget
from gnomon.node.run.targets.python import PythonCaller
from gnomon.testing.contracts.pipe import a_delivery


@pytest.fixture
async def role(superuser: Connection, connection: Connection) -> AsyncIterator[str]:
    async with login_role(superuser) as found:
        await grant(connection, found)
        yield found


@pytest.mark.parametrize("lost", [False, True])
async def test_one_whose_transaction_cannot_be_rolled_back_was_not_called(
    superuser: Connection, database_dsn: str, role: str, *, lost: bool
) -> None:
    """Where its connection was lost meanwhile, what ends the transaction raises that instead."""
    held, called = [True], []

    async def waiting(run: TaskContext) -> None:
        held.clear()
        if lost:
            pid = run.connection.get_server_pid()
            assert await superuser.fetchval("SELECT pg_terminate_backend($1, 10000)", pid)

    app = Gnomon(database=as_role(database_dsn, role))

    @app.task(delivery="exactly_once", transactional=True)
    async def book(payload: Any, _: Annotated[None, Depends(waiting)]) -> None:
        called.append(payload)

    delivery = msgspec.structs.replace(a_delivery(1), target=PythonTarget("book"))
    run, clock = TaskContext(delivery), SystemClock()
    run.begin(clock.seconds() + 60.0, clock.seconds)
    with PythonCaller(app, 1, lambda: bool(held)) as caller:
        async with app.running():
            outcome = await caller.call(delivery, b"{}", run)
    assert not held, "its dependency was made"
    assert outcome is None
    assert called == []
