"""Which sessions can take a task. Sessions that serve the same work are one group, so that choosing
takes no longer with more of them."""

from collections.abc import Iterator

from gnomon.model.fleet.pool import Pool, Work
from gnomon.pipe.http.session import WorkerSession

_MOST_KINDS = 50_000  # of work, whose groups are remembered


class _Group:
    """Sessions that serve the same work: of those with credit, the ones whose workers wait for an
    answer, and the others, each in turn."""

    __slots__ = ("pool", "resting", "sessions", "waiting")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.sessions: set[WorkerSession] = set()
        self.waiting: dict[WorkerSession, None] = {}
        self.resting: dict[WorkerSession, None] = {}

    def take_first(self) -> WorkerSession | None:
        """The one whose turn it is. It is out of the group until it is placed again, and then the
        last."""
        for ready in (self.waiting, self.resting):
            if ready:
                session = next(iter(ready))
                del ready[session]
                return session
        return None


class SessionGroups:
    """All groups of a gateway."""

    def __init__(self) -> None:
        self._groups: dict[Pool, _Group] = {}
        self._serving: dict[Work, list[_Group]] = {}

    @property
    def pools(self) -> frozenset[Pool]:
        """What the sessions serve."""
        return frozenset(self._groups)

    def add(self, session: WorkerSession) -> None:
        group = self._groups.get(session.pool)
        if group is None:
            group = self._groups[session.pool] = _Group(session.pool)
            self._serving.clear()
        group.sessions.add(session)

    def remove(self, session: WorkerSession) -> None:
        group = self._groups.get(session.pool)
        if group is None:
            return
        for of in (group.waiting, group.resting):
            of.pop(session, None)
        group.sessions.discard(session)
        if not group.sessions:
            del self._groups[session.pool]
            self._serving.clear()

    def place(self, session: WorkerSession, *, has_credit: bool) -> None:
        """Its credit may have changed, or whether its worker waits."""
        group = self._groups.get(session.pool)
        if group is None or session not in group.sessions:
            return
        ready, other = group.waiting, group.resting
        if session.waiting is None:
            ready, other = other, ready
        other.pop(session, None)
        if has_credit:
            ready.setdefault(session, None)
        else:
            ready.pop(session, None)

    def next_for(self, work: Work) -> WorkerSession | None:
        """A session that serves this and has credit; it must be placed again."""
        for group in self._for(work):
            session = group.take_first()
            if session is not None:
                return session
        return None

    def with_credit(self, work: Work) -> Iterator[WorkerSession]:
        """All of those."""
        for group in self._for(work):
            yield from group.waiting
            yield from group.resting

    def _for(self, work: Work) -> list[_Group]:
        groups = self._serving.get(work)
        if groups is None:
            if len(self._serving) >= _MOST_KINDS:
                self._serving.clear()
            groups = [g for g in self._groups.values() if g.pool.accepts(work)]
            self._serving[work] = groups
        return groups
