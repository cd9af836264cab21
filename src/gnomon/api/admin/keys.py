"""`/keys`: the API keys of one's own tenant."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.api_key import RANDOM_BYTES, ApiKey, hash_of, hint_of, key_from
from gnomon.access.grant_errors import KeyForbidden, TargetForbidden, TypeForbidden
from gnomon.access.principal import Grant, Principal, Role
from gnomon.api.context import Request, context_of, header_of, principal_of
from gnomon.api.http.idempotency import HEADER, Answer, answer, respond
from gnomon.api.http.operation import Operation
from gnomon.api.http.reading import decoded, queried, read_body
from gnomon.api.tasks.views import cursor_of, cursor_view
from gnomon.clock import new_id, new_secret
from gnomon.model.allow_list import (
    MOST_PATTERN_CHARACTERS,
    MOST_PATTERNS,
    AllowList,
    function_pattern,
    host_pattern,
    listed,
)
from gnomon.model.errors import InvalidTask, KeyNotFound, RoleMissing
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.keys import NewKey, Replacement
from gnomon.usecases.fields import DEFAULT_LIMIT, Moment, Strict, TaskType
from gnomon.usecases.moments import moment_of
from gnomon.usecases.text_check import check_line

DEFAULT_OVERLAP = 24 * 3600.0
LONGEST_OVERLAP = 30 * 24 * 3600.0
MOST_NAME_CHARACTERS = 100
_UUID_LENGTH = 36

KeyName = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_NAME_CHARACTERS)]
Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_PATTERN_CHARACTERS)]
Patterns = Annotated[tuple[Pattern, ...], msgspec.Meta(max_length=MOST_PATTERNS)]


class CreateKey(Strict):
    """A key to be made."""

    name: KeyName
    roles: Annotated[tuple[Role, ...], msgspec.Meta(min_length=1, max_length=len(Role))]
    task_types: Annotated[tuple[TaskType, ...], msgspec.Meta(max_length=100)] | None = None
    functions: Annotated[
        Patterns | None,
        msgspec.Meta(description="Python functions that it may call, as billing.*; null: all"),
    ] = None
    hosts: Annotated[
        Patterns | None,
        msgspec.Meta(description="Hosts that it may call, as *.example.com; null: all"),
    ] = None
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
    """What is known of a key."""

    key_id: UUID
    name: str
    hint: str
    roles: list[Role]
    task_types: list[str] | None
    functions: list[str] | None
    hosts: list[str] | None
    created_at: datetime
    created_by: str | None
    made_by: UUID | None
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class MadeKey(KeyView):
    """A new key. It is shown here, and never again."""

    key: str


class KeyPage(msgspec.Struct):
    """Newest first, those that have ended among them."""

    keys: list[KeyView]
    next_cursor: str | None


@Operation(
    "POST",
    "/",
    name="create_key",
    role=Role.ADMIN,
    summary="Make an API key",
    body=CreateKey,
    body_required=True,
    answers={201: MadeKey},
    errors=(409,),
    needs_authentication=True,
)
async def create_key(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    _check_no_idempotency(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), CreateKey)
    now = context.clock.now()
    check_key(asked, now)
    grant = grant_of(asked)
    check_grant(by, grant)
    check_end(by, asked.expires_at, now)
    secret = key_from(new_secret(RANDOM_BYTES))
    new = NewKey(
        id=new_id(now),
        tenant_id=by.tenant_id,
        name=asked.name,
        hash=hash_of(secret),
        hint=hint_of(secret),
        roles=grant.roles,
        task_types=grant.task_types,
        allow=grant.allow,
        expires_at=asked.expires_at,
        created_by=by.name,
    )
    return _made(await context.keys.create(new, by), secret)


@Operation(
    "GET",
    "/",
    name="list_keys",
    role=Role.ADMIN,
    summary="List the API keys that may do no more than yours, newest first",
    query=KeyQuery,
    answers={200: KeyPage},
    needs_authentication=True,
)
async def list_keys(request: Request) -> ASGIResponse:
    asked, by = queried(request, KeyQuery), principal_of(request)
    page = await context_of(request).keys.list(by.tenant_id, cursor_of(asked.cursor), asked.limit)
    # Lists are held against lists, for each key, and others wait for the loop.
    return respond(await asyncio.to_thread(_page, by, page.keys, page.next_cursor))


def _page(by: Principal, keys: Sequence[ApiKey], cursor: UUID | None) -> Answer:
    covered = [key_view(key) for key in keys if by.covers(key.grant)]
    return answer(200, KeyPage(covered, cursor_view(cursor)))


@Operation(
    "POST",
    "/{key_id:str}/rotate",
    name="rotate_key",
    role=Role.ADMIN,
    summary="Make a key that takes the place of this one, which ends after an overlap",
    body=RotateKey,
    answers={201: MadeKey},
    errors=(
        404,
        409,
    ),
    needs_authentication=True,
)
async def rotate_key(request: Request) -> ASGIResponse:
    context, by, key_id = context_of(request), principal_of(request), _key_id_of(request)
    _check_no_idempotency(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), RotateKey)
    before = await context.keys.get(by.tenant_id, key_id)
    check_touch(by, before)
    secret = key_from(new_secret(RANDOM_BYTES))
    replacement = Replacement(
        id=new_id(context.clock.now()),
        hash=hash_of(secret),
        hint=hint_of(secret),
        created_by=by.name,
    )
    made = await context.keys.rotate(by.tenant_id, key_id, replacement, asked.overlap_seconds, by)
    return _made(made, secret)


@Operation(
    "DELETE",
    "/{key_id:str}",
    name="revoke_key",
    role=Role.ADMIN,
    summary="End a key: within a second it is refused everywhere",
    query=RevokeQuery,
    answers={204: None},
    errors=(404,),
    needs_authentication=True,
)
async def revoke_key(request: Request) -> ASGIResponse:
    context, by, key_id = context_of(request), principal_of(request), _key_id_of(request)
    cascade = queried(request, RevokeQuery).cascade
    check_touch(by, await context.keys.get(by.tenant_id, key_id))
    await context.keys.revoke(by.tenant_id, key_id, cascade=cascade)
    return respond(answer(204))


def check_key(asked: CreateKey, now: datetime) -> None:
    """Raises InvalidTask, with the place."""
    if not asked.name.isprintable() or asked.name != asked.name.strip():
        raise InvalidTask("must be printable, without a space at its ends", "/name")
    for index, task_type in enumerate(asked.task_types or ()):
        check_line(task_type, f"/task_types/{index}")
    if asked.expires_at is not None and moment_of(asked.expires_at, "/expires_at") <= now:
        raise InvalidTask("must be in the future", "/expires_at")


def grant_of(asked: CreateKey) -> Grant:
    """What the key is to be good for. Raises InvalidTask, with the place."""
    return Grant(
        roles=frozenset(asked.roles),
        task_types=None if asked.task_types is None else frozenset(asked.task_types),
        allow=AllowList(
            _patterns(asked.functions, function_pattern, "/functions"),
            _patterns(asked.hosts, host_pattern, "/hosts"),
        ),
    )


def _patterns(
    given: tuple[str, ...] | None, pattern: Callable[[str], str], pointer: str
) -> tuple[str, ...] | None:
    if given is None:
        return None
    found: dict[str, None] = {}
    for index, text in enumerate(given):
        try:
            found[pattern(text)] = None
        except ValueError as error:
            raise InvalidTask(str(error), f"{pointer}/{index}") from error
    return tuple(found)


def check_grant(by: Principal, grant: Grant) -> None:
    """Nobody can give what they do not have. Raises RoleMissing, TypeForbidden, TargetForbidden."""
    for role in grant.roles:
        if not by.may(role):
            raise RoleMissing(role, by.roles)
    among = "must be among those of your own key:"
    if not by.covers_types(grant):
        raise TypeForbidden(f"{among} {listed(sorted(by.task_types or ()))}", "/task_types")
    if not by.allow.covers_functions(grant.allow):
        raise TargetForbidden(f"{among} {listed(by.allow.functions)}", "/functions")
    if not by.allow.covers_hosts(grant.allow):
        raise TargetForbidden(f"{among} {listed(by.allow.hosts)}", "/hosts")


def check_end(by: Principal, expires_at: datetime | None, now: datetime) -> None:
    """Raises KeyForbidden where a key is asked for that would outlive its maker. One that is to
    have no end of its own ends with its maker."""
    if by.expires_at is not None and (expires_at or now) > by.expires_at:
        raise KeyForbidden(
            "expires_at must not be later than the end of your own key or token, "
            f"{by.expires_at:%Y-%m-%dT%H:%M:%SZ}"
        )


def check_touch(by: Principal, key: ApiKey) -> None:
    """Raises KeyForbidden where the key may do more than whoever would end or replace it."""
    if not by.covers(key.grant):
        raise KeyForbidden(
            f"the key {key.id} may do more than yours: it has roles, task types, functions or "
            "hosts that yours has not"
        )


def _check_no_idempotency(request: Request) -> None:
    if header_of(request, HEADER) is not None:
        raise InvalidTask(
            "leave out the header Idempotency-Key: an answer with a key in it is kept nowhere, "
            "so it could not be given again"
        )


def _key_id_of(request: Request) -> UUID:
    text: str = request.path_params["key_id"]
    try:
        if len(text) == _UUID_LENGTH:
            return UUID(text)
    except ValueError:
        pass
    raise KeyNotFound(text)


def _made(key: ApiKey, secret: str) -> ASGIResponse:
    made = MadeKey(**msgspec.structs.asdict(key_view(key)), key=secret)
    return respond(answer(201, made))


def key_view(key: ApiKey) -> KeyView:
    return KeyView(
        key_id=key.id,
        name=key.name,
        hint=key.hint,
        roles=sorted(key.roles),
        task_types=None if key.task_types is None else sorted(key.task_types),
        functions=None if key.allow.functions is None else list(key.allow.functions),
        hosts=None if key.allow.hosts is None else list(key.allow.hosts),
        created_at=key.created_at,
        created_by=key.created_by,
        made_by=key.made_by,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
    )


router = Router("/api/v1/keys", route_handlers=[create_key, list_keys, rotate_key, revoke_key])
