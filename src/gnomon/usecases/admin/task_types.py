"""Task types with a payload schema: created, replaced and removed. A limited key changes its own
task types only."""

import asyncio

from gnomon.access.principal import Principal
from gnomon.model.errors import InvalidSchema, InvalidTask, TaskTypeNotFound
from gnomon.payload_schemas.schema import PayloadSchema
from gnomon.store.ports.task_types import TaskType
from gnomon.store.postgres.tasks.task_types import PostgresTaskTypes
from gnomon.usecases.checks.authorization import check_whole
from gnomon.usecases.checks.text_check import check_line

MOST_NAME_CHARACTERS = 200  # as in a submission


async def get(store: PostgresTaskTypes, by: Principal, name: str) -> TaskType:
    """Raises TaskTypeNotFound."""
    return await store.get(by.tenant_id, _known(name))


def check_name(name: str) -> None:
    """Raises InvalidTask, with the place."""
    if len(name) > MOST_NAME_CHARACTERS:
        raise InvalidTask(f"must have at most {MOST_NAME_CHARACTERS} characters", "/name")
    check_line(name, "/name")


async def put(
    store: PostgresTaskTypes, by: Principal, name: str, schema: bytes
) -> tuple[TaskType, bool]:
    """Creates or replaces the schema of a task type; returns it, and whether it is new. Raises
    InvalidTask, InvalidSchema, LimitedKey, TypeForbidden, TooManyTaskTypes, SchemasTooLarge."""
    check_name(name)
    # In a thread: a large schema takes long, and other requests wait for the loop.
    await asyncio.to_thread(_check, schema)
    check_whole(by, name)
    return await store.put(by.tenant_id, name, schema)


async def delete(store: PostgresTaskTypes, by: Principal, name: str) -> None:
    """Raises TaskTypeNotFound, LimitedKey, TypeForbidden."""
    check_whole(by, _known(name))
    await store.delete(by.tenant_id, name)


def _known(name: str) -> str:
    """Raises TaskTypeNotFound where PostgreSQL could not store the name."""
    if "\0" in name:
        raise TaskTypeNotFound(repr(name))
    return name


def _check(schema: bytes) -> None:
    try:
        schema.decode()  # msgspec skips over what it need not understand
        PayloadSchema(schema)
    except InvalidSchema as error:
        raise error.within("/schema") from error
    except UnicodeDecodeError as error:
        raise InvalidSchema("is not UTF-8", "/schema") from error
