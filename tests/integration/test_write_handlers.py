"""The handlers of the page about handlers that complete their task with their own writes."""

from collections.abc import AsyncIterator

import pytest
from tests.integration.nodes import running_node
from tests.integration.support import Connection, database_now, end_of, key_of, store, submission
from tests.page_code import module_of

from gnomon.model.lifecycle import State
from gnomon.model.target import PythonTarget
from gnomon.model.task import DeliveryMode
from gnomon.store.postgres.database import Database

MODULE = "shop_that_books"


@pytest.fixture
async def _shop(
    database_dsn: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """A node that runs the page's handlers."""
    monkeypatch.setenv("DATABASE_URL", database_dsn)
    await connection.execute("CREATE TABLE IF NOT EXISTS public.booking (order_id bigint)")
    with module_of("how-to/write-handlers.md", MODULE):
        async with running_node(database_dsn, node_app=f"{MODULE}:app"):
            yield


@pytest.mark.usefixtures("_shop")
@pytest.mark.parametrize(
    ("handler", "result"), [("book", '{"booked":7}'), ("book_in_a_thread", None)]
)
async def test_a_booking_and_the_end_of_its_task_are_one(
    database: Database, connection: Connection, handler: str, result: str | None
) -> None:
    task = submission(
        await database_now(connection),
        task_type=handler,
        target=PythonTarget(handler),
        payload=b'{"order":7}',
        delivery=DeliveryMode.EXACTLY_ONCE,
    )
    await store(database, task)
    row = await end_of(connection, key_of(task))
    assert (row["state"], row["result"]) == (State.COMPLETED, result)
    assert await connection.fetchval("SELECT count(*) FROM booking WHERE order_id = 7") == 1
