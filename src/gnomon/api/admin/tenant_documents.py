"""Tenants as operators' requests and answers have them."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

import msgspec

from gnomon.api.admin.key_documents import Patterns
from gnomon.model.fleet.tenant import MOST_NETWORKS, STANDARD, Quotas, Tenant
from gnomon.model.targets.allow_list import AllowList
from gnomon.store.ports.tenancy.tenants import TenantChange
from gnomon.store.ports.work.tasks import QuotaUse
from gnomon.usecases.admin.allow_lists import allow_list_of
from gnomon.usecases.admin.tenants import TenantDetails
from gnomon.usecases.checks.request_fields import DEFAULT_LIMIT, Moment, Strict

_PLAN = "plan"
_T = TypeVar("_T")
_D = TypeVar("_D")

TenantName = Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9_-]{0,62}$")]
PlanName = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Weight = Annotated[
    float,
    msgspec.Meta(ge=0.001, le=1e6, description="Its share of busy slots beside the others'"),
]
Network = Annotated[str, msgspec.Meta(min_length=1, max_length=50)]
Networks = Annotated[
    tuple[Network, ...],
    msgspec.Meta(
        max_length=MOST_NETWORKS,
        description="Networks that are not public and that its webhooks may reach, as 10.1.0.0/16",
    ),
]
Functions = Annotated[
    Patterns | None,
    msgspec.Meta(description="handlers that it may call, by name, as billing.*; null: all"),
]
Hosts = Annotated[
    Patterns | None,
    msgspec.Meta(description="Hosts that it may call, as *.example.com; null: all"),
]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=10**15)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e9)]
Count = _Count | Literal["plan"] | msgspec.UnsetType | None
Seconds = _Seconds | Literal["plan"] | msgspec.UnsetType | None


class OwnQuotas(Strict):
    """Quotas that differ from the plan's: null lifts one, and "plan" makes it the plan's again."""

    scheduled_tasks: Count = msgspec.UNSET
    ready_tasks: Count = msgspec.UNSET
    executions_per_minute: Count = msgspec.UNSET
    submissions_per_second: Count = msgspec.UNSET
    payload_bytes: Count = msgspec.UNSET
    cron_jobs: Count = msgspec.UNSET
    cron_interval_seconds: Seconds = msgspec.UNSET
    stored_bytes: Count = msgspec.UNSET
    nodes_per_run: Count = msgspec.UNSET


class CreateTenant(Strict):
    """A tenant to be created."""

    tenant_id: TenantName
    plan: PlanName = STANDARD
    weight: Weight = 1.0
    quotas: OwnQuotas = msgspec.field(default_factory=OwnQuotas)
    targets_allow: Networks = ()
    functions: Functions = None
    hosts: Hosts = None


class ChangeTenant(Strict):
    """Changes of a tenant; what is left out stays."""

    plan: PlanName | msgspec.UnsetType = msgspec.UNSET
    weight: Weight | msgspec.UnsetType = msgspec.UNSET
    quotas: OwnQuotas | msgspec.UnsetType = msgspec.UNSET
    targets_allow: Networks | msgspec.UnsetType = msgspec.UNSET
    functions: Functions | msgspec.UnsetType = msgspec.UNSET
    hosts: Hosts | msgspec.UnsetType = msgspec.UNSET


class TenantQuery(Strict):
    """The parameters of a list of tenants."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = DEFAULT_LIMIT
    cursor: str | None = None


class TenantRecord(msgspec.Struct, kw_only=True):
    """A tenant; null is no bound."""

    tenant_id: str
    plan: str
    weight: float
    quotas: Quotas  # in force
    own_quotas: Mapping[str, float | None]  # those that differ from the plan's
    targets_allow: tuple[str, ...]
    functions: tuple[str, ...] | None
    hosts: tuple[str, ...] | None
    created_at: Moment | None


class TenantWithUse(TenantRecord, kw_only=True):
    """A tenant, and its use of its quotas; null where there is no quota: nothing was counted."""

    use: QuotaUse


class TenantList(msgspec.Struct):
    """By name."""

    tenants: list[TenantRecord]
    next_cursor: str | None


class PlanView(msgspec.Struct):
    """A plan; null is no bound."""

    name: str
    quotas: Quotas


class PlanList(msgspec.Struct):
    """By name."""

    plans: list[PlanView]


def wanted_tenant(asked: CreateTenant) -> Tenant:
    """Raises InvalidTask, with the place."""
    own, _ = _quotas(asked.quotas)
    return Tenant(
        id=asked.tenant_id,
        plan=asked.plan,
        weight=asked.weight,
        quotas=own,
        targets_allow=tuple(dict.fromkeys(asked.targets_allow)),
        allow=allow_list_of(asked.functions, asked.hosts),
    )


def wanted_change(asked: ChangeTenant) -> TenantChange:
    """Raises InvalidTask, with the place."""
    own, as_planned = _quotas(_given(asked.quotas, OwnQuotas()))
    networks = _given(asked.targets_allow, None)
    return TenantChange(
        plan=_given(asked.plan, None),
        weight=_given(asked.weight, None),
        quotas=own,
        as_planned=as_planned,
        targets_allow=None if networks is None else tuple(dict.fromkeys(networks)),
        allow=_allow(asked),
        lifted=frozenset(name for name in ("functions", "hosts") if getattr(asked, name) is None),
    )


def _allow(asked: ChangeTenant) -> AllowList:
    return allow_list_of(_given(asked.functions, None), _given(asked.hosts, None))


def _given(value: _T | msgspec.UnsetType, otherwise: _D) -> _T | _D:
    return otherwise if isinstance(value, msgspec.UnsetType) else value


def _quotas(asked: OwnQuotas) -> tuple[dict[str, float | None], frozenset[str]]:
    """Those with a value of their own, and the names of those that are the plan's again."""
    given = {
        name: value
        for name in asked.__struct_fields__
        if (value := getattr(asked, name)) is not msgspec.UNSET
    }
    own = {name: value for name, value in given.items() if value != _PLAN}
    return own, frozenset(given.keys() - own.keys())


def tenant_record(details: TenantDetails) -> TenantRecord:
    tenant = details.tenant
    return TenantRecord(
        tenant_id=tenant.id,
        plan=tenant.plan,
        weight=tenant.weight,
        quotas=details.quotas,
        own_quotas=tenant.quotas,
        targets_allow=tenant.targets_allow,
        functions=tenant.allow.functions,
        hosts=tenant.allow.hosts,
        created_at=tenant.created_at,
    )


def tenant_with_use(details: TenantDetails, use: QuotaUse) -> TenantWithUse:
    record = msgspec.structs.asdict(tenant_record(details))
    return TenantWithUse(**record, use=use)
