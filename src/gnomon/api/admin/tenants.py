"""`/tenant`: the requester's own tenant."""

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import queried
from gnomon.api.tasks.schemas import NoQuery
from gnomon.model.fleet.tenant import Quotas
from gnomon.store.ports.work.tasks import QuotaUse
from gnomon.usecases.checks.request_fields import Moment


class TenantView(msgspec.Struct, kw_only=True):
    """A tenant, its quotas, and its use of them; null is no bound."""

    tenant_id: str
    plan: str
    weight: float
    quotas: Quotas
    functions: tuple[str, ...] | None  # that it is limited to
    hosts: tuple[str, ...] | None
    use: QuotaUse
    created_at: Moment | None


@Operation(
    "GET",
    "/api/v1/tenant",
    name="get_tenant",
    role=Role.READ,
    summary="Read the tenant that the key or token is of, with the quotas in force",
    query=NoQuery,
    answers={200: TenantView},
)
async def get_tenant(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    context, tenant_id = context_of(request), tenant_of(request)
    directory = context.directory
    tenant = directory.tenant(tenant_id)
    view = TenantView(
        tenant_id=tenant_id,
        plan=tenant.plan,
        weight=tenant.weight,
        quotas=directory.quotas(tenant_id),
        functions=tenant.allow.functions,
        hosts=tenant.allow.hosts,
        use=await context.store.use(tenant_id),
        created_at=tenant.created_at,
    )
    return respond(answer(200, view))
