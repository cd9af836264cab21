"""Events in words: what happened, to what, and where to look."""

from collections import defaultdict
from typing import Any
from urllib.parse import quote

import msgspec

from gnomon.dashboard.addresses import filter_tokens
from gnomon.dashboard.text.words import span
from gnomon.model.insight import event_kinds
from gnomon.model.insight.event_kinds import (
    BREAKER_CLOSED,
    BREAKER_OPENED,
    DEAD_LETTERED,
    SLA_MISSED,
    TASK_SLA_MISSED,
    TASK_SLOW,
    TASK_STUCK,
    end_of,
)
from gnomon.store.ports.insight.events import EventRecord

# Kinds that can be chosen from, and how they read.
KINDS = {
    DEAD_LETTERED: "Dead letters",
    SLA_MISSED: "Late run",
    BREAKER_OPENED: "Breaker opened",
    BREAKER_CLOSED: "Breaker closed",
    end_of(BREAKER_OPENED): "Breaker closed everywhere",
    TASK_SLA_MISSED: "Late task",
    TASK_SLOW: "Slow task",
    TASK_STUCK: "Stuck task",
    end_of(TASK_STUCK): "No longer stuck",
}
# Those of the installation.
INSTALLATION_KINDS = {
    event_kinds.NODE_LOST: "Node lost",
    end_of(event_kinds.NODE_LOST): "Node no longer lost",
    event_kinds.NODE_JOINED: "Node joined",
    event_kinds.CHORE_FAILING: "Chore failing",
    end_of(event_kinds.CHORE_FAILING): "Chore no longer failing",
    event_kinds.PARTITIONS_MISSING: "Partitions missing",
    end_of(event_kinds.PARTITIONS_MISSING): "Partitions there again",
    event_kinds.RETENTION_BEHIND: "Retention behind",
    end_of(event_kinds.RETENTION_BEHIND): "Retention no longer behind",
    event_kinds.DATABASE_FULL: "Database full",
    end_of(event_kinds.DATABASE_FULL): "Database has room again",
    event_kinds.DATABASE_CHANGED: "Database changed",
}
_NAMES = KINDS | INSTALLATION_KINDS

# Sentences with members of the detail.
_TEXTS = {
    event_kinds.RETRY_STORM: (
        "{retries} of {executions} executions of the type {task_type} failed within {minutes} "
        "minutes, and are tried again."
    ),
    end_of(event_kinds.RETRY_STORM): (
        "Executions of the type {task_type} succeed again, or there are few."
    ),
    event_kinds.QUOTA_REACHED: "The quota {quota} of {limit} is used up: more is refused.",
    end_of(event_kinds.QUOTA_REACHED): "The quota {quota} of {limit} has room again.",
    event_kinds.LIMITER_STARVING: "Tasks wait for the limiter {limiter} since {waiting_since}.",
    end_of(event_kinds.LIMITER_STARVING): (
        "No task has waited long for the limiter {limiter} any more."
    ),
    event_kinds.NODE_LOST: "The node {node} ended at {lost_at} without leaving, and is not back.",
    end_of(event_kinds.NODE_LOST): "The node {node} is back, or nobody waits for it any more.",
    event_kinds.NODE_JOINED: "The node {node} of version {version} started, with {slots} slots.",
    event_kinds.CHORE_FAILING: (
        "The chore {chore} has failed since {failing_since}, in {processes} processes."
    ),
    end_of(event_kinds.CHORE_FAILING): "The chore {chore} works again.",
    event_kinds.PARTITIONS_MISSING: "There is no partition for tomorrow of {tables}.",
    end_of(event_kinds.PARTITIONS_MISSING): "There are partitions for tomorrow of {tables}.",
    event_kinds.RETENTION_BEHIND: (
        "Rows past their time ({rows}) are not removed as fast as they come: the table grows."
    ),
    end_of(event_kinds.RETENTION_BEHIND): "All rows past their time ({rows}) are removed.",
    event_kinds.DATABASE_FULL: "New work is refused: {why}.",
    end_of(event_kinds.DATABASE_FULL): "The database has room again: new work is taken.",
    event_kinds.USAGE_RECORDED: (
        "{submissions} submissions and {executions} executions on {day}, until {until}."
    ),
}


