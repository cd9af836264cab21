"""`/tenant`: one's own."""

from datetime import datetime

import msgspec
from litestar import route
from litestar.response.base import ASGIResponse

from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.idempotency import answer, respond
from gnomon.api.incoming import queried
from gnomon.api.openapi import Operation, described
from gnomon.api.schemas import NoQuery
from gnomon.api.tasks import READ
from gnomon.model.principal import Role
from gnomon.model.tenant import Quotas


class TenantView(msgspec.Struct, kw_only=True):
    """A tenant, and what it may use; null is no bound."""

    tenant_id: str
    plan: str
    weight: float
    quotas: Quotas
    created_at: datetime | None


@route(
    "/api/v1/tenant",
    http_method=READ,
    opt=described(
        Operation(
            name="get_tenant",
            role=Role.READ,
            summary="Read the tenant that the key or token is of, with the quotas in force",
            query=NoQuery,
            answers={200: TenantView},
        )
    ),
)
async def get_tenant(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    directory, tenant_id = context_of(request).directory, tenant_of(request)
    tenant = directory.tenant(tenant_id)
    view = TenantView(
        tenant_id=tenant_id,
        plan=tenant.plan,
        weight=tenant.weight,
        quotas=directory.quotas(tenant_id),
        created_at=tenant.created_at,
    )
    return respond(answer(200, view))
