"""A tenant: its share of the slots, and what it may use."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from ipaddress import ip_network
from typing import Any, NamedTuple

import msgspec

from gnomon.model.targets.allow_list import EVERYTHING, AllowList

STANDARD = "standard"  # the plan of tenants that are made without naming one
UNLIMITED = "unlimited"  # the plan of the tenant `default`
EXECUTIONS_PER_MINUTE = "executions_per_minute"  # the quota of that name, as a limiter

MOST_NETWORKS = 100
_MOST_COUNTED = 2**31 - 1
_MOST_BYTES = 2**60
_OVERRIDES = msgspec.json.Decoder(dict[str, Any])
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class Quotas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of what a tenant may use. None: as much as it likes."""

    scheduled_tasks: int | None = None  # submitted and not ended; runs of cron jobs not counted
    ready_tasks: int | None = None  # due and waiting, of each priority
    executions_per_minute: int | None = None  # over it, tasks wait
    submissions_per_second: int | None = None
    payload_bytes: int | None = None
    cron_jobs: int | None = None
    cron_interval_seconds: float | None = None  # the shortest time between two fires of a job
    stored_bytes: int | None = None  # of all that is kept: live, finished and recurring
    nodes_per_run: int | None = None  # of a workflow, with elements and spawned ones

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} must not be negative")


class Pace(NamedTuple):
    """Submissions of one second: how many may be, and how many still may."""

    most: int
    left: int


QUOTA_NAMES = Quotas.__struct_fields__

BUILT_IN_PLANS: Mapping[str, Quotas] = {
    # Every quota is finite: see docs/decisions/0032.
    STANDARD: Quotas(
        scheduled_tasks=10_000,
        ready_tasks=10_000,
        executions_per_minute=1_000,
        submissions_per_second=500,
        payload_bytes=256 * 1024,
        cron_jobs=1_000,
        cron_interval_seconds=10,
        stored_bytes=10 * 1024**3,
        nodes_per_run=10_000,
    ),
    UNLIMITED: Quotas(),
}


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of tasks, keys and quotas."""

    id: str
    plan: str = STANDARD
    weight: float = 1.0
    quotas: Mapping[str, float | None] = {}  # what differs from the plan; None lifts a quota
    created_at: datetime | None = None
    targets_allow: tuple[str, ...] = ()  # networks that are not public and that it may call
    allow: AllowList = EVERYTHING  # what it is held to


def networks_of(written: Iterable[str]) -> tuple[str, ...]:
    """Networks of a tenant's own, as they are stored. One that cannot be read allows nothing."""
    return tuple(text for text in written if is_network(text))


def is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def overrides_of(written: str | bytes) -> Mapping[str, float | None]:
    """Quotas of a tenant's own, as they are stored. Raises ValueError: anybody who can write SQL
    can write anything there."""
    try:
        quotas = _OVERRIDES.decode(written)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"its quotas cannot be read: {error}") from error
    for name, value in quotas.items():
        if value is not None and (not _is_number(value) or value < 0):
            raise ValueError(f"its quota {name} must be a number that is not negative, or null")
    return quotas


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_tenant_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def quotas_of(tenant: Tenant, plans: Mapping[str, Quotas]) -> Quotas:
    """The quotas in force. A plan that this process does not know is taken for the standard one:
    a misspelt plan must not lift every quota."""
    known = {**BUILT_IN_PLANS, **plans}
    plan = known.get(tenant.plan, known[STANDARD])
    return msgspec.structs.replace(plan, **_whole(msgspec.structs.asdict(plan) | {**tenant.quotas}))


def _whole(quotas: Mapping[str, float | None]) -> dict[str, float | None]:
    """Counts are whole numbers that the store can hold."""
    return {
        name: value if value is None else _held(name, value)
        for name, value in quotas.items()
        if name in QUOTA_NAMES
    }


def _held(name: str, value: float) -> float:
    if name == "cron_interval_seconds":
        return value
    return min(int(value), _MOST_BYTES if name == "stored_bytes" else _MOST_COUNTED)
