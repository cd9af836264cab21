"""Several reasons together: what one of them refuses, another may have for somebody else."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec
from tests.unit.fairness.fair_entries import START, entry

from gnomon.clock import SystemClock
from gnomon.fairness import FairQueue, SlotShares
from gnomon.limits.exchange import PermitGrant
from gnomon.limits.holdings import Wish
from gnomon.limits.limiter import Bucket, Limiter
from gnomon.limits.store_time import StoreTime
from gnomon.model.fleet.tenant import Quotas
from gnomon.model.targets.target import HttpTarget, PythonTarget, Target
from gnomon.model.tasks.priority import Lane
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.dispatch.permits import Permits
from gnomon.node.dispatch.places import PlaceCheck
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.run.targets import Place
from gnomon.node.start_checks import StartChecks
from gnomon.pipe.envelope import Delivery, Report
from gnomon.store.ports.dispatch import Entry
from gnomon.testing.contracts.pipe import a_delivery

ALL = Limiter(tenant_id="acme", name="all", concurrency=20)
FLOWS = range(1, 61)
SLOW = range(1, 31)  # those that need a place


class Known:
    """One limit, that never changes."""

    def limiters(self, _: str) -> Sequence[Limiter]:
        return (ALL,)

    def quotas(self, _: str) -> Quotas:
        return Quotas()

    def on_change(self, _: object) -> None:
        pass


class World:
    """Permits before places, as on a node where a tenant may hold seven of ten slots."""

    def __init__(self) -> None:
        self.queue = FairQueue[Entry](slots=SlotShares(10, 0, 0.7), has_others=lambda _: True)
        self.agenda = Agenda(self.queue, START, 1000, self._wake)
        self.woken = 0
        self.permits = Permits(
            Known(),
            self.agenda,
            HeldTasks(SuspectRoom(1, 10)),
            SystemClock(lambda: 0.0),
        )
        places = PlaceCheck(_place_of, self.agenda, 2)
        self.doors = StartChecks([self.permits, places])

    def _wake(self) -> None:
        self.woken += 1

    def give(self, permits: int) -> None:
        account = self.permits.accounts[Bucket("acme", "all", "")]
        ask, time = account.ask(Wish(100, stopping=False), 0.0), StoreTime()
        time.heard(START, 0.0, 0.0)
        grant = PermitGrant(account.bucket, START, permits, permits, contended=False, starts=[])
        account.granted(grant, ask, time, 0.0)
        self.permits.let_in(account)

    def add(self, *entries: Entry) -> None:
        self.agenda.add(entries)
        self.agenda.advance(START + timedelta(seconds=10))

    def taken(self) -> list[Entry]:
        return self.agenda.take(50, SuspectRoom(1, 1), self.doors.admit)

    def end(self, entries: Sequence[Entry]) -> None:
        self.agenda.ended_all((e.key.tenant_id, e.lane, 0.1) for e in entries)
        self.doors.ended([Report(_delivery(e)) for e in entries])


def _place_of(target: Target) -> Place | None:
    return Place("slow", 2) if isinstance(target, HttpTarget) else None


def _delivery(of: Entry) -> Delivery:
    target = HttpTarget("http://slow/") if of.flow in SLOW else PythonTarget("f")
    return msgspec.structs.replace(
        a_delivery(1), key=of.key, flow=of.flow, target=target, lane=Lane.MEDIUM
    )


def test_a_refusal_that_lets_others_in_leaves_the_queue_as_it_is() -> None:
    world = World()
    for flow in FLOWS:  # learned from what comes and goes
        world.doors.refused([_delivery(entry(1000 + flow, flow=flow))])
        world.doors.ended([Report(_delivery(entry(1000 + flow, flow=flow)))])
    world.add(*(entry(flow, flow=flow) for flow in FLOWS))
    assert world.taken() == [], "there are no permits"
    running = [entry(2000 + n, flow=1) for n in range(2)]
    world.doors.refused([_delivery(each) for each in running])  # all the places
    world.give(permits=20)
    seen: list[Entry] = []
    chosen, before = seen, -1
    while chosen or world.woken > before:  # as long as somebody says that there is more
        before = world.woken
        chosen = world.taken()
        assert not world.doors.refused([_delivery(each) for each in chosen])
        world.end(chosen)
        seen += chosen
    assert sorted(e.flow for e in seen) == [flow for flow in FLOWS if flow not in SLOW]
    assert (len(world.queue), world.queue.offers()) == (0, False)

    world.doors.ended([Report(_delivery(each)) for each in running])
    while chosen := world.taken():
        world.doors.refused([_delivery(each) for each in chosen])
        world.end(chosen)
        seen += chosen
    assert sorted(e.flow for e in seen) == [*FLOWS]
    assert (len(world.queue), world.queue.offers()) == (0, False)
