"""Limiters, task types, usage, tenants, plans and nodes."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from gnomon.client.types import Spec
from gnomon.client.types.tasks import CountInfo
from gnomon.model.tasks.priority import Priority
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DeliveryMode, KeepPayload

QuotaValue: TypeAlias = float | Literal["plan"] | UnsetType | None


class LimiterSpec(Spec, kw_only=True):
    """At most `concurrency` tasks at once, at most `rate` starts in any `per_seconds`."""

    concurrency: int | None = None
    rate: int | None = None
    per_seconds: float | None = None
    task_type: str | None = None
    queue: str | None = None
    key: str | None = None


class KeyUseInfo(msgspec.Struct, kw_only=True):
    """The use of one key of a limiter."""

    key: str
    running: int
    started: int
    waiting: CountInfo  # due tasks


class LimiterInfo(msgspec.Struct, kw_only=True):
    """A limiter, the tasks that run under it, and the starts that count now."""

    name: str
    concurrency: int | None
    rate: int | None
    per_seconds: float
    task_type: str | None
    queue: str | None
    key: str | None
    running: int
    started: int
    waiting: CountInfo  # due tasks that it applies to
    keys: list[KeyUseInfo] = []  # the fullest ones, of a limiter read by name
    created_at: datetime
    updated_at: datetime


class BreakerInfo(msgspec.Struct, kw_only=True):
    """The breaker of a host, over the nodes where it is open; None: of all that the tenant runs."""

    host: str | None
    state: str  # open; half_open: the next task is called, and decides
    opened_at: datetime | None
    next_try_at: datetime
    calls: int | None  # of the minute before it opened
    failures: int | None
    error: str | None  # of the call that failed last
    nodes: list[str]
    waiting: CountInfo  # due tasks


class TypeDefaultsSpec(Spec, kw_only=True):
    """What tasks of a type have where their submission says nothing. A field that is not given is
    as the server has it."""

    priority: Priority | None = None
    delivery: DeliveryMode | None = None
    retry_policy: RetryPolicy | None = None
    timeout_seconds: float | None = None
    expires_after_seconds: float | None = None
    jitter_seconds: float | None = None
    tags: tuple[str, ...] = ()
    queue: str | None = None
    preemptible: bool = False
    keep_payload: KeepPayload | None = None
    sla_seconds: float | None = None
    warn_after_seconds: float | None = None
    log_transitions: bool = False


class TaskTypeItemInfo(msgspec.Struct, kw_only=True):
    """A task type that has a payload schema or defaults, and the size of the schema."""

    name: str
    schema_bytes: int
    defaults: TypeDefaultsSpec
    created_at: datetime
    updated_at: datetime


class TaskTypeInfo(msgspec.Struct, kw_only=True):
    """A task type, its payload schema (True: any payload will do) and its defaults."""

    name: str
    schema: Any
    defaults: TypeDefaultsSpec
    created_at: datetime
    updated_at: datetime


class DayInfo(msgspec.Struct, kw_only=True):
    """The usage of a day."""

    day: date
    submissions: int
    executions: int
    compute_seconds: float
    stored_bytes: int


class UsageInfo(msgspec.Struct, kw_only=True):
    """The days with any usage, in order."""

    first: date = msgspec.field(name="from")
    last: date = msgspec.field(name="to")
    usage: list[DayInfo]


class TenantDayInfo(DayInfo, kw_only=True):
    """The usage of a tenant on a day."""

    tenant_id: str


class QuotasInfo(msgspec.Struct, kw_only=True):
    """Quotas, or the use of them. None: no bound, or not counted."""

    scheduled_tasks: int | None = None
    ready_tasks: int | None = None
    executions_per_minute: int | None = None
    submissions_per_second: int | None = None
    payload_bytes: int | None = None
    cron_jobs: int | None = None
    cron_interval_seconds: float | None = None
    stored_bytes: int | None = None
    nodes_per_run: int | None = None


class OwnTenantInfo(msgspec.Struct, kw_only=True):
    """The tenant of the key, its quotas, and its use of them."""

    tenant_id: str
    plan: str
    weight: float
    quotas: QuotasInfo
    functions: tuple[str, ...] | None
    hosts: tuple[str, ...] | None
    use: QuotasInfo
    created_at: datetime | None


class QuotasSpec(Spec, kw_only=True):
    """Quotas that differ from the plan's: None lifts one, "plan" makes it the plan's again."""

    scheduled_tasks: QuotaValue = UNSET
    ready_tasks: QuotaValue = UNSET
    executions_per_minute: QuotaValue = UNSET
    submissions_per_second: QuotaValue = UNSET
    payload_bytes: QuotaValue = UNSET
    cron_jobs: QuotaValue = UNSET
    cron_interval_seconds: QuotaValue = UNSET
    stored_bytes: QuotaValue = UNSET
    nodes_per_run: QuotaValue = UNSET


class TenantSpec(Spec, kw_only=True):
    """A tenant to create."""

    tenant_id: str
    plan: str | None = None
    weight: float | None = None
    quotas: QuotasSpec | None = None
    targets_allow: Sequence[str] = ()
    functions: Sequence[str] | None = None
    hosts: Sequence[str] | None = None


class TenantEdit(Spec, kw_only=True):
    """Changes of a tenant. A field that is not given stays as it is."""

    plan: str | UnsetType = UNSET
    weight: float | UnsetType = UNSET
    quotas: QuotasSpec | UnsetType = UNSET
    targets_allow: Sequence[str] | UnsetType = UNSET
    functions: Sequence[str] | UnsetType | None = UNSET
    hosts: Sequence[str] | UnsetType | None = UNSET


class TenantInfo(msgspec.Struct, kw_only=True):
    """A tenant, for operators."""

    tenant_id: str
    plan: str
    weight: float
    quotas: QuotasInfo  # in force
    own_quotas: dict[str, float | None]  # those that differ from the plan's
    targets_allow: tuple[str, ...]
    functions: tuple[str, ...] | None
    hosts: tuple[str, ...] | None
    created_at: datetime | None


class TenantWithUseInfo(TenantInfo, kw_only=True):
    """A tenant, and its use of its quotas."""

    use: QuotasInfo


class PlanInfo(msgspec.Struct, kw_only=True):
    """A plan and its quotas."""

    name: str
    quotas: QuotasInfo


class NodeInfo(msgspec.Struct, kw_only=True):
    """A node. `lag_seconds` is the age of the oldest due task in its shards that it serves."""

    name: str
    kind: str = "node"  # or gateway, session
    incarnation: UUID
    version: str
    state: str  # alive, silent or dead
    alive: bool
    dead: bool
    started_at: datetime
    alive_until: datetime
    lease_seconds: float
    serves: dict[str, list[str]]
    shards: int
    slots: int
    running: int
    lag_seconds: float | None
    tenant_id: str | None = None  # of a session
    gateway: str | None = None  # the name of that which has the session
    sessions: int | None = None  # of a gateway


class DueInfo(msgspec.Struct, kw_only=True):
    """Due tasks that wait, in all shards."""

    tasks: int
    at_least: bool  # there are more than were counted
    lag_seconds: float | None


class NodesInfo(msgspec.Struct, kw_only=True):
    """All nodes, living ones first, and the work that waits for them."""

    nodes: list[NodeInfo]
    due: DueInfo
