"""Words of notifications: the subject, plain text, HTML and the text of a chat. Pure."""

from datetime import datetime
from html import escape

from gnomon.model.insight.severity import Severity
from gnomon.notify.grouping import GroupState, ToldGroup
from gnomon.notify.notification import Notification, Purpose

_MOST_SUBJECT = 150
_MOST_CHAT = 3000  # characters, which Slack shows in one piece
_SIGNS = {Severity.ERROR: "🔴", Severity.WARNING: "🟠", Severity.INFO: "🔵"}
_OVER = "✅"


def line(text: str, most: int) -> str:
    """One line without control characters, cut to a length."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def subject(notification: Notification) -> str:
    """The notification in one line."""
    name = notification.subscription
    match notification.purpose:
        case Purpose.CONFIRMATION:
            text = f"Confirm notifications of the subscription {name}"
        case Purpose.TEST:
            text = f"Test of the subscription {name}"
        case Purpose.HEARTBEAT:
            text = "Gnomon is well"
        case Purpose.EVENTS:
            text = _summary(notification)
    return line(f"[gnomon] {text}", _MOST_SUBJECT)


def _summary(notification: Notification) -> str:
    groups = [g for g in notification.groups if g.state is not GroupState.RESOLVED]
    over = len(notification.groups) - len(groups)
    if not groups:
        first = notification.groups[0]
        more = f" and {over - 1} more" if over > 1 else ""
        return f"Resolved: {_what(first)}{more}"
    first = groups[0]
    others = len(groups) - 1 + notification.more_groups
    more = f" and {others} more" if others else ""
    return f"{first.severity.value.upper()}: {_what(first)}{_times(first.count)}{more}"


def text_of(notification: Notification, confirm_at: str | None = None) -> str:
    """Plain text, a line for each group."""
    match notification.purpose:
        case Purpose.CONFIRMATION:
            return _confirmation(notification, confirm_at)
        case Purpose.TEST:
            whose = _whose(notification)
            return f"This is a test of the subscription {notification.subscription}{whose}.\n"
        case Purpose.HEARTBEAT:
            return "All is well.\n"
        case Purpose.EVENTS:
            return "".join(f"{each}\n" for each in _lines(notification))


def html_of(notification: Notification, confirm_at: str | None = None) -> str:
    """The same as HTML."""
    lines = text_of(notification, confirm_at).splitlines()
    return f"<pre>{escape(chr(10).join(lines))}</pre>\n"


def chat_of(notification: Notification) -> str:
    """The text for a chat of Slack's kind."""
    whole = f"*{_escaped(subject(notification))}*\n"
    lines = text_of(notification).splitlines()
    for number, each in enumerate(lines):
        more = f"{_escaped(each)}\n"
        if len(whole) + len(more) > _MOST_CHAT:
            return f"{whole}… and {len(lines) - number} more lines"
        whole += more
    return whole.rstrip("\n")


def _escaped(text: str) -> str:
    """As Slack asks for it; so nobody is mentioned and nothing becomes a link by a task's name."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _lines(notification: Notification) -> list[str]:
    lines = [_entry(group, is_of_all=notification.tenant is None) for group in notification.groups]
    if notification.more_groups:
        lines.append(f"and {notification.more_groups} more groups")
    lines += ["", f"Subscription {notification.subscription}{_whose(notification)}"]
    return lines


def _entry(group: ToldGroup, *, is_of_all: bool) -> str:
    sign = _OVER if group.state is GroupState.RESOLVED else _SIGNS[group.severity]
    tenant = f" [{group.tenant_id}]" if is_of_all else ""
    text = f"{sign} {group.state.value}{tenant} {_what(group)}{_times(group.count)}"
    if group.total > group.count:
        text += f", {group.total} since {_clock(group.first_at)}"
    if group.state is GroupState.RESOLVED:
        text += f", last at {_clock(group.last_at)}"
    if group.summary:
        text += f": {group.summary}"
    return line(text, 500)


def _what(group: ToldGroup) -> str:
    return group.kind if group.task_type is None else f"{group.kind} of {group.task_type}"


def _times(count: int) -> str:
    return f", {count} times" if count > 1 else ""


def _whose(notification: Notification) -> str:
    return " of the installation" if notification.tenant is None else f" of {notification.tenant}"


def _clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%SZ}"


def _confirmation(notification: Notification, confirm_at: str | None) -> str:
    address = confirm_at or "the API"
    until = "" if notification.expires_at is None else f" until {_clock(notification.expires_at)}"
    return (
        f"Somebody wants to send notifications of Gnomon to this address: the subscription\n"
        f"{notification.subscription}{_whose(notification)}.\n\n"
        f"To agree{until}, run\n\n"
        f"  gnomon notify confirm {notification.token}\n\n"
        f"or send the token to {address}:\n\n"
        f'  curl --json \'{{"token": "{notification.token}"}}\' '
        f"{(confirm_at or '$GNOMON_URL').rstrip('/')}/api/v1/subscriptions/confirm\n\n"
        f"Otherwise do nothing: nothing else is sent to you.\n"
    )
