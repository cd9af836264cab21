"""Whether the process lives, and whether it can do its work."""

from litestar import route
from litestar.response.base import ASGIResponse

from gnomon.api.context import Request, context_of
from gnomon.api.idempotency import answer, respond
from gnomon.api.openapi import Operation, described
from gnomon.api.schemas import Health
from gnomon.api.tasks import READ


@route(
    "/healthz",
    http_method=READ,
    opt=described(Operation(name="healthz", summary="The process answers", answers={200: Health})),
)
async def healthz() -> ASGIResponse:
    return respond(answer(200, Health("ok")))


@route(
    "/readyz",
    http_method=READ,
    opt=described(
        Operation(
            name="readyz",
            summary="The process can store tasks now",
            answers={200: Health},
            errors=(503,),
        )
    ),
)
async def readyz(request: Request) -> ASGIResponse:
    await context_of(request).store.ping()
    return respond(answer(200, Health("ready")))
