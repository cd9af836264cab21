"""The kinds of events: how much each matters, whom it concerns, and which belong together."""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from gnomon.model.insight.severity import Severity

INSTALLATION = "*"  # in place of a tenant's id, and never one: it concerns all of them

SLA_MISSED = "cron.sla_missed"  # as the store and the API call them
BREAKER_OPENED, BREAKER_CLOSED = "breaker.opened", "breaker.closed"
DEAD_LETTERED = "tasks.dead_lettered"
RETRY_STORM = "tasks.retry_storm"
QUARANTINED = "task.quarantined"
TASK_SLA_MISSED = "task.sla_missed"
TASK_SLOW = "task.slow"
TASK_STUCK = "task.stuck"
QUOTA_REACHED = "quota.reached"
LIMITER_STARVING = "limiter.starving"
FEED_BEHIND, FEED_GAP = "feed.behind", "feed.gap"
USAGE_RECORDED = "usage.recorded"
NODE_LOST, NODE_JOINED = "node.lost", "node.joined"
PARTITIONS_MISSING = "partitions.missing"
RETENTION_BEHIND = "retention.behind"
DATABASE_CHANGED = "database.changed"
DATABASE_FULL = "database.full"
CHORE_FAILING = "chore.failing"
NOTIFICATIONS_FAILED = "notifications.failed"

_END = ".resolved"
_DIGITS = 16


class EventKind(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of all events of a kind."""

    name: str
    severity: Severity
    family: str  # a condition's beginning and end have the same
    is_end: bool = False  # of a condition
    has_end: bool = False  # another kind tells it, however long it takes
    of_installation: bool = False  # operators see it; no tenant's key does
    grouped_by: tuple[str, ...] = ()  # members of `detail`


def _kind(name: str, severity: Severity, *grouped_by: str) -> EventKind:
    return EventKind(name=name, severity=severity, family=name, grouped_by=grouped_by)


def _condition(
    name: str, severity: Severity, *grouped_by: str, of_installation: bool = False
) -> tuple[EventKind, EventKind]:
    """Two kinds: that it began, and that it is over."""
    begins = EventKind(
        name=name,
        severity=severity,
        family=name,
        has_end=True,
        of_installation=of_installation,
        grouped_by=grouped_by,
    )
    ends = msgspec.structs.replace(
        begins, name=name + _END, severity=Severity.INFO, is_end=True, has_end=False
    )
    return begins, ends


_ALL = (
    _kind(DEAD_LETTERED, Severity.ERROR, "task_type"),
    _kind(SLA_MISSED, Severity.WARNING, "cron_job"),
    *_condition(BREAKER_OPENED, Severity.WARNING, "host"),
    _kind(BREAKER_CLOSED, Severity.INFO, "host", "node"),  # others may have it open
    _kind(QUARANTINED, Severity.ERROR, "task_type"),
    _kind(TASK_SLA_MISSED, Severity.WARNING, "task_type"),
    _kind(TASK_SLOW, Severity.WARNING, "task_type"),
    _kind(USAGE_RECORDED, Severity.INFO),
    _kind(NOTIFICATIONS_FAILED, Severity.ERROR, "subscription"),
    *_condition(RETRY_STORM, Severity.WARNING, "task_type"),
    *_condition(TASK_STUCK, Severity.ERROR, "task_id"),
    *_condition(QUOTA_REACHED, Severity.WARNING, "quota"),
    *_condition(LIMITER_STARVING, Severity.WARNING, "limiter"),
    *_condition(FEED_BEHIND, Severity.WARNING, "feed"),
    *_condition(FEED_GAP, Severity.ERROR, "feed"),
    *_condition(NODE_LOST, Severity.ERROR, "node", of_installation=True),
    msgspec.structs.replace(_kind(NODE_JOINED, Severity.INFO, "node"), of_installation=True),
    *_condition(PARTITIONS_MISSING, Severity.ERROR, of_installation=True),
    *_condition(RETENTION_BEHIND, Severity.WARNING, "rows", of_installation=True),
    msgspec.structs.replace(_kind(DATABASE_CHANGED, Severity.WARNING), of_installation=True),
    *_condition(DATABASE_FULL, Severity.ERROR, of_installation=True),
    *_condition(CHORE_FAILING, Severity.ERROR, "chore", of_installation=True),
)
KINDS: Mapping[str, EventKind] = {kind.name: kind for kind in _ALL}
GOOD_NEWS = tuple(kind.name for kind in _ALL if kind.severity is Severity.INFO)


def kind_of(name: str) -> EventKind:
    """What is known of a kind; one that is not known here may be of a newer version."""
    return KINDS.get(name) or _kind(name, Severity.WARNING)


def severity_of(name: str) -> Severity:
    return kind_of(name).severity


def end_of(name: str) -> str:
    """The kind that tells the end of a condition."""
    return name + _END


def of_severities(severities: Iterable[Severity]) -> tuple[list[str], bool]:
    """The known kinds of these severities, and whether kinds that are not known are among
    them."""
    wanted = frozenset(severities)
    named = [name for name, kind in KINDS.items() if kind.severity in wanted]
    return named, Severity.WARNING in wanted


def fingerprint(kind: str, tenant_id: str, detail: Mapping[str, object]) -> str:
    """The same for events that tell of the same thing: 16 hexadecimal digits."""
    known = kind_of(kind)
    parts = [known.family, tenant_id, *(str(detail.get(name)) for name in known.grouped_by)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGITS]