class ShownEvent(msgspec.Struct, frozen=True):
    """An event as a page tells it."""

    event: EventRecord
    name: str  # of its kind
    text: str
    links: tuple[tuple[str, str], ...]  # addresses and their names


def shown(event: EventRecord) -> ShownEvent:
    """The event in words."""
    try:
        detail = msgspec.json.decode(event.detail, type=dict[str, Any])
    except msgspec.DecodeError:
        detail = {}
    links = []
    if event.cron_job_id is not None:
        name = str(detail.get("cron_job") or "recurring job")
        links.append((f"/cron/{event.cron_job_id}", name))
    if event.task_id is not None:
        links.append((f"/tasks/{event.task_id}", "task"))
    if event.kind == DEAD_LETTERED:
        links.append(_dead_letters(detail))
    name = _NAMES.get(event.kind, event.kind)
    return ShownEvent(event, name, _text(event.kind, detail), tuple(links))


def _dead_letters(detail: dict[str, Any]) -> tuple[str, str]:
    task_type = detail.get("task_type")
    if not isinstance(task_type, str):
        return "/dead-letters", "dead letters"
    query = filter_tokens.written({"type": task_type})
    return f"/dead-letters?q={quote(query)}", "dead letters of this type"


def _text(kind: str, detail: dict[str, Any]) -> str:
    if kind == SLA_MISSED:
        return _late(detail)
    if kind == BREAKER_OPENED:
        return (
            f"{detail.get('failures')} of {detail.get('calls')} calls {_to(detail)} failed within "
            f"a minute: node {detail.get('node')} holds tasks back, but for one now and then."
        )
    if kind == BREAKER_CLOSED:
        took = detail.get("seconds")
        held = f" after {span(took)}" if isinstance(took, int | float) else ""
        return f"A call {_to(detail)} succeeded: node {detail.get('node')} runs tasks again{held}."
    if kind == end_of(BREAKER_OPENED):
        return f"No node holds back tasks for calls {_to(detail)} any more."
    if kind == DEAD_LETTERED:
        number, task_type = detail.get("count"), detail.get("task_type")
        of = "of other types" if task_type is None else f"of the type {task_type}"
        return f"{number} {'task' if number == 1 else 'tasks'} {of} failed for good."
    if kind == TASK_SLA_MISSED:
        started = detail.get("started_at")
        did = f"started at {started}" if started else "had not started"
        return f"The task had to start by {detail.get('start_by')}, and {did}."
    if kind == TASK_SLOW:
        return f"Execution {detail.get('attempt')} ran for {_seconds(detail)} or longer."
    if kind in _TEXTS:
        return _TEXTS[kind].format_map(defaultdict(lambda: "?", detail))
    told = ((name, value) for name, value in detail.items() if value not in (None, ""))
    return " ".join(f"{name}={value}" for name, value in told)


def _late(detail: dict[str, Any]) -> str:
    missed = detail.get("missed") or 0
    if missed:
        return f"{missed} {'run was' if missed == 1 else 'runs were'} missed altogether."
    if detail.get("started_at"):
        return f"A run that was due to start by {detail.get('sla_at')} started later."
    return f"A run did not start by {detail.get('sla_at')}, as it should have."


def _seconds(detail: dict[str, Any]) -> str:
    seconds = detail.get("warn_after_seconds")
    return span(seconds) if isinstance(seconds, int | float) else "its time"


def _to(detail: dict[str, Any]) -> str:
    host = detail.get("host")
    return "of all tasks" if host is None else f"to {host}"
