"""Subscriptions: who is told of which events; of a tenant, or of the installation."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from gnomon.access.grant_errors import LimitedKey, TargetForbidden
from gnomon.access.principal import Principal, Requester
from gnomon.clock import new_id
from gnomon.model.errors import InvalidSchedule, InvalidTask
from gnomon.model.subscription_errors import NotConfirmed, SubscriptionNotFound
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.notify.notification import Notification, Purpose
from gnomon.notify.subscription import (
    MOST_NAME_CHARACTERS,
    Channel,
    EmailChannel,
    SlackChannel,
    Subscription,
    SubscriptionRules,
    WebhookChannel,
    kind_pattern,
)
from gnomon.settings import NotifySettings
from gnomon.store.ports.insight.subscriptions import TOKEN_SECONDS, SentNotification
from gnomon.store.postgres.notify.sending import ToSend
from gnomon.store.postgres.notify.subscription_store import PostgresSubscriptions
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.checks.text_check import check_addressable, check_line

LONGEST_MUTE = timedelta(days=366)
_TOKEN_BYTES = 24


class SubscriptionDesk(msgspec.Struct, frozen=True):
    """What the use cases work with."""

    store: PostgresSubscriptions
    tenants: TenantRules
    settings: NotifySettings


def owner_of(by: Requester) -> str | None:
    """The tenant whose subscriptions the requester has; None: those of the installation."""
    return by.tenant_id if isinstance(by, Principal) else None


def check_name(name: str) -> None:
    """Raises InvalidTask, with the place."""
    if not name.strip() or len(name) > MOST_NAME_CHARACTERS:
        raise InvalidTask(f"must have 1 to {MOST_NAME_CHARACTERS} characters", "/name")
    if "/" in name:
        raise InvalidTask("must not contain a /", "/name")
    check_line(name, "/name")


async def put(
    desk: SubscriptionDesk,
    by: Requester,
    name: str,
    channel: Channel | None,
    rules: SubscriptionRules,
) -> tuple[Subscription, bool]:
    """Stores a subscription, in the place of one of its name, whose channel stays where none is
    given; gives also whether it is new. A new address is asked for its consent. Raises InvalidTask,
    TargetForbidden, LimitedKey, TooManySubscriptions, TooManyConfirmations."""
    check_name(name)
    check_addressable(name, "/name")
    _check_whole(by)
    owner, now = owner_of(by), desk.tenants.clock.now()
    check_rules(rules, by)
    if channel is None:
        channel = await _channel_of(desk, owner, name)
    else:
        check_channel(desk, by, channel)
    stored, created = await desk.store.put(owner, name, channel, rules, by.name, new_id(now))
    if not stored.may_be_sent:
        await _ask_consent(desk, stored, now)
    return stored, created


async def _channel_of(desk: SubscriptionDesk, owner: str | None, name: str) -> Channel:
    try:
        return (await desk.store.get(owner, name)).channel
    except SubscriptionNotFound as error:
        raise InvalidTask("must be given for a new subscription", "/channel") from error


def check_rules(rules: SubscriptionRules, by: Requester) -> None:
    """Raises InvalidTask, with the place."""
    if not rules.kinds:
        raise InvalidTask("must name at least one kind, such as tasks.* or *", "/kinds")
    for number, pattern in enumerate(rules.kinds):
        try:
            kind_pattern(pattern)
        except ValueError as error:
            raise InvalidTask(str(error), f"/kinds/{number}") from error
    for field in ("task_types", "tags", "cron_jobs"):
        for number, text in enumerate(getattr(rules, field)):
            check_line(text, f"/{field}/{number}")
    if rules.all_tenants and isinstance(by, Principal):
        raise InvalidTask("is for subscriptions of the installation", "/all_tenants")
    if rules.quiet_hours is None:
        return
    try:
        rules.quiet_hours.check()
    except InvalidSchedule as error:
        raise InvalidTask(str(error), "/quiet_hours/timezone") from error
    except ValueError as error:
        field = str(error).partition(" ")[0]
        raise InvalidTask(str(error).partition(" ")[2], f"/quiet_hours/{field}") from error


def check_channel(desk: SubscriptionDesk, by: Requester, channel: Channel) -> None:
    """Raises InvalidTask and TargetForbidden, with the place."""
    try:
        channel.check()
    except ValueError as error:
        field, _, detail = str(error).partition(" ")
        place = field if field in channel.__struct_fields__ else "headers"
        said = detail if place == field else str(error)
        raise InvalidTask(said, f"/channel/{place}") from error
    if channel.of_operators and isinstance(by, Principal):
        raise InvalidTask(
            "apprise is for subscriptions of the installation: its URLs reach any host",
            "/channel/type",
        )
    if isinstance(channel, EmailChannel) and not desk.settings.sends_mail:
        raise InvalidTask("no mail server is set (notify.smtp_host)", "/channel/type")
    if isinstance(channel, WebhookChannel | SlackChannel):
        _check_target(desk.tenants, by, channel.target)


def _check_target(rules: TenantRules, by: Requester, target: HttpTarget) -> None:
    """As for a task of the same tenant; nodes check again before each call."""
    whose = owner_of(by) or DEFAULT_TENANT
    guard, address = rules.address_guard(whose), target.address
    if guard is not None and address is not None and guard.refuses_host(address):
        raise InvalidTask(
            f"{address} is not a public address; webhooks reach others only in targets.allow",
            "/channel/url",
        )
    allow = rules.allow_list(whose)
    if not allow.allows(target):
        raise TargetForbidden(allow.refusal(target, "the tenant"), "/channel/url")


def _check_whole(by: Requester) -> None:
    if by.limited:
        raise LimitedKey("events are of the whole tenant, and your key is limited to part of it")


async def delete(desk: SubscriptionDesk, by: Requester, name: str) -> None:
    """Raises SubscriptionNotFound, LimitedKey."""
    _check_whole(by)
    await desk.store.delete(owner_of(by), _known(name))


async def mute(
    desk: SubscriptionDesk, by: Requester, name: str, until: datetime | None
) -> Subscription:
    """Tells a subscription of nothing until a moment; None: of everything again. Raises
    SubscriptionNotFound, InvalidTask, LimitedKey."""
    _check_whole(by)
    if until is not None and until > desk.tenants.clock.now() + LONGEST_MUTE:
        raise InvalidTask("must be within a year; disable or remove it instead", "/until")
    return await desk.store.mute(owner_of(by), _known(name), until)


async def get(desk: SubscriptionDesk, by: Requester, name: str) -> Subscription:
    """Raises SubscriptionNotFound."""
    return await desk.store.get(owner_of(by), _known(name))


async def send_test(desk: SubscriptionDesk, by: Requester, name: str) -> SentNotification:
    """Sends a notification now that tells of nothing. Raises SubscriptionNotFound, NotConfirmed,
    TooManyTests, LimitedKey."""
    _check_whole(by)
    subscription = await get(desk, by, name)
    if not subscription.may_be_sent:
        raise NotConfirmed(subscription.name)
    now = desk.tenants.clock.now()
    notification = _notification(subscription, Purpose.TEST, now)
    key = f"{subscription.id}:test:{new_id(now)}"
    task_id = await desk.store.send_test(ToSend(notification, key, subscription), now)
    return await desk.store.notification(subscription.id, task_id)


async def notification(
    desk: SubscriptionDesk, by: Requester, name: str, notification_id: UUID
) -> SentNotification:
    """One of the last notifications. Raises SubscriptionNotFound, NotificationNotFound."""
    found = await get(desk, by, name)
    return await desk.store.notification(found.id, notification_id)


async def notifications(
    desk: SubscriptionDesk, by: Requester, name: str
) -> Sequence[SentNotification]:
    """The last notifications, newest first. Raises SubscriptionNotFound."""
    return await desk.store.recent((await get(desk, by, name)).id)


async def confirm(desk: SubscriptionDesk, token: str) -> Subscription:
    """Notes that the owner of an address agrees: whoever has the token has read the message. Raises
    InvalidToken."""
    return await desk.store.confirm(_hash(token))


async def _ask_consent(desk: SubscriptionDesk, subscription: Subscription, now: datetime) -> None:
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    notification = msgspec.structs.replace(
        _notification(subscription, Purpose.CONFIRMATION, now),
        token=token,
        expires_at=now + timedelta(seconds=TOKEN_SECONDS),
    )
    key = f"{subscription.id}:consent:{new_id(now)}"
    await desk.store.ask_consent(ToSend(notification, key, subscription), _hash(token), now)


def _notification(subscription: Subscription, purpose: Purpose, now: datetime) -> Notification:
    return Notification(
        subscription_id=subscription.id,
        subscription=subscription.name,
        tenant=subscription.tenant_id,
        purpose=purpose,
        at=now,
    )


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _known(name: str) -> str:
    try:
        check_name(name)
    except InvalidTask as error:
        raise SubscriptionNotFound(name) from error
    return name
