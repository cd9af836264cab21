"""Values of the tenant store."""

from collections.abc import Mapping

import msgspec

from gnomon.model.fleet.tenant import Tenant
from gnomon.model.targets.allow_list import EVERYTHING, AllowList


class TenantChange(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of a tenant; all else stays."""

    plan: str | None = None
    weight: float | None = None
    quotas: Mapping[str, float | None] = {}  # None lifts a quota
    as_planned: frozenset[str] = frozenset()  # quotas that are the plan's again
    targets_allow: tuple[str, ...] | None = None  # replaces the whole list
    allow: AllowList = EVERYTHING  # replaces the lists that are not None
    lifted: frozenset[str] = frozenset()  # names of lists that no longer apply


class TenantPage(msgspec.Struct, frozen=True):
    """Tenants by name."""

    tenants: list[Tenant]
    next_cursor: str | None
