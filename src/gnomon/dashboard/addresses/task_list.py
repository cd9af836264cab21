"""The address of the list of tasks: its filter, its columns and its place in it."""

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

import msgspec

from gnomon.dashboard.addresses import filter_tokens
from gnomon.dashboard.rendering import literal
from gnomon.store.ports.work.tasks import TaskLabels

TASKS = "/tasks"


class TaskColumn(msgspec.Struct, frozen=True):
    """A column that can be shown."""

    name: str
    title: str
    number: bool = False


COLUMNS = {
    column.name: column
    for column in (
        TaskColumn("status", "Status"),
        TaskColumn("task", "Task"),
        TaskColumn("type", "Type"),
        TaskColumn("priority", "Priority"),
        TaskColumn("queue", "Queue"),
        TaskColumn("tags", "Tags"),
        TaskColumn("attempt", "Attempt", number=True),
        TaskColumn("due", "Due"),
        TaskColumn("created", "Created"),
        TaskColumn("by", "Created by"),
        TaskColumn("started", "Started"),
        TaskColumn("ended", "Ended"),
        TaskColumn("error", "Last error"),
    )
}
DEFAULT_COLUMNS = ("status", "task", "priority", "attempt", "due", "ended", "error")


def columns_of(given: Iterable[str]) -> tuple[str, ...]:
    """The columns that are asked for, in their order, as far as there are such. The task itself is
    always one of them."""
    wanted = {name for text in given for name in text.split(",")}
    found = tuple(name for name in COLUMNS if name in wanted)
    if not found or found == DEFAULT_COLUMNS:
        return DEFAULT_COLUMNS
    return tuple(name for name in COLUMNS if name in wanted or name == "task")


def tasks_url(q: str, columns: Sequence[str] = DEFAULT_COLUMNS, **more: str | None) -> str:
    """The list with this filter and these columns."""
    shown = None if tuple(columns) == DEFAULT_COLUMNS else ",".join(columns)
    query = {"q": q or None, "columns": shown, **more}
    given = {name: value for name, value in query.items() if value is not None}
    return f"{TASKS}?{urlencode(given)}" if given else TASKS


def columns_query(columns: Sequence[str]) -> str:
    """The columns as the rest of a query."""
    return (
        "" if tuple(columns) == DEFAULT_COLUMNS else "&" + urlencode({"columns": ",".join(columns)})
    )


def completions(labels: TaskLabels) -> list[str]:
    """Conditions that can be completed: their names, and values that there are. Not those that hide
    what they are: nobody could tell what they choose."""
    known = {"type": labels.task_types, "tag": labels.tags, "queue": labels.queues}
    found = [each for each in filter_tokens.COMPLETIONS if each.partition(":")[0] != "error"]
    for name, values in known.items():
        plain = (value for value in values if literal(value) == value)
        found += [filter_tokens.written({name: value}) for value in plain]
    return found
