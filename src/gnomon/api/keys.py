"""`/keys`: the API keys of one's own tenant."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from litestar import Router, delete, post, route
from litestar.response.base import ASGIResponse

from gnomon.api.context import Request, context_of, header_of, principal_of, tenant_of
from gnomon.api.idempotency import HEADER, answer, respond
from gnomon.api.incoming import decoded, queried, read_body
from gnomon.api.openapi import Operation, described
from gnomon.api.schemas import DEFAULT_LIMIT, Moment, Strict, TaskType
from gnomon.api.submissions import check_line, moment_of
from gnomon.api.tasks import READ
from gnomon.api.views import cursor_of, cursor_view
from gnomon.clock import new_id, new_secret
from gnomon.model.api_key import RANDOM_BYTES, ApiKey, hash_of, hint_of, key_from
from gnomon.model.errors import InvalidTask, KeyNotFound, RoleMissing, TypeForbidden
from gnomon.model.principal import Principal, Role
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.key_port import NewKey, Replacement

DEFAULT_OVERLAP = 24 * 3600.0
LONGEST_OVERLAP = 30 * 24 * 3600.0
MOST_NAME_CHARACTERS = 100
_UUID_LENGTH = 36

KeyName = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_NAME_CHARACTERS)]


class CreateKey(Strict):
    """A key to be made."""

    name: KeyName
    roles: Annotated[tuple[Role, ...], msgspec.Meta(min_length=1, max_length=len(Role))]
    task_types: Annotated[tuple[TaskType, ...], msgspec.Meta(max_length=100)] | None = None
    expires_at: Moment | None = None


class RotateKey(Strict):
    """How long the old key and the new one work side by side."""

    overlap_seconds: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_OVERLAP)] = DEFAULT_OVERLAP


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
    created_at: datetime
    created_by: str | None
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


@post(
    "/",
    status_code=201,
    opt=described(
        Operation(
            name="create_key",
            role=Role.ADMIN,
            needs_authentication=True,
            summary="Make an API key",
            body=CreateKey,
            body_required=True,
            answers={201: MadeKey},
            errors=(409, 503),
        )
    ),
)
async def create_key(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    _check_no_idempotency(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), CreateKey)
    now = context.clock.now()
    check_key(asked, now)
    types = None if asked.task_types is None else frozenset(asked.task_types)
    check_grant(by, asked.roles, types)
    secret = key_from(new_secret(RANDOM_BYTES))
    new = NewKey(
        id=new_id(now),
        tenant_id=by.tenant_id,
        name=asked.name,
        hash=hash_of(secret),
        hint=hint_of(secret),
        roles=frozenset(asked.roles),
        task_types=types,
        expires_at=asked.expires_at,
        created_by=by.name,
    )
    return _made(await context.keys.create(new), secret)


@route(
    "/",
    http_method=READ,
    opt=described(
        Operation(
            name="list_keys",
            role=Role.ADMIN,
            needs_authentication=True,
            summary="List the API keys of the tenant, newest first",
            query=KeyQuery,
            answers={200: KeyPage},
            errors=(503,),
        )
    ),
)
async def list_keys(request: Request) -> ASGIResponse:
    asked = queried(request, KeyQuery)
    page = await context_of(request).keys.list(
        tenant_of(request), cursor_of(asked.cursor), asked.limit
    )
    keys = [key_view(key) for key in page.keys]
    return respond(answer(200, KeyPage(keys, cursor_view(page.next_cursor))))


@post(
    "/{key_id:str}/rotate",
    status_code=201,
    opt=described(
        Operation(
            name="rotate_key",
            role=Role.ADMIN,
            needs_authentication=True,
            summary="Make a key that takes the place of this one, which ends after an overlap",
            body=RotateKey,
            answers={201: MadeKey},
            errors=(404, 409, 503),
        )
    ),
)
async def rotate_key(request: Request) -> ASGIResponse:
    context, by, key_id = context_of(request), principal_of(request), _key_id_of(request)
    _check_no_idempotency(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), RotateKey)
    before = await context.keys.get(by.tenant_id, key_id)
    check_grant(by, before.roles, before.task_types)
    secret = key_from(new_secret(RANDOM_BYTES))
    replacement = Replacement(
        id=new_id(context.clock.now()),
        hash=hash_of(secret),
        hint=hint_of(secret),
        created_by=by.name,
    )
    made = await context.keys.rotate(by.tenant_id, key_id, replacement, asked.overlap_seconds)
    return _made(made, secret)


@delete(
    "/{key_id:str}",
    status_code=200,  # Litestar's rule for a handler that can answer with a body; it is 204
    opt=described(
        Operation(
            name="revoke_key",
            role=Role.ADMIN,
            needs_authentication=True,
            summary="End a key: within a second it is refused everywhere",
            answers={204: None},
            errors=(404, 503),
        )
    ),
)
async def revoke_key(request: Request) -> ASGIResponse:
    await context_of(request).keys.revoke(tenant_of(request), _key_id_of(request))
    return respond(answer(204))


def check_key(asked: CreateKey, now: datetime) -> None:
    """Raises InvalidTask, with the place."""
    if not asked.name.isprintable() or asked.name != asked.name.strip():
        raise InvalidTask("must be printable, without a space at its ends", "/name")
    for index, task_type in enumerate(asked.task_types or ()):
        check_line(task_type, f"/task_types/{index}")
    if asked.expires_at is not None and moment_of(asked.expires_at, "/expires_at") <= now:
        raise InvalidTask("must be in the future", "/expires_at")


def check_grant(by: Principal, roles: Iterable[Role], types: frozenset[str] | None) -> None:
    """Nobody can give what they do not have. Raises RoleMissing, TypeForbidden."""
    for role in roles:
        if not by.may(role):
            raise RoleMissing(role, by.roles)
    if by.task_types is not None and (types is None or not types <= by.task_types):
        allowed = ", ".join(sorted(by.task_types)) or "nothing"
        raise TypeForbidden(f"must be among those of your own key: {allowed}", "/task_types")


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
        created_at=key.created_at,
        created_by=key.created_by,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
    )


router = Router("/api/v1/keys", route_handlers=[create_key, list_keys, rotate_key, revoke_key])
