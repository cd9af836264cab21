"""Task types with a payload schema or defaults: created, replaced and removed. A limited key
changes its own task types only."""

import asyncio

import msgspec

from gnomon.access.principal import Principal
from gnomon.model.errors import InvalidSchema, InvalidTask, TaskTypeNotFound
from gnomon.model.tasks.type_defaults import type_defaults
from gnomon.payload_schemas.schema import PayloadSchema
from gnomon.store.ports.work.task_types import TaskType
from gnomon.store.postgres.tasks.task_types import PostgresTaskTypes
from gnomon.usecases.checks.authorization import check_whole
from gnomon.usecases.checks.text_check import check_addressable, check_line
from gnomon.usecases.tasks.task_requests import TaskTypeDefaults
from gnomon.usecases.tasks.task_template import check_tags

MOST_NAME_CHARACTERS = 200  # as in a submission


async def get(store: PostgresTaskTypes, by: Principal, name: str) -> TaskType:
    """Raises TaskTypeNotFound."""
    return await store.get(by.tenant_id, _known(name))


def check_name(name: str) -> None:
    """Raises InvalidTask, with the place."""
    if len(name) > MOST_NAME_CHARACTERS:
        raise InvalidTask(f"must have at most {MOST_NAME_CHARACTERS} characters", "/name")
    check_line(name, "/name")
    check_addressable(name, "/name")


async def put(
    store: PostgresTaskTypes,
    by: Principal,
    name: str,
    schema: bytes,
    defaults: TaskTypeDefaults | None,
) -> tuple[TaskType, bool]:
    """Creates or replaces the schema and the defaults of a task type; returns it, and whether it is
    new. Raises InvalidTask, InvalidSchema, LimitedKey, TypeForbidden, TooManyTaskTypes,
    SchemasTooLarge."""
    check_name(name)
    kept = None if defaults is None else _checked(defaults)
    # In a thread: a large schema takes long, and other requests wait for the loop.
    await asyncio.to_thread(_check, schema)
    check_whole(by, name)
    return await store.put(by.tenant_id, name, schema, kept)


async def delete(store: PostgresTaskTypes, by: Principal, name: str) -> None:
    """Raises TaskTypeNotFound, LimitedKey, TypeForbidden."""
    check_whole(by, _known(name))
    await store.delete(by.tenant_id, name)


def _checked(defaults: TaskTypeDefaults) -> bytes | None:
    """The defaults as they are kept; None where there are none. Raises InvalidTask, with the
    place."""
    kept = msgspec.json.encode(defaults)
    try:
        check_line(defaults.queue, "/queue")
        check_tags(defaults.tags)
        type_defaults(kept).check_delivery()
    except InvalidTask as error:
        raise error.within("/defaults") from error
    return None if kept == b"{}" else kept


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
