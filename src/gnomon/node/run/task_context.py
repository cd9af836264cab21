"""The execution as a function sees it, and may complete it in a transaction of its own."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.errors import ExecutionLost, NoTransaction
from gnomon.model.task import DeliveryMode
from gnomon.node.run.description import describe
from gnomon.pipe.envelope import Delivery

MAX_RESULT_BYTES = 64 * 1024

_TAKEN_OVER = "GN001"  # raised by gnomon.complete_run
_NO_TRANSACTION = "25P01"
# The result as text: the connection may have a codec of its own for JSON.
_COMPLETE = "SELECT gnomon.complete_run($1, $2, $3, $4, $5::text::json)"
_COMPLETE_BY = "SELECT gnomon.complete_run(%s::text, %s::uuid, %s::bigint, %s::uuid, %s::json)"
_PROBE = "gnomon_complete_run"

Execute = Callable[..., object]


class Connection(Protocol):
    """A connection of asyncpg, pooled or not, as far as it is needed here."""

    def is_in_transaction(self) -> bool: ...

    async def execute(self, query: str, /, *args: Any) -> str: ...


class TaskContext:
    """One execution of a task. A function whose second parameter has no default gets it
    there."""

    __slots__ = ("_delivery", "completed", "in_thread")

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self.completed = False  # in a transaction that may or may not have been committed
        self.in_thread = False

    @property
    def tenant_id(self) -> str:
        return self._delivery.key.tenant_id

    @property
    def task_id(self) -> UUID:
        """The same for every execution."""
        return self._delivery.key.id

    @property
    def attempt(self) -> int:
        """The first is 1."""
        return self._delivery.attempt

    @property
    def fence(self) -> int:
        """Grows with every execution: a store that keeps the highest can refuse the others."""
        return self._delivery.fence

    @property
    def node(self) -> UUID:
        """The incarnation of the node that runs it."""
        return self._delivery.incarnation

    @property
    def scheduled_for(self) -> datetime:
        return self._delivery.execute_at

    @property
    def idempotency_key(self) -> str | None:
        """As it was submitted."""
        return self._delivery.idempotency_key

    @property
    def mode(self) -> DeliveryMode:
        return self._delivery.mode

    async def complete(self, connection: Connection, result: object = None) -> None:
        """Complete the task within the transaction that is open on `connection` (of asyncpg): it
        is committed together with whatever else the transaction writes, or not at all.

        Raises ExecutionLost where the task was taken over: nothing of this execution must be kept.
        """
        if not connection.is_in_transaction():
            raise NoTransaction(self.task_id)
        before, self.completed = self.completed, True
        try:
            await connection.execute(
                _COMPLETE, self.tenant_id, self.task_id, self.fence, self.node, _optional(result)
            )
        except asyncpg.PostgresError as error:
            if error.sqlstate != _TAKEN_OVER:
                raise
            self.completed = before
            raise ExecutionLost(self.task_id) from error

    def complete_by(self, execute: Execute, result: object = None) -> None:
        """The same for functions in threads: `execute` is that of a DB-API connection or cursor
        with %s for parameters, such as psycopg's."""
        _check_transaction(execute, self.task_id)
        before, self.completed = self.completed, True
        values = (self.tenant_id, str(self.task_id), self.fence, str(self.node), _optional(result))
        try:
            execute(_COMPLETE_BY, values)
        except Exception as error:
            if _sqlstate(error) != _TAKEN_OVER:
                raise
            self.completed = before
            raise ExecutionLost(self.task_id) from error


def _check_transaction(execute: Execute, task_id: UUID) -> None:
    """No driver tells it the same way, but PostgreSQL has savepoints only in transactions."""
    try:
        execute(f"SAVEPOINT {_PROBE}")
        execute(f"RELEASE SAVEPOINT {_PROBE}")
    except Exception as error:
        if _sqlstate(error) != _NO_TRANSACTION:
            raise
        raise NoTransaction(task_id) from error


def _sqlstate(error: Exception) -> str | None:
    """As psycopg or, failing that, psycopg2 tells it."""
    state: str | None = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state


def _optional(result: object) -> str | None:
    return None if result is None else stored_result(result)


def stored_result(result: object) -> str:
    """As JSON. Where that cannot be, a note in its place: the work was done, so doing it again
    would be wrong, and the result alone is lost."""
    try:
        text = msgspec.json.encode(result)
    except BaseException as error:  # noqa: BLE001 - whatever the classes in a result raise
        return _note(f"the result cannot be kept as JSON: {describe(error)}")
    if len(text) > MAX_RESULT_BYTES:
        return _note(f"the result has {len(text)} bytes; {MAX_RESULT_BYTES} are kept")
    return text.decode()


def _note(text: str) -> str:
    return msgspec.json.encode({"gnomon": text}).decode()
