"""Tells those who watch pages that something changed, for all of a process by one look at a time.

A viewer costs a comparison, and no statement of its own. While nobody watches, nothing is read.
"""

import asyncio
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from uuid import UUID

from gnomon.clock import Clock
from gnomon.model.errors import StoreError
from gnomon.model.insight.event_kinds import INSTALLATION
from gnomon.model.insight.topics import Topic, WatchedTopics, task_topic
from gnomon.model.tasks.task import TaskKey
from gnomon.store.postgres.live.signs import PostgresSigns
from gnomon.usecases.live.seats import StreamSeats

LEAST_PAUSE = 1.0  # seconds between two looks, and so between two words about one topic
MOST_PAUSE = 15.0
TOLD_A_SECOND = 20.0  # viewers: each asks for what it shows, and all of them together are bounded
_MOST_TIME = 0.05  # the part of the time that may go into looks
SLOW_SECONDS = 10.0  # after which a topic counts as changed: not everything leaves a sign

# A tenant, or None for what belongs to the installation; and a topic, or one task.
_Subject = tuple[str | None, Topic | UUID]


class Viewer:
    """One open page. `told` is set when there is something to say."""

    def __init__(self, tenant_id: str | None, watched: WatchedTopics) -> None:
        self.tenant_id = tenant_id
        self.told = asyncio.Event()
        self.open_events: int | None = None  # that nobody has taken note of; None: not known yet
        self.subjects: tuple[_Subject, ...] = (
            *((None if topic is Topic.NODES else tenant_id, topic) for topic in watched.topics),
            *((tenant_id, task_id) for task_id in watched.tasks),
        )
        self._changed: set[str] = set()

    def tell(self, what: Topic | UUID) -> None:
        self._changed.add(task_topic(what) if isinstance(what, UUID) else what.value)
        self.told.set()

    def show(self, open_events: int) -> None:
        """How many events nobody has taken note of."""
        if open_events != self.open_events:
            self.open_events = open_events
            self.told.set()

    def take(self) -> list[str]:
        """The topics that have changed since this was asked."""
        changed, self._changed = self._changed, set()
        self.told.clear()
        return sorted(changed)


class LiveWatch:
    """The open pages of a process, while `look` and `rest` take turns."""

    def __init__(self, signs: PostgresSigns, clock: Clock, seats: StreamSeats) -> None:
        self._signs = signs
        self._clock = clock
        self._seats = seats
        self._viewers: dict[Viewer, None] = {}
        self._seen: dict[_Subject, tuple[Hashable, float]] = {}  # its sign, and when it was told
        self._versions: dict[str | None, int] = {}
        self._numbers = count(1)
        self._watched = asyncio.Event()
        self._open: dict[str, int] = {}
        self._took = 0.0
        self.closed = asyncio.Event()

    def version(self, tenant_id: str | None) -> Hashable:
        """Another one after every change seen: what was drawn under the one before is old."""
        return self._versions.get(tenant_id), self._versions.get(None)

    @contextmanager
    def watching(
        self, one: Hashable | None, tenant_id: str | None, watched: WatchedTopics
    ) -> Iterator[Viewer]:
        """A page that `one` session has open; None where there are none, and nobody is told from
        anybody else. Raises Overloaded, ViewersFull."""
        with self._seats.taken(one, tenant_id):
            viewer = Viewer(tenant_id, watched)
            self._viewers[viewer] = None
            # The page was drawn a moment ago, and what others have been told since is news to it.
            for subject in viewer.subjects:
                if subject in self._seen:
                    viewer.tell(subject[1])
            self._watched.set()
            try:
                yield viewer
            finally:
                self._leave(viewer)

    def _leave(self, viewer: Viewer) -> None:
        del self._viewers[viewer]
        if not self._viewers:
            self._watched.clear()
            self._seen.clear()
            self._versions.clear()

    async def look(self) -> None:
        """Tells every viewer what has changed of what it shows. Raises StoreError."""
        subjects = {subject for viewer in self._viewers for subject in viewer.subjects}
        if not self._viewers:
            return
        began = self._clock.monotonic()
        try:
            signs = await self._read(subjects)
        except StoreError:
            # Without signs, time goes on: each page then asks for itself, and says what is wrong.
            self._tell({each: self._seen.get(each, (None,))[0] for each in subjects})
            raise
        self._took = self._clock.monotonic() - began
        self._tell(signs)

    def _tell(self, signs: Mapping[_Subject, Hashable]) -> None:
        now = self._clock.monotonic()
        changed = {subject for subject, sign in signs.items() if self._is_news(subject, sign, now)}
        self._seen = {
            subject: (sign, now) if subject in changed else self._seen[subject]
            for subject, sign in signs.items()
        }
        for tenant_id, _ in changed:
            self._versions[tenant_id] = next(self._numbers)
        for viewer in self._viewers:
            for subject in changed.intersection(viewer.subjects):
                viewer.tell(subject[1])
            if (log := _log_of(viewer.tenant_id)) in self._open:
                viewer.show(self._open[log])

    def _is_news(self, subject: _Subject, sign: Hashable, now: float) -> bool:
        if subject not in self._seen:
            return True
        before, told_at = self._seen[subject]
        # All topics at once, so that a page with several is asked for once.
        return sign != before or now // SLOW_SECONDS != told_at // SLOW_SECONDS

    async def _read(self, subjects: Iterable[_Subject]) -> dict[_Subject, Hashable]:
        topics: dict[str, set[Topic]] = defaultdict(set)
        tasks: list[TaskKey] = []
        found: dict[_Subject, Hashable] = {}
        for tenant_id, what in subjects:
            if tenant_id is None:
                # Of most other subjects of the installation nothing but time is a sign.
                found[None, what] = await self._signs.of_nodes() if what is Topic.NODES else None
            elif isinstance(what, UUID):
                tasks.append(TaskKey(tenant_id, what))
            else:
                topics[tenant_id].add(what)
        # Every page shows how many events are open.
        for viewer in self._viewers:
            topics[_log_of(viewer.tenant_id)].add(Topic.EVENTS)
        if topics:
            of_tenants = await self._signs.of_tenants(topics)
            self._open = {
                tenant: sign[-1]
                for (tenant, topic), sign in of_tenants.items()
                if topic is Topic.EVENTS
            }
            found |= {(_tenant_of(log), topic): sign for (log, topic), sign in of_tenants.items()}
        if tasks:
            of_tasks = await self._signs.of_tasks(tasks)
            found |= {(key.tenant_id, key.id): sign for key, sign in of_tasks.items()}
        return found

    async def rest(self) -> None:
        """Waits until the next look is due: a pause, and somebody who watches."""
        pause = max(LEAST_PAUSE, len(self._viewers) / TOLD_A_SECOND, self._took / _MOST_TIME)
        await self._clock.sleep(min(pause, MOST_PAUSE))
        await self._watched.wait()

    def close(self) -> None:
        """Lets every page go, and takes no more."""
        self.closed.set()
        self._seats.close()
        for viewer in self._viewers:
            viewer.told.set()


def _log_of(tenant_id: str | None) -> str:
    """Whose events the pages of a tenant, or of the installation, count."""
    return INSTALLATION if tenant_id is None else tenant_id


def _tenant_of(log: str) -> str | None:
    return None if log == INSTALLATION else log
