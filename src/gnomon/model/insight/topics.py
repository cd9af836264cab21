"""What a page shows, in one word: those who watch it are told when that changes."""

from enum import StrEnum
from uuid import UUID

import msgspec

from gnomon.model.errors import InvalidTask

MOST_TOPICS = 8  # of one page
_TASK = "task:"


class Topic(StrEnum):
    """A subject of pages."""

    TASKS = "tasks"
    DEAD_LETTERS = "dead-letters"
    CRON = "cron"
    NODES = "nodes"  # of the installation, the others are of a tenant
    EVENTS = "events"
    LIMITS = "limits"
    BULK = "bulk"


class WatchedTopics(msgspec.Struct, frozen=True):
    """The subjects of one page: some in general, and single tasks."""

    topics: frozenset[Topic] = frozenset()
    tasks: frozenset[UUID] = frozenset()


def topics_in(text: str) -> WatchedTopics:
    """The topics that a page names, apart by spaces. Raises InvalidTask."""
    words = text.split()
    if len(words) > MOST_TOPICS:
        raise InvalidTask(f"a page watches {MOST_TOPICS} topics at the most")
    try:
        tasks = frozenset(
            UUID(word.removeprefix(_TASK)) for word in words if word.startswith(_TASK)
        )
        topics = frozenset(Topic(word) for word in words if not word.startswith(_TASK))
    except ValueError:
        raise InvalidTask(f"a topic is one of {', '.join(Topic)}, or task:<id of a task>") from None
    return WatchedTopics(topics, tasks)


def task_topic(task_id: UUID) -> str:
    """The topic of one task."""
    return f"{_TASK}{task_id}"
