"""Keeps a node from claiming what it could not call yet.

Of some things a node has only so many at once: connections to a host, threads for functions. A task
that is claimed without one would wait for it in a slot that others could use, and use up its time.
So a place is taken before the claim and free again at the end; while all places of a kind are
taken, flows that need one are set aside, on this node alone. Where a flow leads is learned from
what was claimed: until then few of it are claimed at once.
"""

from collections.abc import Callable, Iterable, Sequence

from gnomon.fairness.ready_queue import Flow
from gnomon.model.targets.target import Target
from gnomon.model.tasks.flow import UNKNOWN_FLOW
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.run.targets import Place
from gnomon.node.start_checks import StartCheck
from gnomon.pipe.envelope import Delivery, Report
from gnomon.store.ports.dispatch import Entry

PlaceOf = Callable[[Target], Place | None]

_MOST_FLOWS = 50_000  # that are remembered
# Many flows may wait for one thing. Letting all of them in for each place that is free would cost
# more than the tasks.
_LET_IN_AT_ONCE = 32


class _Kind:
    """The places of one kind: who has one, and which flows wait for one, in turn."""

    __slots__ = ("aside", "keys", "name", "room")

    def __init__(self, name: str | Flow, room: int) -> None:
        self.name = name
        self.room = room
        self.keys: set[TaskKey] = set()
        self.aside: dict[Flow, None] = {}


class PlaceCheck(StartCheck):
    """`first`: how many tasks of a flow are claimed before it is known where it
    leads."""

    def __init__(self, place_of: PlaceOf, agenda: Agenda, first: int) -> None:
        self._place_of = place_of
        self._agenda = agenda
        self._first = first
        self._kinds: dict[str | Flow, _Kind] = {}  # in use; of unknown flows by the flow
        self._taken: dict[TaskKey, _Kind] = {}
        self._leads_to: dict[Flow, Place | None] = {}

    def is_free(self, tenant_id: str) -> bool:
        del tenant_id
        return not any(kind.aside for kind in self._kinds.values())

    def is_plain(self, entry: Entry) -> bool:
        flow = (entry.key.tenant_id, entry.flow)
        return flow in self._leads_to and self._leads_to[flow] is None

    def admit(self, entry: Entry) -> bool:
        if entry.flow == UNKNOWN_FLOW or entry.key in self._taken:
            return True  # it is judged once it is claimed
        flow = (entry.key.tenant_id, entry.flow)
        try:
            place = self._leads_to[flow]
        except KeyError:
            kind = self._kind(flow, self._first)
        else:
            if place is None:
                return True
            kind = self._kind(place.name, place.room)
        if self._take(kind, entry.key):
            return True
        kind.aside[flow] = None
        return False

    def missed(self, keys: Iterable[TaskKey]) -> None:
        if self._taken:
            for key in keys:
                self._free(key)

    def unanswered(self, keys: Iterable[TaskKey]) -> None:
        # Nothing of it reaches a slot: what was claimed all the same is released.
        self.missed(keys)

    def claimed(self, delivery: Delivery) -> bool:
        place = self._place_of(delivery.target)
        self._learn((delivery.key.tenant_id, delivery.flow), place)
        name = None if place is None else place.name
        before = self._taken.get(delivery.key)
        if before is not None and before.name != name:
            self._free(delivery.key)
        return place is None or self._take(self._kind(place.name, place.room), delivery.key)

    def ended(self, report: Report) -> None:
        self._free(report.delivery.key)

    def all_ended(self, reports: Sequence[Report]) -> None:
        if self._taken:
            super().all_ended(reports)

    def _learn(self, flow: Flow, place: Place | None) -> None:
        if len(self._leads_to) >= _MOST_FLOWS:
            self._leads_to.clear()  # each costs one claim to learn again
        self._leads_to[flow] = place
        unknown = self._kinds.get(flow)
        if unknown is not None and unknown.aside:
            self._let_in(unknown)

    def _kind(self, name: str | Flow, room: int) -> _Kind:
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = _Kind(name, room)
        return kind

    def _take(self, kind: _Kind, key: TaskKey) -> bool:
        """Whether the task has a place of this kind now. Asked again, it takes no second one."""
        if key in kind.keys:
            return True
        if len(kind.keys) >= kind.room:
            return False
        if key in self._taken:
            self._free(key)
        kind.keys.add(key)
        self._taken[key] = kind
        return True

    def _free(self, key: TaskKey) -> None:
        kind = self._taken.pop(key, None)
        if kind is None:
            return
        kind.keys.discard(key)
        if kind.aside:
            self._let_in(kind)
        elif not kind.keys:
            self._kinds.pop(kind.name, None)

    def _let_in(self, kind: _Kind) -> None:
        # Those that are let in may take no place after all. Each end lets in others; after the last
        # one nobody would.
        flows = list(kind.aside)[: _LET_IN_AT_ONCE if kind.keys else None]
        for flow in flows:
            del kind.aside[flow]
        if not kind.keys and not kind.aside:
            self._kinds.pop(kind.name, None)
        self._agenda.let_in(flows)
