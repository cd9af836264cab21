"""The table of tasks that were worked on: `once`, `admit`, `prune` and `ddl`, for every driver."""

from collections.abc import Coroutine
from typing import Any, overload

from gnomon.model.duration import Duration
from gnomon.receive import marks
from gnomon.receive.webhooks import Received
from gnomon.sdk.submitting.drivers import (
    AsyncConnection,
    BlockingConnection,
    CursorConnection,
    carried_out,
)

Blocking = BlockingConnection | CursorConnection


def ddl() -> str:
    """The statement that creates the table `gnomon_received`, unless it is there."""
    return marks.DDL


@overload
def once(connection: AsyncConnection, received: Received[Any]) -> Coroutine[Any, Any, None]: ...
@overload
def once(connection: Blocking, received: Received[Any]) -> None: ...
def once(connection: Any, received: Received[Any]) -> Any:
    """Mark the task as done, in the transaction that is open on `connection`. Call it first, and
    await it where the connection is asynchronous. Whoever gets past it is the only one whose
    transaction is committed for this task; calls at the same time wait for it.

    Raises Repeated where the task is done, Stale where `admit` saw a later execution, and
    NoTransaction in autocommit.
    """
    return carried_out(connection, marks.once(received), in_transaction=True)


@overload
def admit(connection: AsyncConnection, received: Received[Any]) -> Coroutine[Any, Any, None]: ...
@overload
def admit(connection: Blocking, received: Received[Any]) -> None: ...
def admit(connection: Any, received: Received[Any]) -> Any:
    """Note, in a transaction that is committed at once, that this execution has arrived: from then
    on earlier ones are refused, also after this one has failed. Raises Repeated and Stale."""
    return carried_out(connection, marks.admit(received), in_transaction=False)


@overload
def prune(connection: AsyncConnection, older_than: Duration) -> Coroutine[Any, Any, int]: ...
@overload
def prune(connection: Blocking, older_than: Duration) -> int: ...
def prune(connection: Any, older_than: Duration) -> Any:
    """Remove marks that are older, and return how many. A task whose mark is gone would be worked
    on again: keep them for longer than tasks are retried and dead letters re-driven."""
    return carried_out(connection, marks.prune(older_than), in_transaction=False)
