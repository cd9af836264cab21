"""`/limiters`: how many tasks may run at once, or start within a time."""

import contextlib
import re
from datetime import datetime
from typing import Annotated

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, tenant_of
from gnomon.api.http.idempotency import answer, respond
from gnomon.api.http.operation import Operation
from gnomon.api.http.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import NoQuery
from gnomon.limits.limiter import Limiter
from gnomon.model.errors import InvalidTask, LimiterNotFound
from gnomon.model.tenant import EXECUTIONS_PER_MINUTE
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.limits import LimiterUse
from gnomon.usecases.authorization import check_whole
from gnomon.usecases.request_fields import Strict
from gnomon.usecases.text_check import check_line

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
_POINTER = re.compile(r"(/([^~/]|~[01])*)+")
_DAY = 86_400

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class PutLimiter(Strict):
    """At most `concurrency` tasks at once, at most `rate` starts in any `per_seconds`."""

    concurrency: Count | None = None
    rate: Count | None = None
    per_seconds: Annotated[float, msgspec.Meta(ge=1, le=_DAY)] = 1.0
    task_type: Annotated[
        Text | None, msgspec.Meta(description="Only tasks of this type; all without it")
    ] = None
    queue: Annotated[
        Text | None, msgspec.Meta(description="Only tasks of this queue; all without it")
    ] = None
    key: Annotated[
        Text | None,
        msgspec.Meta(
            description="A JSON pointer into the payload: each value there is limited by itself"
        ),
    ] = None


class KeyUseView(msgspec.Struct):
    """How much of one key is in use."""

    key: str
    running: int
    started: int


class LimiterView(msgspec.Struct, kw_only=True):
    """A limiter, the tasks that run under it, and the starts that count now."""

    name: str
    concurrency: int | None
    rate: int | None
    per_seconds: float
    task_type: str | None
    queue: str | None
    key: str | None
    running: int
    started: int
    keys: list[KeyUseView] | msgspec.UnsetType = msgspec.UNSET
    created_at: datetime
    updated_at: datetime


class LimiterList(msgspec.Struct):
    """All limiters, by name."""

    limiters: list[LimiterView]


@Operation(
    "GET",
    "/",
    name="list_limiters",
    role=Role.READ,
    summary="List limiters, and how much of them is in use",
    query=NoQuery,
    answers={200: LimiterList},
)
async def list_limiters(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    found = await context_of(request).limiters.list(tenant_of(request))
    return respond(answer(200, LimiterList([_view(use) for use in found])))


@Operation(
    "GET",
    "/{name:str}",
    name="get_limiter",
    role=Role.READ,
    summary="Read a limiter, and how much of it is in use; its fullest keys, if it has any",
    query=NoQuery,
    answers={200: LimiterView},
    errors=(404,),
)
async def get_limiter(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    name: str = request.path_params["name"]
    return await _shown(request, 200, name)


@Operation(
    "PUT",
    "/{name:str}",
    name="put_limiter",
    role=Role.ADMIN,
    summary="Create a limiter, or replace it, for all that starts from now on",
    body=PutLimiter,
    body_required=True,
    answers={200: LimiterView, 201: LimiterView},
    errors=(409,),
)
async def put_limiter(request: Request) -> ASGIResponse:
    body = await read_body(request, OVERHEAD_BYTES)
    name: str = request.path_params["name"]
    limiter = _limiter(tenant_of(request), name, decoded(body, PutLimiter))
    check_whole(principal_of(request), limiter.task_type)
    await _check_present(request, name)
    created = await context_of(request).limiters.put(limiter)
    return await _shown(request, 201 if created else 200, name)


@Operation(
    "DELETE",
    "/{name:str}",
    name="delete_limiter",
    role=Role.ADMIN,
    summary="Remove a limiter",
    answers={204: None},
    errors=(404,),
)
async def delete_limiter(request: Request) -> ASGIResponse:
    name: str = request.path_params["name"]
    await _check_present(request, name)
    await context_of(request).limiters.delete(tenant_of(request), _known(name))
    return respond(answer(204))


async def _check_present(request: Request, name: str) -> None:
    """Raises LimitedKey, TypeForbidden where the requester may not change this limiter."""
    by = principal_of(request)
    if by.limited:
        with contextlib.suppress(LimiterNotFound):
            present = await context_of(request).limiters.get(by.tenant_id, _known(name))
            check_whole(by, present.limiter.task_type)


async def _shown(request: Request, status: int, name: str) -> ASGIResponse:
    use = await context_of(request).limiters.get(tenant_of(request), _known(name))
    return respond(answer(status, _view(use)))


def _known(name: str) -> str:
    """The name in the path. Raises LimiterNotFound where it cannot be one."""
    if _NAME.fullmatch(name) is None:
        raise LimiterNotFound(repr(name))
    return name


def _limiter(tenant_id: str, name: str, asked: PutLimiter) -> Limiter:
    """Raises InvalidTask, with the place."""
    if _NAME.fullmatch(name) is None:
        detail = "must be up to 100 letters, digits and . _ : -, and begin with a letter or digit"
        raise InvalidTask(detail, "/name")
    if name == EXECUTIONS_PER_MINUTE:
        raise InvalidTask("is the name of a quota; choose another", "/name")
    if asked.concurrency is None and asked.rate is None:
        raise InvalidTask("say what is limited: concurrency, rate, or both", "/concurrency")
    if asked.key is not None and _POINTER.fullmatch(asked.key) is None:
        raise InvalidTask("must be a JSON pointer, e.g. /customer_id", "/key")
    for field in ("task_type", "queue", "key"):
        check_line(getattr(asked, field), f"/{field}")
    return Limiter(
        tenant_id=tenant_id,
        name=name,
        task_type=asked.task_type,
        queue=asked.queue,
        key=asked.key,
        concurrency=asked.concurrency,
        rate=asked.rate,
        per_seconds=asked.per_seconds,
    )


def _view(use: LimiterUse) -> LimiterView:
    limiter = use.limiter
    keys: list[KeyUseView] | msgspec.UnsetType = msgspec.UNSET
    if use.keys is not None:
        keys = [KeyUseView(each.key, each.running, each.started) for each in use.keys]
    return LimiterView(
        name=limiter.name,
        concurrency=limiter.concurrency,
        rate=limiter.rate,
        per_seconds=limiter.per_seconds,
        task_type=limiter.task_type,
        queue=limiter.queue,
        key=limiter.key,
        running=use.running,
        started=use.started,
        keys=keys,
        created_at=use.created_at,
        updated_at=use.updated_at,
    )


router = Router(
    "/api/v1/limiters",
    route_handlers=[list_limiters, get_limiter, put_limiter, delete_limiter],
)
