"""`/limiters`: how many tasks may run at once, or start within a time."""

from typing import Annotated

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import NoQuery
from gnomon.api.tasks.stats import CountView
from gnomon.limits.limiter import Limiter
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.insight.stats import CappedCount
from gnomon.store.ports.tenancy.limits import LimiterUse
from gnomon.usecases.admin import limiters
from gnomon.usecases.checks.request_fields import Moment, Strict

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
    waiting: CountView  # due tasks


class LimiterView(msgspec.Struct, kw_only=True):
    """A limiter, the tasks that run under it, the starts that count now, and what waits."""

    name: str
    concurrency: int | None
    rate: int | None
    per_seconds: float
    task_type: str | None
    queue: str | None
    key: str | None
    running: int
    started: int
    waiting: CountView  # due tasks that it applies to
    keys: list[KeyUseView] | msgspec.UnsetType = msgspec.UNSET
    created_at: Moment
    updated_at: Moment


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
    context = context_of(request)
    found = await limiters.list_all(context.limiters, context.store, tenant_of(request))
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
    return await _shown(request, 200)


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
    context, by = context_of(request), principal_of(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), PutLimiter)
    name = request.path_params["name"]
    limiter = Limiter(tenant_id=by.tenant_id, name=name, **msgspec.structs.asdict(asked))
    created = await limiters.put(context.limiters, by, limiter)
    return await _shown(request, 201 if created else 200)


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
    by, name = principal_of(request), request.path_params["name"]
    await limiters.delete(context_of(request).limiters, by, name)
    return respond(answer(204))


async def _shown(request: Request, status: int) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    use = await limiters.get(context.limiters, context.store, by, request.path_params["name"])
    return respond(answer(status, _view(use)))


def _view(use: LimiterUse) -> LimiterView:
    limiter = use.limiter
    keys: list[KeyUseView] | msgspec.UnsetType = msgspec.UNSET
    if use.keys is not None:
        keys = [
            KeyUseView(each.key, each.running, each.started, _count(each.waiting))
            for each in use.keys
        ]
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
        waiting=_count(use.waiting),
        keys=keys,
        created_at=use.created_at,
        updated_at=use.updated_at,
    )


def _count(waiting: CappedCount) -> CountView:
    return CountView(waiting.count, waiting.capped)


router = Router(
    "/api/v1/limiters",
    route_handlers=[list_limiters, get_limiter, put_limiter, delete_limiter],
)
