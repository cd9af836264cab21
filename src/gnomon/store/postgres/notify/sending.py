"""Stores notifications as tasks of the notifier, in the transaction of whatever made them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from gnomon.clock import new_id
from gnomon.model.targets.target import NotificationTarget
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DEFAULT_TENANT, KeepPayload, Submission
from gnomon.notify.notification import (
    CHANNEL_LIMIT,
    NOTIFICATION_TYPE,
    NOTIFIER_TENANT,
    Notification,
    Purpose,
)
from gnomon.notify.subscription import Subscription
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.insight.subscriptions import MOST_RECENT
from gnomon.store.ports.work.tasks import NewTask, Once
from gnomon.store.postgres.limits.limit_keys import with_keys
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.tasks.admitting import NOTHING
from gnomon.store.postgres.tasks.inserting import insert_once

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_KEEP_SECONDS = 7 * 24 * 3600.0  # of idempotency keys
_TIMEOUT_SECONDS = 30.0
# A channel that is down may be back within the hour; then somebody else has to be told.
_PERSISTENT = RetryPolicy(max_retries=12, base_seconds=2.0, max_seconds=600.0)
_ONCE = RetryPolicy(max_retries=0)
_HEARTBEAT = RetryPolicy(max_retries=2)
_POLICIES = {
    Purpose.EVENTS: _PERSISTENT,
    Purpose.CONFIRMATION: _PERSISTENT,
    Purpose.TEST: _ONCE,
    Purpose.HEARTBEAT: _HEARTBEAT,
}


class ToSend(msgspec.Struct, frozen=True):
    """A notification, the key that makes it unique, and whom it is for."""

    notification: Notification
    key: str
    subscription: Subscription | None = None  # None: the heartbeat
    host: str = ""  # of the heartbeat
    good_for: float | None = None  # seconds in which it must start


async def send(
    connection: "Connection", notifications: Sequence[ToSend], now: datetime
) -> tuple[list[UUID], list[Entry]]:
    """Store them, each once. Gives the ids of their tasks, and the hints to be sent once that is
    committed. Needs a transaction around it."""
    if not notifications:
        return [], []
    batch = [_new_task(each, now) for each in notifications]
    receipts, entries = await insert_once(connection, batch, _KEEP_SECONDS, lambda _: NOTHING)
    ids = [receipt.task_id for receipt in receipts]
    sent = [
        (each.subscription.id, task_id)
        for each, task_id, receipt in zip(notifications, ids, receipts, strict=True)
        if each.subscription is not None and receipt.replay is None
    ]
    if sent:
        subscriptions, tasks = zip(*sent, strict=True)
        await connection.execute(query("note_recent"), subscriptions, tasks, MOST_RECENT)
    return ids, entries


def _new_task(wanted: ToSend, now: datetime) -> NewTask:
    notification, subscription = wanted.notification, wanted.subscription
    payload = msgspec.json.encode(notification)
    whose = DEFAULT_TENANT if notification.tenant is None else notification.tenant
    confirms = notification.purpose is Purpose.CONFIRMATION
    good_for = wanted.good_for
    submission = Submission(
        tenant_id=NOTIFIER_TENANT,
        id=new_id(now),
        task_type=NOTIFICATION_TYPE,
        name=notification.subscription,
        target=NotificationTarget(
            on_behalf_of=whose,
            host=wanted.host if subscription is None else subscription.channel.host,
            subscription_id=notification.subscription_id,
        ),
        priority=Lane.HIGH,
        retry_policy=_POLICIES[notification.purpose],
        timeout_seconds=_TIMEOUT_SECONDS,
        queue=whose,
        # A token is for its reader alone.
        keep_payload=KeepPayload.NEVER if confirms else KeepPayload.ALWAYS,
        execute_at=now,
        due_at=now,
        expires_at=None if good_for is None else now + timedelta(seconds=good_for),
        payload=payload,
        idempotency_key=wanted.key,
    )
    submission = with_keys(submission, [CHANNEL_LIMIT])
    return NewTask(submission, Once(wanted.key, wanted.key.encode()))
