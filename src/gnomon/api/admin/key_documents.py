"""API keys as requests and answers have them."""

import asyncio
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.api_key import ApiKey
from gnomon.access.principal import OPERATOR_ROLES, TENANT_ROLES, Grant, Role
from gnomon.api.context import Request, header_of, id_of
from gnomon.api.http.requests.cursors import cursor_view
from gnomon.api.http.requests.idempotency import HEADER, Answer, answer, respond
from gnomon.model.errors import InvalidTask
from gnomon.model.key_errors import KeyNotFound
from gnomon.model.targets.allow_list import MOST_PATTERN_CHARACTERS, MOST_PATTERNS
from gnomon.store.ports.tenancy.keys import ApiKeyPage
from gnomon.usecases.admin.allow_lists import allow_list_of
from gnomon.usecases.admin.keys import (
    DEFAULT_OVERLAP,
    LONGEST_OVERLAP,
    MOST_NAME_CHARACTERS,
    CreatedKey,
    WantedKey,
)
from gnomon.usecases.checks.request_fields import DEFAULT_LIMIT, Moment, Queue, Strict, TaskType
from gnomon.usecases.checks.request_moments import moment_of
from gnomon.usecases.checks.text_check import check_line

KeyName = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_NAME_CHARACTERS)]
Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_PATTERN_CHARACTERS)]
Patterns = Annotated[tuple[Pattern, ...], msgspec.Meta(max_length=MOST_PATTERNS)]


class CreateKey(Strict):
    """A key to be created."""

    name: KeyName
    roles: Annotated[tuple[Role, ...], msgspec.Meta(min_length=1, max_length=len(TENANT_ROLES))]
    task_types: Annotated[tuple[TaskType, ...], msgspec.Meta(max_length=100)] | None = None
    queues: Annotated[
        Annotated[tuple[Queue, ...], msgspec.Meta(max_length=100)] | None,
        msgspec.Meta(description="Queues whose tasks it may run, with the role work; null: all"),
    ] = None
    functions: Annotated[
        Patterns | None,
        msgspec.Meta(description="handlers that it may call, by name, as billing.*; null: all"),
    ] = None
    hosts: Annotated[
        Patterns | None,
        msgspec.Meta(description="Hosts that it may call, as *.example.com; null: all"),
    ] = None
    expires_at: Moment | None = None


class CreateOperatorKey(Strict):
    """An operator's key to be created."""

    name: KeyName
    expires_at: Moment | None = None


class RotateKey(Strict):
    """How long the old key and the new one work side by side."""

    overlap_seconds: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_OVERLAP)] = DEFAULT_OVERLAP


class RevokeQuery(Strict):
    """What ends with a key."""

    cascade: Annotated[
        bool, msgspec.Meta(description="Also the keys that were made with it, and with those")
    ] = False


class KeyQuery(Strict):
    """The parameters of a list of keys."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = DEFAULT_LIMIT
    cursor: str | None = None


class KeyView(msgspec.Struct, kw_only=True):
    """The record of a key; one without a tenant is an operator's."""

    key_id: UUID
    tenant_id: str | None
    name: str
    hint: str
    roles: list[Role]
    task_types: list[str] | None
    queues: list[str] | None
    functions: list[str] | None
    hosts: list[str] | None
    created_at: Moment
    created_by: str | None
    made_by: UUID | None
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Moment | None


class MadeKey(KeyView):
    """A new key. It is shown here, and never again."""

    key: str


class KeyPage(msgspec.Struct):
    """Newest first, those that have ended among them."""

    keys: list[KeyView]
    next_cursor: str | None


def wanted_key(asked: CreateKey) -> WantedKey:
    """Raises InvalidTask, with the place."""
    for index, role in enumerate(asked.roles):
        if role not in TENANT_ROLES:
            raise InvalidTask(
                f"'{role}' is no role of a tenant's key; operators create keys of their own with "
                "POST /api/v1/operator-keys",
                f"/roles/{index}",
            )
    for index, task_type in enumerate(asked.task_types or ()):
        check_line(task_type, f"/task_types/{index}")
    for index, queue in enumerate(asked.queues or ()):
        check_line(queue, f"/queues/{index}")
    grant = Grant(
        roles=frozenset(asked.roles),
        task_types=None if asked.task_types is None else frozenset(asked.task_types),
        queues=None if asked.queues is None else frozenset(asked.queues),
        allow=allow_list_of(asked.functions, asked.hosts),
    )
    return WantedKey(name=asked.name, grant=grant, expires_at=_end(asked.expires_at))


def wanted_operator_key(asked: CreateOperatorKey) -> WantedKey:
    """Raises InvalidTask, with the place."""
    grant = Grant(roles=OPERATOR_ROLES)
    return WantedKey(name=asked.name, grant=grant, expires_at=_end(asked.expires_at))


def _end(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment_of(moment, "/expires_at")


def check_no_idempotency(request: Request) -> None:
    """Raises InvalidTask where the request has an idempotency key."""
    if header_of(request, HEADER) is not None:
        raise InvalidTask(
            "leave out the header Idempotency-Key: an answer with a key in it is not stored, so it "
            "could not be replayed"
        )


def key_id_of(request: Request) -> UUID:
    """The id in the path. Raises KeyNotFound where it cannot be one."""
    return id_of(request, "key_id", KeyNotFound)


def made(created: CreatedKey) -> ASGIResponse:
    """The answer with a new key."""
    view = MadeKey(**msgspec.structs.asdict(key_view(created.key)), key=created.secret)
    return respond(answer(201, view))


async def key_page(page: ApiKeyPage) -> ASGIResponse:
    """The answer with a page of keys."""
    # In a thread: each key may have long lists, and other requests wait for the loop.
    return respond(await asyncio.to_thread(_page, page))


def _page(page: ApiKeyPage) -> Answer:
    keys = [key_view(key) for key in page.keys]
    return answer(200, KeyPage(keys, cursor_view(page.next_cursor)))


def key_view(key: ApiKey) -> KeyView:
    return KeyView(
        key_id=key.id,
        tenant_id=key.tenant_id,
        name=key.name,
        hint=key.hint,
        roles=sorted(key.roles),
        task_types=None if key.task_types is None else sorted(key.task_types),
        queues=None if key.queues is None else sorted(key.queues),
        functions=None if key.allow.functions is None else list(key.allow.functions),
        hosts=None if key.allow.hosts is None else list(key.allow.hosts),
        created_at=key.created_at,
        created_by=key.created_by,
        made_by=key.made_by,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
    )
