"""Task types, their schemas and their defaults on PostgreSQL."""

from collections.abc import Iterable

import asyncpg

from gnomon.model.errors import (
    GnomonError,
    SchemasTooLarge,
    TaskTypeNotFound,
    TooManyTaskTypes,
)
from gnomon.store.ports.work.task_types import (
    MOST_SCHEMA_BYTES,
    MOST_TASK_TYPES,
    TaskType,
    TaskTypeLine,
)
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query


class PostgresTaskTypes:
    """Stores the JSON Schemas and the defaults of task types."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, tenant_id: str) -> list[TaskTypeLine]:
        """All of a tenant, by name."""
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(query("list_task_types"), tenant_id)
        return [TaskTypeLine(*row) for row in rows]

    async def get(self, tenant_id: str, name: str) -> TaskType:
        """One of them. Raises TaskTypeNotFound."""
        async with self._database.scoped(tenant_id) as connection:
            row = await connection.fetchrow(query("get_task_type"), tenant_id, name)
        if row is None:
            raise TaskTypeNotFound(name)
        return _task_type(row)

    async def put(
        self, tenant_id: str, name: str, schema: bytes, defaults: bytes | None
    ) -> tuple[TaskType, bool]:
        """Give it this schema and these defaults; gives also whether it is new. Raises
        TooManyTaskTypes and SchemasTooLarge."""
        async with self._database.scoped(tenant_id) as connection:
            # Those who add to the same tenant count one after the other.
            await connection.execute(query("lock_task_types"), tenant_id)
            row = await connection.fetchrow(
                query("put_task_type"),
                tenant_id,
                name,
                schema.decode(),
                MOST_TASK_TYPES,
                MOST_SCHEMA_BYTES,
                None if defaults is None else defaults.decode(),
            )
            if row is None:
                lines = await connection.fetch(query("list_task_types"), tenant_id)
                size = len(schema) + len(defaults or b"")
                raise _refusal([TaskTypeLine(*line) for line in lines], name, size)
        return _task_type(row), row["created"]

    async def delete(self, tenant_id: str, name: str) -> None:
        """Forget it. Raises TaskTypeNotFound."""
        async with self._database.scoped(tenant_id) as connection:
            row = await connection.fetchrow(query("delete_task_type"), tenant_id, name)
        if row is None:
            raise TaskTypeNotFound(name)


def _refusal(present: Iterable[TaskTypeLine], name: str, size: int) -> GnomonError:
    others = [
        line.size + len((line.defaults or "").encode()) for line in present if line.name != name
    ]
    if len(others) >= MOST_TASK_TYPES:
        return TooManyTaskTypes(MOST_TASK_TYPES)
    return SchemasTooLarge(sum(others) + size, MOST_SCHEMA_BYTES)


def _task_type(row: asyncpg.Record) -> TaskType:
    defaults = row["defaults"]
    return TaskType(
        row["name"],
        row["schema"].encode(),
        None if defaults is None else defaults.encode(),
        row["created_at"],
        row["updated_at"],
    )
