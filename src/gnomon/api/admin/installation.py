"""`/tenants`, `/plans` and `/nodes`: the installation, for its operators."""

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.admin.tenant_documents import (
    ChangeTenant,
    CreateTenant,
    PlanList,
    PlanView,
    TenantList,
    TenantQuery,
    TenantRecord,
    TenantWithUse,
    tenant_record,
    tenant_with_use,
    wanted_change,
    wanted_tenant,
)
from gnomon.api.context import Request, context_of, operator_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import NoQuery
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.admin import nodes, tenants
from gnomon.usecases.admin.nodes import DueWork, NodeStatus


class NodeList(msgspec.Struct):
    """All nodes, living ones first, and what waits for them."""

    nodes: list[NodeStatus]
    due: DueWork


@Operation(
    "POST",
    "/tenants",
    name="create_tenant",
    role=Role.OPERATOR,
    summary="Create a tenant",
    body=CreateTenant,
    body_required=True,
    answers={201: TenantRecord},
    errors=(409,),
)
async def create_tenant(request: Request) -> ASGIResponse:
    context, by = context_of(request), operator_of(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), CreateTenant)
    plans = context.directory.plans
    created = await tenants.create(context.tenants, plans, by, wanted_tenant(asked))
    return respond(answer(201, tenant_record(created)))


@Operation(
    "GET",
    "/tenants",
    name="list_tenants",
    role=Role.OPERATOR,
    summary="List the tenants by name, with the quotas in force",
    query=TenantQuery,
    answers={200: TenantList},
)
async def list_tenants(request: Request) -> ASGIResponse:
    context, asked = context_of(request), queried(request, TenantQuery)
    plans = context.directory.plans
    page = await tenants.list_page(context.tenants, plans, asked.cursor, asked.limit)
    return respond(answer(200, TenantList([*map(tenant_record, page.tenants)], page.next_cursor)))


@Operation(
    "GET",
    "/tenants/{tenant_id:str}",
    name="show_tenant",
    role=Role.OPERATOR,
    summary="Read a tenant, with the quotas in force and its use of them",
    query=NoQuery,
    answers={200: TenantWithUse},
    errors=(404,),
)
async def show_tenant(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    context = context_of(request)
    found = await tenants.get(context.tenants, context.directory.plans, _tenant_id_of(request))
    use = await context.store.use(found.tenant.id)
    return respond(answer(200, tenant_with_use(found, use)))


@Operation(
    "PATCH",
    "/tenants/{tenant_id:str}",
    name="patch_tenant",
    role=Role.OPERATOR,
    summary="Change a tenant: every process follows within a second",
    body=ChangeTenant,
    body_required=True,
    answers={200: TenantRecord},
    errors=(404,),
)
async def patch_tenant(request: Request) -> ASGIResponse:
    context, by, tenant_id = context_of(request), operator_of(request), _tenant_id_of(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), ChangeTenant)
    plans = context.directory.plans
    changed = await tenants.change(context.tenants, plans, by, tenant_id, wanted_change(asked))
    return respond(answer(200, tenant_record(changed)))


@Operation(
    "DELETE",
    "/tenants/{tenant_id:str}",
    name="delete_tenant",
    role=Role.OPERATOR,
    summary="Remove a tenant and its keys, once it has no tasks and no cron jobs",
    answers={204: None},
    errors=(404, 409),
)
async def delete_tenant(request: Request) -> ASGIResponse:
    context, by = context_of(request), operator_of(request)
    await tenants.remove(context.tenants, by, _tenant_id_of(request))
    return respond(answer(204))


@Operation(
    "GET",
    "/plans",
    name="list_plans",
    role=Role.OPERATOR,
    summary="List the plans of this installation, with their quotas",
    query=NoQuery,
    answers={200: PlanList},
)
async def list_plans(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    plans = sorted(context_of(request).directory.plans.items())
    return respond(answer(200, PlanList([PlanView(name, quotas) for name, quotas in plans])))


@Operation(
    "GET",
    "/nodes",
    name="list_nodes",
    role=Role.OPERATOR,
    summary="List the scheduler nodes, what each serves and runs, and how far behind it is",
    query=NoQuery,
    answers={200: NodeList},
)
async def list_nodes(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    context = context_of(request)
    local = context.authenticator is None  # then whoever asks is of the only tenant, too
    seen = await nodes.overview(context.nodes, with_sessions=local)
    return respond(answer(200, NodeList(seen.nodes, seen.due)))


def _tenant_id_of(request: Request) -> str:
    tenant_id: str = request.path_params["tenant_id"]
    return tenant_id


router = Router(
    "/api/v1",
    route_handlers=[
        create_tenant,
        list_tenants,
        show_tenant,
        patch_tenant,
        delete_tenant,
        list_plans,
        list_nodes,
    ],
)
