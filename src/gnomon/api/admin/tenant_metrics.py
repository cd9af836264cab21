"""`/api/v1/metrics`: what Prometheus reads of one tenant."""

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, header_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.reading import queried
from gnomon.api.tasks.schemas import NoQuery
from gnomon.model.errors import TenantNotFound
from gnomon.observe.metrics.tenant import text_of
from gnomon.usecases.tasks.tenant_metrics import tenant_metrics


@Operation(
    "GET",
    "/api/v1/metrics",
    name="get_metrics",
    role=Role.READ,
    summary="Read what is counted of the own tenant, as Prometheus reads it",
    query=NoQuery,
    answers={200: None},
    media_type="text/plain",
)
async def get_metrics(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    return await _metrics_of(request, tenant_of(request))


@Operation(
    "GET",
    "/api/v1/tenants/{tenant_id:str}/metrics",
    name="get_metrics_of_tenant",
    role=Role.OPERATOR,
    summary="Read the same of any tenant",
    query=NoQuery,
    answers={200: None},
    errors=(404,),
    media_type="text/plain",
)
async def get_metrics_of_tenant(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    tenant_id: str = request.path_params["tenant_id"]
    if not context_of(request).directory.knows(tenant_id):
        raise TenantNotFound(tenant_id)
    return await _metrics_of(request, tenant_id)


async def _metrics_of(request: Request, tenant_id: str) -> ASGIResponse:
    context = context_of(request)
    found = await tenant_metrics(context.activity, context.store, tenant_id, context.clock.now())
    body, media_type = text_of(found, header_of(request, b"accept") or "")
    return ASGIResponse(body=body, media_type=media_type)
