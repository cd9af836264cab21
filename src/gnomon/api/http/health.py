"""Health, readiness and metrics of the process, and of those that `gnomon up` runs beside it."""

import asyncio
from contextlib import suppress
from functools import partial
from http import HTTPStatus

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Context, Request, context_of, header_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.tasks.schemas import Health
from gnomon.model.errors import StoreError, StoreUnavailable
from gnomon.observe.siblings import Siblings
from gnomon.store.ports.roster import NodeKind

# That a scrape or a probe waits for the store: who asks gives up after some seconds, and what the
# process itself counts is wanted most while all connections are taken.
STORE_SECONDS = 1.0


@Operation(
    "GET",
    "/healthz",
    name="healthz",
    role=None,
    summary="The process answers",
    answers={200: Health, 503: Health},
)
async def healthz(request: Request) -> ASGIResponse:
    context = context_of(request)
    if context.siblings is not None:
        # Anybody may ask, as often as they like: the siblings are asked once for all.
        look = partial(_finds_stuck, context.siblings)
        if await context.probes.read("/healthz", look):
            return respond(answer(503, Health("stuck")))
    return respond(answer(200, Health("ok")))


async def _finds_stuck(siblings: Siblings) -> bool:
    asked = await asyncio.to_thread(siblings.ask, "/healthz")
    return any(each.status == HTTPStatus.SERVICE_UNAVAILABLE for each in asked)


@Operation(
    "GET",
    "/readyz",
    name="readyz",
    role=None,
    summary="The process can store tasks now",
    answers={200: Health},
    errors=(503,),
)
async def readyz(request: Request) -> ASGIResponse:
    context = context_of(request)
    try:
        async with asyncio.timeout(STORE_SECONDS):
            await context.store.ping()
    except TimeoutError:
        raise StoreUnavailable(
            f"PostgreSQL is unavailable: no answer within {STORE_SECONDS:g} s, or all connections "
            "are in use"
        ) from None
    # Still 200: nobody could make room through a process that was taken out of service.
    return respond(answer(200, Health("full" if context.directory.is_full() else "ready")))


@Operation(
    "GET",
    "/metrics",
    name="metrics",
    role=Role.OPERATOR,  # it tells of all tenants; of its own, each has another one
    summary="What the process counts, as Prometheus reads it",
    answers={200: None},
    media_type="text/plain",
)
async def metrics(request: Request) -> ASGIResponse:
    context = context_of(request)
    context.metrics.requests(len(context.under_way), context.bodies.held_bytes)
    context.metrics.connections(context.connections())
    context.metrics.full(context.directory.is_full())
    context.metrics.crowded(len(context.directory.crowds))
    await _ask_store(context)
    accept = header_of(request, b"accept") or ""
    if context.siblings is None:
        body, media_type = context.metrics.text(accept)
    else:
        own = context.metrics.registry
        body, media_type = await asyncio.to_thread(context.siblings.text, own, accept)
    return ASGIResponse(body=body, media_type=media_type)


async def _ask_store(context: Context) -> None:
    """Sets what only the store knows, if it answers in time: the rest is shown in any case."""
    context.metrics.nodes({})
    with suppress(StoreError, TimeoutError):
        async with asyncio.timeout(STORE_SECONDS):
            context.metrics.nodes(await _nodes(context))
            context.metrics.unserved(len(await context.roster.unserved()))


async def _nodes(context: Context) -> dict[str, int]:
    count = {"alive": 0, "silent": 0}
    for node in await context.roster.roster():
        if node.kind is NodeKind.SESSION:
            continue
        count["alive" if node.alive_until > context.clock.now() else "silent"] += 1
    return count
