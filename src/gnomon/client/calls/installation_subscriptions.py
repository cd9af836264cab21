"""Subscriptions of the installation, for its operators: the same calls at another address."""

from datetime import datetime
from typing import TypeVar
from uuid import UUID

import msgspec

from gnomon.client.call import Call
from gnomon.client.calls import subscriptions
from gnomon.client.types.subscriptions import (
    LoggedNotificationInfo,
    NotificationInfo,
    SubscriptionInfo,
    SubscriptionSpec,
)

T = TypeVar("T")


def list_installation_subscriptions() -> Call[list[SubscriptionInfo]]:
    """Lists subscriptions of the installation, by name."""
    return _moved(subscriptions.list_subscriptions())


def get_installation_subscription(name: str) -> Call[SubscriptionInfo]:
    """Reads a subscription of the installation."""
    return _moved(subscriptions.get_subscription(name))


def put_installation_subscription(
    name: str, subscription: SubscriptionSpec
) -> Call[SubscriptionInfo]:
    """Creates a subscription of the installation, or replaces it; with `all_tenants`, it is told of
    the events of all tenants, too."""
    return _moved(subscriptions.put_subscription(name, subscription))


def delete_installation_subscription(name: str) -> Call[None]:
    """Removes a subscription of the installation."""
    return _moved(subscriptions.delete_subscription(name))


def mute_installation_subscription(
    name: str, *, until: datetime | None = None, seconds: float | None = None
) -> Call[SubscriptionInfo]:
    """Tells it of nothing until a moment, or for so many seconds."""
    return _moved(subscriptions.mute_subscription(name, until=until, seconds=seconds))


def unmute_installation_subscription(name: str) -> Call[SubscriptionInfo]:
    """Tells it of everything again."""
    return _moved(subscriptions.unmute_subscription(name))


def send_installation_test(name: str) -> Call[NotificationInfo]:
    """Sends it a test now; `get_installation_notification` tells what came of it."""
    return _moved(subscriptions.send_test(name))


def list_installation_notifications(name: str) -> Call[list[NotificationInfo]]:
    """Lists the last notifications of a subscription of the installation, newest first."""
    return _moved(subscriptions.list_notifications(name))


def get_installation_notification(name: str, notification_id: UUID | str) -> Call[NotificationInfo]:
    """Reads one of the last notifications of a subscription of the installation."""
    return _moved(subscriptions.get_notification(name, notification_id))


def list_all_notifications() -> Call[list[LoggedNotificationInfo]]:
    """Lists the newest notifications of all subscriptions, of tenants and of the installation."""
    return Call(
        method="GET",
        path="/installation/notifications",
        answer=list[LoggedNotificationInfo],
        member="notifications",
    )


def _moved(call: Call[T]) -> Call[T]:
    return msgspec.structs.replace(call, path=f"/installation{call.path}")
