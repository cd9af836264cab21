"""The tenant itself: its plan, its quotas and their use; for administrators its usage by day."""

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.dashboard.drawing.day_bars import usage_charts
from gnomon.dashboard.rendering import page
from gnomon.dashboard.text.quota_rows import quota_rows
from gnomon.store.ports.tenancy.usage import DayUsage
from gnomon.usecases.admin import usage
from gnomon.usecases.admin.usage import Days


@PageRoute("GET", "/usage", role=Role.READ)
async def show_usage(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    directory, tenant_id = context.directory, by.tenant_id
    tenant, quotas = directory.tenant(tenant_id), directory.quotas(tenant_id)
    days: Days | None = None
    used: list[DayUsage] = []
    if by.may(Role.ADMIN):  # as over the API
        days, used = await usage.of_tenant(context.usage, tenant_id, None, None)
    return page(
        request,
        "usage.html",
        tenant=tenant,
        tenant_id=tenant_id,
        quotas=quota_rows(quotas, await context.store.use(tenant_id), quotas),
        charts=[] if days is None else usage_charts(days, used),
        days=days,
        used=used[::-1],
    )


ROUTES = (show_usage,)
