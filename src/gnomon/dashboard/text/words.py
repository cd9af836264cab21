"""How values read on pages."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from gnomon.access.principal import Requester, Role

NONE = "\u2013"
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))

# A sign of its own for each, so that nobody needs to tell colours apart.
SIGNS = {
    "SCHEDULED": "◷",
    "READY": "◌",
    "RUNNING": "▶",
    "FAILED": "↻",
    "COMPLETED": "✓",
    "DEAD_LETTERED": "✕",
    "CANCELLED": "⊘",
    "EXPIRED": "⊖",
    "PAUSED": "‖",
    "BLOCKED": "⋯",
    "FINISHED": "✓",
    "STOPPED": "⊘",
    "active": "▶",
    "paused": "‖",
    "finished": "✓",
    "alive": "✓",
    "silent": "◌",
    "dead": "✕",
    "running": "▶",
    "succeeded": "✓",
    "failed": "✕",
    "timed_out": "⊖",
    "lost": "?",
    "snoozed": "◷",
    "cancelled": "⊘",
    "preempted": "⇥",
    "MISSED": "∅",
    "SKIPPED": "⇥",
    "OPEN": "◌",
    "SUCCEEDED": "✓",
    "CANCELLING": "⊘",
    "ROLLING_BACK": "↺",
    "ROLLED_BACK": "↺",
    "live": "✓",
    "revoked": "⊘",
    "expired": "⊖",
    "open": "⊘",
    "half_open": "◐",
}
_NAMES = {"DEAD_LETTERED": "dead letter", "FAILED": "waits for retry"}

DONE = {
    "submit": "The task was submitted.",
    "delete": "The task was deleted.",
    "retry": "It runs again.",
    "cancel": "It was cancelled, or is being interrupted.",
    "rollback": "It is being rolled back.",
    "pause": "It is paused.",
    "resume": "It is resumed.",
    "reschedule": "Its time was changed.",
    "archive": "The dead letter was archived.",
    "discard": "The dead letter was discarded.",
    "trigger": "A run was started.",
    "view": "The view is saved, for everybody in the team.",
    "no-view": "The view was removed.",
    "acknowledge": "The event is acknowledged.",
    "acknowledge_all": "The events that were shown are acknowledged.",
    "stop": "It was stopped: what it has changed stays changed, and nothing else is.",
    "key_revoked": "The key was revoked. Within a second it is refused everywhere.",
    "secret_revoked": "The secret was revoked. Within a second no node signs with it.",
    "type_changed": "The task type was changed, for all tasks from now on.",
    "type_deleted": "The schema and the defaults of the task type were removed.",
    "tenant_created": "The tenant was created. Every process knows it within a second.",
    "tenant_changed": "The tenant was changed. Every process follows within a second.",
    "tenant_deleted": "The tenant was removed.",
    "limit_created": "The limit was created.",
    "limit_changed": "The limit was changed.",
    "limit_deleted": "The limit was removed.",
    "job_created": "The recurring job was created.",
    "job_changed": "The recurring job was changed.",
    "job_deleted": "The recurring job was deleted.",
    "workflow_started": "A run was started.",
    "batch_closed": "It was closed.",
    "workflow_deleted": "The workflow was removed.",
    "subscription_created": "The subscription was added.",
    "subscription_changed": "The subscription was changed.",
    "subscription_deleted": "The subscription was removed. Nobody is told by it any more.",
    "muted": "It is muted: nothing is told until then.",
    "unmuted": "It is told of everything again.",
    "test_sent": "A test is on its way. What the receiver answers is shown below.",
    "backfill": "The runs of the past were entered, and start one after the other.",
}


_RIGHTS = {
    Role.READ: "see everything of its tenant but keys, webhook secrets and usage",
    Role.SUBMIT: "submit tasks, and create, change and trigger recurring jobs",
    Role.OPERATE: "retry, cancel, pause, reschedule and delete tasks, and pause recurring jobs",
    Role.WORK: "run tasks, as a remote worker",
    Role.ADMIN: "do everything in its tenant, keys and limits included",
    Role.OPERATOR: "manage the installation: nodes, tenants, plans and operators' keys",
}


def rights(by: Requester | None) -> list[str]:
    """What somebody may do, by their roles."""
    if by is None:
        return []
    roles = (
        [Role.ADMIN] if Role.ADMIN in by.roles else [role for role in _RIGHTS if role in by.roles]
    )
    return [_RIGHTS[role] for role in roles]


def span(seconds: float | None) -> str:
    """A length of time, in two units at the most."""
    if seconds is None:
        return NONE
    if abs(seconds) < 1:
        return f"{seconds * 1000:.0f} ms"
    if abs(seconds) < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    rest = int(seconds)
    for size, unit in _UNITS:
        if abs(rest) >= size:
            smaller = {"d": (3_600, "h"), "h": (60, "min"), "min": (1, "s")}[unit]
            more = rest % size // smaller[0]
            return f"{rest // size} {unit}" + (f" {more} {smaller[1]}" if more else "")
    return f"{rest} s"


def count(found: Any) -> str:
    """A number that may be capped."""
    text = number(found.count)
    return text + "+" if found.capped else text


def number(found: int) -> str:
    """A whole number, in groups of three digits."""
    return f"{found:,}".replace(",", "\u202f")


def rate(per_second: float | None) -> str:
    """So many in a second."""
    if per_second is None:
        return NONE
    if 0 < per_second < 0.01:
        return "<0.01\u202f/s"
    digits = f"{per_second:.0f}" if per_second >= 100 else f"{per_second:.2g}"
    return f"{digits}\u202f/s"


def part(count: float, whole: float) -> str:
    """A part of a whole, in a hundred."""
    return f"{100 * count / whole:.1f} %" if whole else NONE


def pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Choices that are called what they are."""
    return [(name, name) for name in names]


def size(content: float | None) -> str:
    """A number of bytes."""
    if content is None:
        return NONE
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if abs(content) < 1024 or unit == "TB":
            return (
                f"{content:.0f} {unit}"
                if unit == "B" or content >= 100
                else f"{content:.1f} {unit}"
            )
        content /= 1024
    raise AssertionError("the last unit takes all")


def status_name(value: str) -> str:
    """A status as a word."""
    return _NAMES.get(str(value), str(value).lower().replace("_", " "))


def status(value: str) -> Markup:
    """A status: a sign, a word and a colour."""
    known, name = str(value), status_name(value)
    return Markup('<span class="status s-{}"><span aria-hidden="true">{}</span> {}</span>').format(
        known.lower(), SIGNS.get(known, "•"), name
    )


def address(text: object) -> str:
    """A part of a path."""
    return quote(str(text), safe="")
