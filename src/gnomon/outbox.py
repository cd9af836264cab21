"""The outbox: tasks that wait in the program's own database, and are submitted by `gnomon relay`.

For where that database is not Gnomon's. A row is written in the transaction of the program's own
writes, so that both are there or none.
"""

from collections.abc import Coroutine
from typing import Any, overload
from uuid import UUID

import msgspec

from gnomon.sdk.errors import InvalidOption
from gnomon.sdk.submitting.drivers import (
    AsyncConnection,
    BlockingConnection,
    CursorConnection,
    Statement,
    Statements,
    carried_out,
)
from gnomon.sdk.submitting.prepared import Prepared

DDL = """\
CREATE TABLE IF NOT EXISTS gnomon_outbox (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL DEFAULT gen_random_uuid(),  -- the idempotency key of the task
    body json NOT NULL,                          -- as of POST /api/v1/tasks
    refused text  -- why it was not accepted; set it to null to try again
)"""
_PUT = """\
INSERT INTO gnomon_outbox (body) VALUES (CAST(CAST(:body AS text) AS json))
RETURNING CAST(id AS text)"""


def ddl() -> str:
    """The statement that creates the table `gnomon_outbox`, unless it is there."""
    return DDL


@overload
def put(connection: AsyncConnection, task: Prepared[Any]) -> Coroutine[Any, Any, UUID]: ...
@overload
def put(connection: BlockingConnection | CursorConnection, task: Prepared[Any]) -> UUID: ...
def put(connection: Any, task: Prepared[Any]) -> Any:
    """Write a task that was prepared to the outbox, in the transaction that is open on
    `connection`; await it where that is asynchronous. Returns its place there, which becomes the
    idempotency key of the task. Raises NoTransaction in autocommit."""
    return carried_out(connection, _put(task), in_transaction=True)


def _put(task: Prepared[Any]) -> Statements:
    if task.lifetime is not None:
        raise InvalidOption("expires= must be a time in an outbox: it is submitted again and again")
    row = yield Statement(_PUT, {"body": msgspec.json.encode(task.due_spec()).decode()})
    assert row is not None, "an INSERT with RETURNING gives its row"
    return UUID(row[0])
