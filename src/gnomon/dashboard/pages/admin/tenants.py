"""Tenants and plans, for operators."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.admin.tenant_documents import (
    ChangeTenant,
    CreateTenant,
    wanted_change,
    wanted_tenant,
)
from gnomon.api.context import Request, context_of, operator_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.reading import decoded, read_form
from gnomon.dashboard.drawing.day_bars import usage_charts
from gnomon.dashboard.forms.values import Refusal, lines, number, refusal_of
from gnomon.dashboard.pages.tasks.tasks import ROWS
from gnomon.dashboard.rendering import page, redirect
from gnomon.dashboard.text.quota_rows import quota_rows
from gnomon.model.errors import GnomonError
from gnomon.model.fleet.tenant import QUOTA_NAMES, STANDARD
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.tenancy.usage import TenantDay
from gnomon.usecases.admin import tenants, usage
from gnomon.usecases.admin.tenants import TenantDetails

_NEW = {"tenant_id": "", "plan": STANDARD, "weight": "1"}
_FINE = Refusal(200, {})
_PLAN, _NONE = "plan", "none"


@PageRoute("GET", "/tenants", role=Role.OPERATOR)
async def show_tenants(request: Request) -> ASGIResponse:
    return await _all(request, _NEW, _FINE)


@PageRoute("GET", "/tenants/{tenant_id:str}", role=Role.OPERATOR)
async def show_tenant(request: Request) -> ASGIResponse:
    return await _one(request, None, _FINE)


@PageRoute("GET", "/plans", role=Role.OPERATOR)
async def show_plans(request: Request) -> ASGIResponse:
    plans = sorted(context_of(request).directory.plans.items())
    return page(request, "plans.html", plans=plans, names=QUOTA_NAMES)


@PageRoute("POST", "/tenants", role=Role.OPERATOR)
async def create(request: Request) -> ASGIResponse:
    context, by = context_of(request), operator_of(request)
    form = _NEW | await read_form(request, OVERHEAD_BYTES)
    values = {
        "tenant_id": form["tenant_id"].strip(),
        "plan": form["plan"],
        "weight": number(form["weight"]) or 1.0,
    }
    try:
        asked = decoded(msgspec.json.encode(values), CreateTenant)
        made = await tenants.create(
            context.tenants, context.directory.plans, by, wanted_tenant(asked)
        )
    except GnomonError as error:
        return await _all(request, form, refusal_of(error))
    return redirect(f"/tenants/{made.tenant.id}?done=tenant_created")


@PageRoute("POST", "/tenants/{tenant_id:str}", role=Role.OPERATOR)
async def change(request: Request) -> ASGIResponse:
    context, by = context_of(request), operator_of(request)
    form = await read_form(request, OVERHEAD_BYTES)
    tenant_id: str = request.path_params["tenant_id"]
    plans = context.directory.plans
    try:
        asked = decoded(msgspec.json.encode(_changes(form)), ChangeTenant)
        await tenants.change(context.tenants, plans, by, tenant_id, wanted_change(asked))
    except GnomonError as error:
        return await _one(request, form, refusal_of(error))
    return redirect(f"/tenants/{tenant_id}?done=tenant_changed")


@PageRoute("POST", "/tenants/{tenant_id:str}/delete", role=Role.OPERATOR)
async def delete(request: Request) -> ASGIResponse:
    context, by = context_of(request), operator_of(request)
    await read_form(request, OVERHEAD_BYTES)
    await tenants.remove(context.tenants, by, request.path_params["tenant_id"])
    return redirect("/tenants?done=tenant_deleted")


def _changes(form: Mapping[str, str]) -> dict[str, Any]:
    """The whole form as a change: every field of it has a value."""
    return {
        "plan": form.get("plan", ""),
        "weight": number(form.get("weight", "")) or 0,
        "quotas": {name: _quota(form.get(name, "")) for name in QUOTA_NAMES},
        "targets_allow": lines(form.get("targets_allow", "")) or [],
        "functions": lines(form.get("functions", "")),
        "hosts": lines(form.get("hosts", "")),
    }


def _quota(text: str) -> float | str | None:
    """Empty is the plan's, `none` no bound."""
    text = text.strip().lower()
    if text == _NONE:
        return None
    value = number(text)
    return _PLAN if value is None else value


async def _all(request: Request, form: Mapping[str, str], refusal: Refusal) -> ASGIResponse:
    context = context_of(request)
    cursor = request.query_params.get("cursor") or None
    plans = context.directory.plans
    found = await tenants.list_page(context.tenants, plans, cursor, ROWS)
    after = found.next_cursor
    return page(
        request,
        "tenants.html",
        refusal.status,
        tenants=found.tenants,
        today=await _used_today(request, cursor),
        plans=sorted(plans),
        first=cursor is None,
        more=None if after is None else "/tenants?" + urlencode({"cursor": after}),
        form=form,
        reasons=refusal.reasons,
    )


async def _used_today(request: Request, cursor: str | None) -> dict[str, TenantDay]:
    """The usage of the tenants that come after the cursor."""
    store = context_of(request).usage
    today = await store.today()
    # Twice as many: tenants that were removed have used something, too.
    found = await store.of_all(today, today, (cursor or "", today), 2 * ROWS)
    return {each.tenant_id: each for each in found.days}


async def _one(request: Request, form: Mapping[str, str] | None, refusal: Refusal) -> ASGIResponse:
    context = context_of(request)
    plans = context.directory.plans
    found = await tenants.get(context.tenants, plans, request.path_params["tenant_id"])
    tenant = found.tenant
    days, used = await usage.of_tenant(context.usage, tenant.id, None, None)
    plan = plans.get(tenant.plan, plans[STANDARD])
    return page(
        request,
        "tenant.html",
        refusal.status,
        tenant=tenant,
        known_plan=tenant.plan in plans,
        quotas=quota_rows(found.quotas, await context.store.use(tenant.id), plan),
        charts=usage_charts(days, used),
        days=days,
        used=used[::-1],
        plans=sorted(plans),
        removable=tenant.id != DEFAULT_TENANT,
        form=_written(found) if form is None else _blank() | dict(form),
        reasons=refusal.reasons,
    )


def _blank() -> dict[str, str]:
    names = ("plan", "weight", "targets_allow", "functions", "hosts", *QUOTA_NAMES)
    return dict.fromkeys(names, "")


def _written(found: TenantDetails) -> dict[str, str]:
    """The tenant as its form has it."""
    tenant = found.tenant
    own = {
        name: _NONE if value is None else f"{value:.15g}" for name, value in tenant.quotas.items()
    }
    return (
        _blank()
        | {name: value for name, value in own.items() if name in QUOTA_NAMES}
        | {
            "plan": tenant.plan,
            "weight": f"{tenant.weight:g}",
            "targets_allow": "\n".join(tenant.targets_allow),
            "functions": "\n".join(tenant.allow.functions or ()),
            "hosts": "\n".join(tenant.allow.hosts or ()),
        }
    )


ROUTES = (show_tenants, show_tenant, show_plans, create, change, delete)
