"""Limits: how much of each is in use."""

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.operation import PageRoute
from gnomon.dashboard.rendering import page


@PageRoute("GET", "/limits", role=Role.READ)
async def show_limits(request: Request) -> ASGIResponse:
    found = await context_of(request).limiters.list(tenant_of(request))
    return page(request, "limits.html", limits=found)


ROUTES = (show_limits,)
