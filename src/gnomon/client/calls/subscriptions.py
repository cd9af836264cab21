"""Subscriptions: who is told of which events."""

from datetime import datetime
from uuid import UUID

from gnomon.client.call import Call, segment
from gnomon.client.types.subscriptions import (
    ConfirmationInfo,
    NotificationInfo,
    SubscriptionInfo,
    SubscriptionSpec,
)


def list_subscriptions() -> Call[list[SubscriptionInfo]]:
    """Lists subscriptions, by name."""
    path = _path()
    return Call(method="GET", path=path, answer=list[SubscriptionInfo], member="subscriptions")


def get_subscription(name: str) -> Call[SubscriptionInfo]:
    """Reads a subscription."""
    return Call(method="GET", path=_path(name), answer=SubscriptionInfo)


def put_subscription(name: str, subscription: SubscriptionSpec) -> Call[SubscriptionInfo]:
    """Creates a subscription, or replaces it."""
    path = _path(name)
    return Call(method="PUT", path=path, body=subscription, answer=SubscriptionInfo)


def delete_subscription(name: str) -> Call[None]:
    """Removes a subscription."""
    return Call(method="DELETE", path=_path(name))


def mute_subscription(
    name: str,
    *,
    until: datetime | None = None,
    seconds: float | None = None,
) -> Call[SubscriptionInfo]:
    """Tells it of nothing until a moment, or for so many seconds."""
    given = {"until": until, "seconds": seconds}
    body = {member: value for member, value in given.items() if value is not None}
    path = f"{_path(name)}/mute"
    return Call(method="POST", path=path, body=body, answer=SubscriptionInfo)


def unmute_subscription(name: str) -> Call[SubscriptionInfo]:
    """Tells it of everything again."""
    path = f"{_path(name)}/unmute"
    return Call(method="POST", path=path, answer=SubscriptionInfo)


def send_test(name: str) -> Call[NotificationInfo]:
    """Sends it a test now; `get_notification` tells what came of it."""
    path = f"{_path(name)}/test"
    return Call(method="POST", path=path, answer=NotificationInfo)


def list_notifications(name: str) -> Call[list[NotificationInfo]]:
    """Lists the last notifications of a subscription, newest first."""
    path = f"{_path(name)}/notifications"
    return Call(method="GET", path=path, answer=list[NotificationInfo], member="notifications")


def get_notification(name: str, notification_id: UUID | str) -> Call[NotificationInfo]:
    """Reads one of the last notifications of a subscription."""
    path = f"{_path(name)}/notifications/{segment(notification_id)}"
    return Call(method="GET", path=path, answer=NotificationInfo)


def confirm_subscription(*, token: str) -> Call[ConfirmationInfo]:
    """Agrees to notifications by e-mail, with the token that was sent to the address."""
    body = {"token": token}
    path = "/subscriptions/confirm"
    return Call(method="POST", path=path, body=body, answer=ConfirmationInfo)


def _path(name: str | None = None) -> str:
    return "/subscriptions" if name is None else f"/subscriptions/{segment(name)}"
