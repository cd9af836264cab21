"""Subscriptions as requests and answers have them."""

from typing import Annotated
from uuid import UUID

import msgspec

from gnomon.model.errors import InvalidTask
from gnomon.model.insight.severity import Severity
from gnomon.model.tasks.lifecycle import Status
from gnomon.notify.quiet_hours import QuietHours
from gnomon.notify.subscription import (
    LONGEST_DIGEST,
    MOST_PATTERN_CHARACTERS,
    MOST_PATTERNS,
    SHORTEST_DIGEST,
    Channel,
    EmailChannel,
    Subscription,
    SubscriptionRules,
)
from gnomon.store.ports.insight.subscriptions import LoggedNotification, SentNotification
from gnomon.usecases.checks.request_fields import Moment, Strict

_Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_PATTERN_CHARACTERS)]
_Patterns = Annotated[tuple[_Pattern, ...], msgspec.Meta(max_length=MOST_PATTERNS)]
_Kinds = Annotated[
    tuple[_Pattern, ...],
    msgspec.Meta(
        min_length=1, max_length=MOST_PATTERNS, description="Names of kinds, or tasks.*, or *"
    ),
]
_Digest = Annotated[float, msgspec.Meta(ge=SHORTEST_DIGEST, le=LONGEST_DIGEST)]
_Token = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=366 * 24 * 3600.0)]


class PutSubscription(Strict):
    """Which events are told, and where. Without a channel, the one that it has stays."""

    channel: Channel | None = None
    kinds: _Kinds = ("*",)
    severity: Annotated[Severity, msgspec.Meta(description="The least")] = Severity.WARNING
    task_types: _Patterns = ()
    tags: _Patterns = ()
    cron_jobs: Annotated[_Patterns, msgspec.Meta(description="Their ids or names")] = ()
    quiet_hours: QuietHours | None = None
    digest_seconds: _Digest = 300.0
    resolve_seconds: Annotated[
        _Digest,
        msgspec.Meta(description="Silence after which a condition counts as over"),
    ] = 900.0
    all_tenants: Annotated[
        bool, msgspec.Meta(description="Of the installation: also the events of all tenants")
    ] = False
    enabled: bool = True

    def rules(self) -> SubscriptionRules:
        given = msgspec.structs.asdict(self)
        return SubscriptionRules(**{n: given[n] for n in SubscriptionRules.__struct_fields__})


class MuteSubscription(Strict):
    """Until when nothing is told: a moment, or so many seconds from now."""

    until: Moment | None = None
    seconds: _Seconds | None = None

    def check(self) -> None:
        """Raises InvalidTask, with the place."""
        if (self.until is None) == (self.seconds is None):
            raise InvalidTask("give until or seconds, and not both", "/until")


class ConfirmSubscription(Strict):
    """The token that was sent to the address."""

    token: _Token


class ChannelView(msgspec.Struct):
    """A channel without its secrets."""

    type: str
    to: str
    confirmed: bool | None  # null: it needs no consent


class SubscriptionView(msgspec.Struct, kw_only=True):
    """A subscription, and how it fares."""

    name: str
    channel: ChannelView
    kinds: list[str]
    severity: Severity
    task_types: list[str]
    tags: list[str]
    cron_jobs: list[str]
    quiet_hours: QuietHours | None
    digest_seconds: float
    resolve_seconds: float
    all_tenants: bool
    enabled: bool
    muted_until: Moment | None
    failing_since: Moment | None
    failure: str | None
    created_by: str | None
    created_at: Moment


class SubscriptionList(msgspec.Struct):
    """All subscriptions, by name."""

    subscriptions: list[SubscriptionView]


class NotificationView(msgspec.Struct, kw_only=True):
    """A notification on its way, or at its end, and what the receiver answered."""

    notification_id: UUID
    status: Status
    attempt: int
    finished_at: Moment | None
    error: str | None
    response_status: int | None
    response_body: str | None


class NotificationList(msgspec.Struct):
    """The last notifications of a subscription, newest first."""

    notifications: list[NotificationView]


class NotificationLog(msgspec.Struct):
    """The newest notifications of all subscriptions, newest first."""

    notifications: list[LoggedNotification]


class ConfirmedSubscription(msgspec.Struct):
    """The subscription whose address was confirmed."""

    name: str


def subscription_view(subscription: Subscription) -> SubscriptionView:
    channel, rules = subscription.channel, subscription.rules
    confirmed = subscription.may_be_sent if isinstance(channel, EmailChannel) else None
    kind = str(channel.__struct_config__.tag)
    return SubscriptionView(
        name=subscription.name,
        channel=ChannelView(kind, channel.masked(), confirmed),
        kinds=[*rules.kinds],
        severity=rules.severity,
        task_types=[*rules.task_types],
        tags=[*rules.tags],
        cron_jobs=[*rules.cron_jobs],
        quiet_hours=rules.quiet_hours,
        digest_seconds=rules.digest_seconds,
        resolve_seconds=rules.resolve_seconds,
        all_tenants=rules.all_tenants,
        enabled=rules.enabled,
        muted_until=subscription.muted_until,
        failing_since=subscription.failing_since,
        failure=subscription.failure,
        created_by=subscription.created_by,
        created_at=subscription.created_at,
    )


def notification_view(sent: SentNotification) -> NotificationView:
    return NotificationView(
        notification_id=sent.id,
        status=sent.status,
        attempt=sent.attempt,
        finished_at=sent.finished_at,
        error=sent.error,
        response_status=sent.response_status,
        response_body=sent.response_body,
    )
