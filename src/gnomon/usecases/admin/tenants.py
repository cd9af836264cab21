"""Tenants and plans, as operators of the installation manage them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import structlog

from gnomon.access.principal import Operator
from gnomon.model.errors import InvalidTask, TenantNotFound
from gnomon.model.fleet.tenant import Quotas, Tenant, is_network, is_tenant_id, quotas_of
from gnomon.store.ports.tenancy.tenants import TenantChange
from gnomon.store.postgres.identity.tenants import PostgresTenants

Plans = Mapping[str, Quotas]

log = structlog.get_logger("gnomon.api")


class TenantDetails(NamedTuple):
    """A tenant, and the quotas in force: those of its plan, but for its own."""

    tenant: Tenant
    quotas: Quotas


class TenantDetailsPage(NamedTuple):
    """Tenants by name."""

    tenants: list[TenantDetails]
    next_cursor: str | None


async def list_page(
    store: PostgresTenants, plans: Plans, cursor: str | None, limit: int
) -> TenantDetailsPage:
    """Raises InvalidTask where the cursor is none."""
    if cursor is not None and not is_tenant_id(cursor):
        raise InvalidTask("must be a next_cursor of this list", "/cursor")
    page = await store.list(cursor or "", limit)
    return TenantDetailsPage([_details(each, plans) for each in page.tenants], page.next_cursor)


async def get(store: PostgresTenants, plans: Plans, tenant_id: str) -> TenantDetails:
    """Raises TenantNotFound."""
    _check_id(tenant_id)
    return _details(await store.get(tenant_id), plans)


async def create(
    store: PostgresTenants, plans: Plans, by: Operator, tenant: Tenant
) -> TenantDetails:
    """Raises InvalidTask, TenantExists."""
    if not is_tenant_id(tenant.id):
        raise InvalidTask(
            "must be 1 to 63 of a-z, 0-9, _ and -, and begin with a letter or digit", "/tenant_id"
        )
    _check(plans, tenant.plan, tenant.targets_allow)
    created = await store.create(tenant)
    _record("tenant created", by, tenant.id)
    return _details(created, plans)


async def change(
    store: PostgresTenants, plans: Plans, by: Operator, tenant_id: str, wanted: TenantChange
) -> TenantDetails:
    """Every process follows within a second. Raises InvalidTask, TenantNotFound."""
    _check_id(tenant_id)
    _check(plans, wanted.plan, wanted.targets_allow or ())
    changed = await store.change(tenant_id, wanted)
    _record("tenant changed", by, tenant_id)
    return _details(changed, plans)


async def remove(store: PostgresTenants, by: Operator, tenant_id: str) -> None:
    """Removes a tenant with its keys and secrets. Raises TenantNotFound, TenantInUse."""
    _check_id(tenant_id)
    await store.remove(tenant_id)
    _record("tenant removed", by, tenant_id)


def _details(tenant: Tenant, plans: Plans) -> TenantDetails:
    return TenantDetails(tenant, quotas_of(tenant, plans))


def _check_id(tenant_id: str) -> None:
    """Text that cannot name a tenant is not sent to the store, which may not be able to hold it."""
    if not is_tenant_id(tenant_id):
        raise TenantNotFound(tenant_id)


def _check(plans: Plans, plan: str | None, networks: Iterable[str]) -> None:
    if plan is not None and plan not in plans:
        raise InvalidTask(f"must be one of {', '.join(sorted(plans))}", "/plan")
    for index, network in enumerate(networks):
        if not is_network(network):
            raise InvalidTask("must be a network, as 10.1.0.0/16", f"/targets_allow/{index}")


def _record(event: str, by: Operator, tenant_id: str) -> None:
    log.info(
        event, tenant=tenant_id, by=by.name, key_id=None if by.key_id is None else str(by.key_id)
    )
