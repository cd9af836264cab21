"""Signs of change: values that differ once something differs that pages show.

They are cheap to read, and say only that something changed, not what: who watches asks again for
what they see. What leaves no sign (a task that is claimed, say) is shown by the next slow refresh.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Any, TypeVar

import asyncpg

from gnomon.model.insight.event_kinds import GOOD_NEWS
from gnomon.model.insight.topics import Topic
from gnomon.model.tasks.task import TaskKey
from gnomon.store.postgres.database import Database, statements_within

MOST_AT_ONCE = 200  # tenants, or tasks, of one statement
SECONDS = 2.0  # for each statement

T = TypeVar("T")
Sign = tuple[Any, ...]

# What a topic's sign is made of. Most change when tasks run.
_PARTS: dict[Topic, tuple[str, ...]] = {
    Topic.TASKS: ("work", "rolled_up"),
    Topic.DEAD_LETTERS: ("work", "rolled_up", "dead"),
    Topic.CRON: ("work", "rolled_up", "cron"),
    Topic.LIMITS: ("work", "rolled_up", "limits"),
    Topic.BULK: ("bulk",),
    Topic.EVENTS: ("event", "open"),
    Topic.NODES: (),  # of the installation: see `of_nodes`
}


class PostgresSigns:
    """Reads signs, for all tenants whose pages are watched at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_tenants(self, watched: Mapping[str, Set[Topic]]) -> dict[tuple[str, Topic], Sign]:
        """The signs of the topics that are watched, by tenant; the last of those of events is how
        many are open. Raises StoreUnavailable."""
        found = {}
        with statements_within(SECONDS):
            for some in _parts(watched):
                rows = await self._database.fetch("signs", *_columns(some, watched), GOOD_NEWS)
                for row in rows:
                    tenant_id = row["tenant_id"]
                    for topic in watched[tenant_id]:
                        found[tenant_id, topic] = _sign(topic, row)
        return found

    async def of_tasks(self, keys: Iterable[TaskKey]) -> dict[TaskKey, Hashable]:
        """The signs of single tasks. Raises StoreUnavailable."""
        found: dict[TaskKey, Hashable] = {}
        with statements_within(SECONDS):
            for some in _parts(keys):
                rows = await self._database.fetch(
                    "task_signs", [key.tenant_id for key in some], [key.id for key in some]
                )
                found |= {TaskKey(row["tenant_id"], row["id"]): tuple(row[2:]) for row in rows}
        return found

    async def of_nodes(self) -> Hashable:
        """The sign of the nodes. Raises StoreUnavailable."""
        with statements_within(SECONDS):
            row = await self._database.fetchrow("node_signs")
        return None if row is None else row["nodes"]


def _parts(all_of_them: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(all_of_them)
    while some := list(islice(rest, MOST_AT_ONCE)):
        yield some


def _columns(tenants: list[str], watched: Mapping[str, Set[Topic]]) -> list[object]:
    """The tenants, and beside each what is looked at for it."""

    def wanted(part: str) -> list[bool]:
        return [any(part in _PARTS[topic] for topic in watched[each]) for each in tenants]

    return [tenants, *(wanted(part) for part in ("work", "dead", "cron", "limits", "bulk"))]


def _sign(topic: Topic, row: asyncpg.Record) -> Sign:
    return tuple(row[name] for name in _PARTS[topic])
