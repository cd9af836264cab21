"""Limiters, task types and usage of a tenant; tenants, plans and nodes for operators."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from gnomon.client.call import Call, Listing, segment
from gnomon.client.types.administration import (
    BreakerInfo,
    LimiterInfo,
    LimiterSpec,
    NodesInfo,
    OwnTenantInfo,
    PlanInfo,
    TaskTypeInfo,
    TaskTypeItemInfo,
    TenantDayInfo,
    TenantEdit,
    TenantInfo,
    TenantSpec,
    TenantWithUseInfo,
    TypeDefaultsSpec,
    UsageInfo,
)


def list_limiters() -> Call[list[LimiterInfo]]:
    """Lists limiters, and how much of them is in use."""
    return Call(method="GET", path="/limiters", answer=list[LimiterInfo], member="limiters")


def get_limiter(name: str) -> Call[LimiterInfo]:
    """Reads a limiter, and how much of it is in use; its fullest keys, if it has any."""
    return Call(method="GET", path=_limiter(name), answer=LimiterInfo)


def put_limiter(name: str, limiter: LimiterSpec) -> Call[LimiterInfo]:
    """Creates a limiter, or replaces it, for all that starts from now on."""
    return Call(method="PUT", path=_limiter(name), body=limiter, answer=LimiterInfo)


def delete_limiter(name: str) -> Call[None]:
    """Removes a limiter."""
    return Call(method="DELETE", path=_limiter(name))


def list_breakers() -> Call[list[BreakerInfo]]:
    """Lists the breakers that are open, why, and how many due tasks wait for each."""
    return Call(method="GET", path="/breakers", answer=list[BreakerInfo], member="breakers")


def list_task_types() -> Call[list[TaskTypeItemInfo]]:
    """Lists the task types that have a payload schema or defaults, by name."""
    return Call(
        method="GET", path="/task-types", answer=list[TaskTypeItemInfo], member="task_types"
    )


def get_task_type(name: str) -> Call[TaskTypeInfo]:
    """Reads a task type, its payload schema and its defaults."""
    return Call(method="GET", path=_task_type(name), answer=TaskTypeInfo)


def put_task_type(
    name: str,
    schema: Mapping[str, Any] | bool = True,
    defaults: TypeDefaultsSpec | None = None,
) -> Call[TaskTypeInfo]:
    """Gives a task type this payload schema and these defaults, for all tasks from now on. What is
    not given is removed."""
    body = {"schema": schema, "defaults": defaults}
    return Call(method="PUT", path=_task_type(name), body=body, answer=TaskTypeInfo)


def delete_task_type(name: str) -> Call[None]:
    """Removes the payload schema and the defaults of a task type."""
    return Call(method="DELETE", path=_task_type(name))


def get_usage(
    *, first: date | str | None = None, last: date | str | None = None
) -> Call[UsageInfo]:
    """Reads the usage of the tenant by the day, both days included; else of the last 30."""
    query = {"from": first, "to": last}
    return Call(method="GET", path="/usage", query=query, answer=UsageInfo)


def list_tenant_usage(
    *,
    first: date | str | None = None,
    last: date | str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Listing[TenantDayInfo]:
    """Reads the usage of each tenant, by the day."""
    return Listing(
        path="/usage/tenants",
        member="usage",
        item=TenantDayInfo,
        query={"from": first, "to": last},
        limit=limit,
        cursor=cursor,
    )


def get_tenant() -> Call[OwnTenantInfo]:
    """Reads the tenant that the key is of, with the quotas in force."""
    return Call(method="GET", path="/tenant", answer=OwnTenantInfo)


def create_tenant(tenant: TenantSpec) -> Call[TenantInfo]:
    """Creates a tenant."""
    return Call(method="POST", path="/tenants", body=tenant, answer=TenantInfo)


def list_tenants(*, limit: int | None = None, cursor: str | None = None) -> Listing[TenantInfo]:
    """Lists the tenants by name, with the quotas in force."""
    return Listing(path="/tenants", member="tenants", item=TenantInfo, limit=limit, cursor=cursor)


def show_tenant(tenant_id: str) -> Call[TenantWithUseInfo]:
    """Reads a tenant, with the quotas in force and its use of them."""
    return Call(method="GET", path=_tenant(tenant_id), answer=TenantWithUseInfo)


def patch_tenant(tenant_id: str, changes: TenantEdit) -> Call[TenantInfo]:
    """Changes a tenant: every process follows within a second."""
    return Call(method="PATCH", path=_tenant(tenant_id), body=changes, answer=TenantInfo)


def delete_tenant(tenant_id: str) -> Call[None]:
    """Removes a tenant and its keys, once it has no tasks and no cron jobs."""
    return Call(method="DELETE", path=_tenant(tenant_id))


def list_plans() -> Call[list[PlanInfo]]:
    """Lists the plans of this installation, with their quotas."""
    return Call(method="GET", path="/plans", answer=list[PlanInfo], member="plans")


def list_nodes() -> Call[NodesInfo]:
    """Lists the scheduler nodes, what each serves and runs, and how far behind it is."""
    return Call(method="GET", path="/nodes", answer=NodesInfo)


def _limiter(name: str) -> str:
    return f"/limiters/{segment(name)}"


def _task_type(name: str) -> str:
    return f"/task-types/{segment(name)}"


def _tenant(tenant_id: str) -> str:
    return f"/tenants/{segment(tenant_id)}"
