"""The database of transactional handlers: a transaction for each execution, completed with it."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from gnomon.sdk.errors import ExecutionLost, InvalidHandler, NoTransaction
from gnomon.sdk.executing.context import TaskContext, optional_result
from gnomon.settings import load_with_sources

_TAKEN_OVER = "GN001"  # raised by gnomon.complete
# The result as text: the connection may have a codec of its own for JSON.
_COMPLETE = "SELECT gnomon.complete($1, $2, $3, $4, $5::text::json)"
_RIGHTS = """\
SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = 'gnomon' AND c.relkind IN ('r', 'p')
  AND has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE')"""
_NO_URL = (
    "transactional handlers need an address of their own: set GNOMON_DATABASE_HANDLER_URL to "
    "Gnomon's database, with a role that is not Gnomon's (gnomon tenants grant-role)"
)
_TOO_MANY_RIGHTS = (
    "the role in GNOMON_DATABASE_HANDLER_URL has rights over Gnomon's own tables; give handlers a "
    "role that has none, and grant it with: gnomon tenants grant-role"
)


class HandlerDatabase:
    """The connections of one process, which are opened as they are needed."""

    def __init__(self, url: str | None) -> None:
        """`url`: None is that of the settings."""
        self._url = url
        self._pool: Any = None
        self._turns = asyncio.Semaphore(0)  # as many as the pool has connections, once it is open
        self._opening = asyncio.Lock()
        self._checked = False

    async def run(self, ctx: TaskContext, call: Callable[[], Awaitable[object]]) -> object:
        """Run a handler in a transaction, and complete its task in it. Raises ExecutionLost where
        the task was taken over: then nothing of this execution is kept. Raises NotBegun where all
        connections were taken for as long as it may wait. The time of the handler counts from the
        beginning of its transaction."""
        since = ctx.waiting_since()
        pool = self._pool or await self._opened()
        turns = self._turns
        await ctx.take_turn(turns)
        try:
            ctx.end_wait(since)  # at once, or it is ended for what it has waited while it connects
            since = ctx.waiting_since()
            async with pool.acquire() as connection:
                if not self._checked:
                    await self._check(connection)
                async with connection.transaction():
                    ctx.end_wait(since)
                    return await _in_transaction(connection, ctx, call)
        finally:
            turns.release()

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.terminate()  # what is still open is of executions that were given up
            self._pool = None

    async def _opened(self) -> Any:
        async with self._opening:
            if self._pool is None:
                url, size = _address()
                url = self._url or url
                if url is None:
                    raise InvalidHandler(_NO_URL)
                asyncpg: Any = import_module("asyncpg")  # only workers have it
                # Unnamed statements: those of a session do not pass a pooler.
                self._pool = await asyncpg.create_pool(
                    url,
                    min_size=0,
                    max_size=size,
                    statement_cache_size=0,
                    connection_class=_connection_class(asyncpg),
                )
                self._turns = asyncio.Semaphore(size)
        return self._pool

    async def _check(self, connection: Any) -> None:
        if await connection.fetchval(_RIGHTS):
            raise InvalidHandler(_TOO_MANY_RIGHTS)
        self._checked = True


def _connection_class(asyncpg: Any) -> Any:
    """Connections whose transactions begin without compiling, in the same round trip: PostgreSQL
    would compile the completion anew for each task where it believes it to be long. (As in
    `gnomon.store.postgres.database`, which programs without a server do not have.)"""

    class HandlerConnection(asyncpg.Connection):  # type: ignore[misc] # as above
        _server_caps: Any

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            # Else the driver changes that setting of the session while it looks up a type, and a
            # pooler gives the session to others.
            self._server_caps = self._server_caps._replace(jit=False)

        async def execute(self, query: str, *args: Any, **options: Any) -> Any:
            if not args and query.startswith("BEGIN"):
                query = f"{query}; SET LOCAL jit = off"
            return await super().execute(query, *args, **options)

    return HandlerConnection


def check_address(url: str | None) -> None:
    """Raises InvalidHandler where neither an app nor the settings say which database it is."""
    if url is None and _address()[0] is None:
        raise InvalidHandler(_NO_URL)


def _address() -> tuple[str | None, int]:
    file = os.environ.get("GNOMON_SETTINGS")
    settings, _ = load_with_sources(os.environ, Path(file) if file else None)
    return settings.database.handler_url, settings.database.handler_connections


async def _in_transaction(
    connection: Any, ctx: TaskContext, call: Callable[[], Awaitable[object]]
) -> object:
    ctx.enter_transaction(connection)
    try:
        value = await call()
        await _complete(connection, ctx, value)
    finally:
        ctx.leave_transaction()
    return value


async def _complete(connection: Any, ctx: TaskContext, value: object) -> None:
    if not connection.is_in_transaction():
        raise NoTransaction  # the handler has ended it
    ctx.completed = True
    try:
        await connection.execute(
            _COMPLETE, ctx.tenant_id, ctx.task_id, ctx.fence, ctx.node, optional_result(value)
        )
    except Exception as error:
        if getattr(error, "sqlstate", None) != _TAKEN_OVER:
            raise
        ctx.completed = False
        raise ExecutionLost(ctx.task_id) from error
