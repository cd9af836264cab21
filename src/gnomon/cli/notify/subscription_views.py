"""Subscriptions and notifications as people read them."""

from typing import TYPE_CHECKING, Any

from gnomon.cli.shared import output
from gnomon.cli.shared.tables import Column, Fit

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json

_COLUMNS = (
    Column("subscription", Fit.NAME),
    Column("channel", Fit.WHOLE),
    Column("to"),
    Column("kinds", rank=2),
    Column("from", Fit.WHOLE, rank=1),
    Column("state"),
)
_SENT = (
    Column("notification", Fit.ID, rank=1),
    Column("status", Fit.WHOLE),
    Column("tries", Fit.WHOLE, rank=2),
    Column("finished", Fit.WHOLE, rank=3),
    Column("answer"),
)

_LOGGED = (
    Column("notification", Fit.ID, rank=2),
    Column("for", Fit.NAME),
    Column("subscription", Fit.NAME),
    Column("status", Fit.WHOLE),
    Column("tries", Fit.WHOLE, rank=3),
    Column("finished", Fit.WHOLE, rank=4),
    Column("error", rank=1),
)


def line_of(subscription: "Json") -> None:
    """One line, and what is to be done next."""
    channel = subscription["channel"]
    output.echo(
        f"{subscription['name']}: {channel['type']} {channel['to']}, {_state(subscription)}"
    )
    if channel["confirmed"] is False:
        output.note(f"{channel['to']} was sent a token: `gnomon notify confirm TOKEN` within a day")


def rows(answer: "Json") -> None:
    """A table of subscriptions."""
    if not answer["subscriptions"]:
        output.note("nobody is told of anything: see `gnomon notify add --help`")
        return
    output.table(
        _COLUMNS,
        [
            (
                each["name"],
                each["channel"]["type"],
                each["channel"]["to"],
                ", ".join(each["kinds"]),
                each["severity"],
                _state(each),
            )
            for each in answer["subscriptions"]
        ],
    )


def whole(subscription: "Json") -> None:
    """All of a subscription, and its last notifications."""
    channel = subscription["channel"]
    output.fields(
        [
            ("subscription", subscription["name"]),
            ("channel", f"{channel['type']} {channel['to']}"),
            ("state", _state(subscription)),
            ("kinds", ", ".join(subscription["kinds"])),
            ("severity", f"{subscription['severity']} and above"),
            ("task types", ", ".join(subscription["task_types"])),
            ("tags", ", ".join(subscription["tags"])),
            ("cron jobs", ", ".join(subscription["cron_jobs"])),
            ("quiet hours", _quiet(subscription["quiet_hours"])),
            ("digest", f"every {output.span(subscription['digest_seconds'])}"),
            ("resolved", f"after {output.span(subscription['resolve_seconds'])} of silence"),
            ("tenants", "all" if subscription["all_tenants"] else ""),
            ("created", output.second(subscription["created_at"])),
            ("by", subscription["created_by"] or ""),
        ]
    )
    if subscription["notifications"]:
        output.echo()
        output.table(_SENT, [_sent(each) for each in subscription["notifications"]])


def log_of(answer: "Json") -> None:
    """A table of notifications of all subscriptions."""
    if not answer["notifications"]:
        output.note("nothing was sent yet")
        return
    output.table(
        _LOGGED,
        [
            (
                each["notification_id"],
                each["tenant"] or "",
                each["subscription"] or "",
                each["status"],
                str(each["attempt"]),
                output.second(each["finished_at"]),
                each["error"] or "",
            )
            for each in answer["notifications"]
        ],
    )


def told(name: str, sent: "Json") -> None:
    """The outcome of a test."""
    match sent["status"]:
        case "COMPLETED":
            output.echo(f"{name} was told: {_answer(sent)}")
        case "DEAD_LETTERED":
            output.echo(f"{name} could not be told: {_answer(sent)}")
        case status:
            output.echo(f"{name} was not told yet ({status}): does a node run? see `gnomon nodes`")


def _sent(each: "Json") -> tuple[str, ...]:
    return (
        each["notification_id"],
        each["status"],
        str(each["attempt"]),
        output.second(each["finished_at"]),
        _answer(each),
    )


def _answer(sent: "Json") -> str:
    if sent["error"]:
        return str(sent["error"])
    status = "" if sent["response_status"] is None else f"HTTP {sent['response_status']}"
    body = output.shortened(sent["response_body"] or "", 100)
    return " ".join(part for part in (status, body) if part) or "ok"


def _state(subscription: "Json") -> str:
    if not subscription["enabled"]:
        return "disabled"
    if subscription["channel"]["confirmed"] is False:
        return "waits for consent"
    if subscription["muted_until"] is not None:
        return f"muted until {output.second(subscription['muted_until'])}"
    if subscription["failing_since"] is not None:
        return f"failing since {output.second(subscription['failing_since'])}: " + str(
            subscription["failure"]
        )
    return "active"


def _quiet(hours: dict[str, Any] | None) -> str:
    if hours is None:
        return ""
    through = ", but for errors" if hours["errors_through"] else ""
    return f"{hours['start']} to {hours['end']} {hours['timezone']}{through}"
