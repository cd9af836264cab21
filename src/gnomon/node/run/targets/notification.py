"""Notifications: the channel of a subscription, called for the tenant that has it."""

from collections.abc import Awaitable
from typing import assert_never

import msgspec

from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.target import HttpTarget, NotificationTarget, Target
from gnomon.model.tasks.task import TaskKey
from gnomon.node.run.targets import Caller, MayBegin, Place, always
from gnomon.node.run.targets.apprise import send_by_apprise
from gnomon.node.run.targets.mail import Mailer
from gnomon.notify.notification import NOTIFIER_TENANT, Notification, Purpose, body_of
from gnomon.notify.subscription import (
    AppriseChannel,
    EmailChannel,
    SlackChannel,
    Subscription,
    WebhookChannel,
)
from gnomon.notify.wording import chat_of
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.store.postgres.notify.notifier_store import PostgresChannels

_notification = msgspec.json.Decoder(Notification)


class NotificationCaller:
    """`Caller` for notifications. A webhook is called as if it were a task of the subscriber's
    tenant: its allow-list, networks and signing secrets hold for it, and nothing of the notifier's.
    """

    def __init__(
        self,
        channels: PostgresChannels,
        http: Caller,
        mailer: Mailer,
        heartbeat_url: str | None,
        may_begin: MayBegin = always,
    ) -> None:
        self._channels = channels
        self._http = http
        self._mailer = mailer
        self._heartbeat_url = heartbeat_url
        self._may_begin = may_begin

    @property
    def least_room(self) -> float:
        return self._http.least_room

    def place(self, target: Target) -> Place | None:
        assert isinstance(target, NotificationTarget)
        return None  # few, and bounded by the limit of each channel

    def ready(self, delivery: Delivery) -> Awaitable[object] | None:
        """What is called is looked up with the call."""

    async def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Outcome | None:
        assert isinstance(delivery.target, NotificationTarget)
        if delivery.key.tenant_id != NOTIFIER_TENANT or payload is None:
            return _refused("only the notifier of Gnomon has such targets")
        try:
            notification = _notification.decode(payload)
        except msgspec.MsgspecError as error:
            return _refused(f"it cannot be read: {error}")
        if delivery.target.subscription_id is None:
            return await self._beat(delivery, notification, run)
        subscription = await self._channels.subscription(delivery.target.subscription_id)
        if subscription is None:
            return _skipped("the subscription was removed")
        if not subscription.may_be_sent and notification.purpose is not Purpose.CONFIRMATION:
            return _skipped("its address is not confirmed")
        if not self._may_begin():
            return None
        outcome = await self._send(delivery, subscription, notification, run)
        succeeded = outcome is not None and outcome.kind is OutcomeKind.SUCCEEDED
        if succeeded and subscription.failing_since is not None:
            await self._channels.recovered(subscription.id)
        return outcome

    async def _send(
        self,
        delivery: Delivery,
        subscription: Subscription,
        notification: Notification,
        run: TaskContext,
    ) -> Outcome | None:
        message_id = str(delivery.key.id)
        channel = subscription.channel
        match channel:
            case WebhookChannel():
                body = body_of(notification, message_id)
                return await self._call(delivery, channel.target, body, run)
            case SlackChannel():
                body = msgspec.json.encode({"text": chat_of(notification)})
                return await self._call(delivery, channel.target, body, run)
            case EmailChannel():
                return await self._mailer.send(channel.address, notification, message_id)
            case AppriseChannel():
                if subscription.tenant_id is not None:
                    return _refused("Apprise is for subscriptions of the installation")
                return await send_by_apprise(channel.url, notification)
            case _:
                assert_never(channel)

    async def _beat(
        self, delivery: Delivery, notification: Notification, run: TaskContext
    ) -> Outcome | None:
        if self._heartbeat_url is None:
            return _skipped("notify.heartbeat_url is not set on this node")
        body = body_of(notification, str(delivery.key.id))
        return await self._call(delivery, HttpTarget(self._heartbeat_url), body, run)

    async def _call(
        self, delivery: Delivery, target: HttpTarget, body: bytes, run: TaskContext
    ) -> Outcome | None:
        assert isinstance(delivery.target, NotificationTarget)
        served = msgspec.structs.replace(
            delivery, key=TaskKey(delivery.target.on_behalf_of, delivery.key.id), target=target
        )
        if (waiting := self._http.ready(served)) is not None:
            await waiting
            if not self._may_begin():
                return None
        return await self._http.call(served, body, run)


def _refused(why: str) -> Outcome:
    return Outcome(OutcomeKind.FAILED, error=why, retryable=False, uncalled=True)


def _skipped(why: str) -> Outcome:
    """Nothing is to be sent any more."""
    result = msgspec.json.encode({"skipped": why}).decode()
    return Outcome(OutcomeKind.SUCCEEDED, result=result)
