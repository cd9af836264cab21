"""A slot is its tenant's until the call has ended, and not until that is written, however often it
is reported and whatever else is told meanwhile: as many slots are given back as were taken."""

from collections.abc import Sequence

import msgspec
import pytest
from tests.unit.fairness.fair_entries import START, entry

from gnomon.fairness import FairQueue, SlotShares
from gnomon.model.tasks.priority import Lane
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.claims import Claims
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.start_checks import StartChecks
from gnomon.pipe.envelope import Delivery, Report
from gnomon.store.ports.dispatch import Entry
from gnomon.testing.contracts.pipe import a_delivery

MAY_HOLD = 7  # of ten slots


class World:
    """What one tenant has, on a node that shares its slots, or does not."""

    def __init__(self, *, shared: bool = True) -> None:
        slots = SlotShares(10, 0, MAY_HOLD / 10)
        self.queue = FairQueue[Entry](slots=slots, has_others=lambda _: shared)
        self.agenda = Agenda(self.queue, START, 1000)
        self.claims = Claims(HeldTasks(SuspectRoom(1, 10)), self.agenda, StartChecks())
        self.agenda.add(entry(number) for number in range(100))

    def claim(self, most: int, fence: int = 1) -> list[Delivery]:
        return self.hold(self.claims.take(most), fence)

    def hold(self, entries: Sequence[Entry], fence: int = 1) -> list[Delivery]:
        lane = Lane.MEDIUM
        deliveries = [
            msgspec.structs.replace(a_delivery(1), key=e.key, lane=lane, fence=fence)
            for e in entries
        ]
        return list(self.claims.claimed(entries, deliveries))

    def room(self) -> int:
        """How many it would be given, and gives back."""
        chosen = self.claims.take(100)
        self.claims.missed(chosen)
        for each in chosen:
            self.queue.started(each.key.tenant_id, each.lane)
            self.queue.put_back(each)
        return len(chosen)


def reports_of(deliveries: Sequence[Delivery]) -> list[Report]:
    return [Report(delivery) for delivery in deliveries]


def test_slots_of_what_is_reported_are_free_while_it_is_written() -> None:
    world = World()
    first = reports_of(world.claim(100))
    assert len(first) == MAY_HOLD
    assert world.room() == 0
    world.claims.reported(first[:4])
    assert world.room() == 4
    assert len(world.claims.held.fences) == MAY_HOLD, "they may not be claimed by others yet"
    world.claims.settled(first[:4])
    assert world.room() == 4, "nothing is given back twice"
    world.claims.settled(first[4:])
    assert world.room() == MAY_HOLD, "as by what nobody has told of before"
    assert not world.claims.held.fences


def test_who_shares_with_nobody_is_asked_when_it_is_settled() -> None:
    world = World(shared=False)
    ended = reports_of(world.claim(10))
    world.claims.reported(ended)
    world.claims.settled(ended)
    assert not world.claims.held.fences


@pytest.mark.parametrize("again", ["reported", "settled"])
def test_what_is_told_twice_gives_one_slot_back(again: str) -> None:
    world = World()
    ended = reports_of(world.claim(100))
    world.claims.reported(ended[:2])
    world.claims.reported(ended[:2])
    world.claims.settled(ended[:2])
    getattr(world.claims, again)(ended[:2])
    assert world.room() == 2


def test_a_task_that_is_claimed_anew_while_its_end_is_written_holds_one_slot() -> None:
    world = World()
    chosen = world.claims.take(100)
    first = reports_of(world.hold(chosen))
    world.claims.reported(first[:2])
    # Taken over, as one was thought to be lost, and claimed by this very node.
    taken = chosen[:1]
    world.queue.started("acme", Lane.MEDIUM)
    second = reports_of(world.hold(taken, fence=3))
    assert world.room() == 1
    world.claims.reported(first[:1])
    world.claims.settled(first[:2])
    assert world.room() == 1, "the second claim holds its slot still"
    world.claims.reported(second)
    world.claims.settled(second)
    world.claims.settled(first[2:])
    assert world.room() == MAY_HOLD


def test_what_a_gateway_adopts_while_its_end_is_written_holds_a_slot() -> None:
    world = World()
    ended = world.claim(100)
    world.claims.reported(reports_of(ended[:1]))
    assert world.room() == 1
    adopted = msgspec.structs.replace(ended[0], fence=5)
    world.claims.adopted([adopted])
    assert world.room() == 0
    world.claims.settled(reports_of([adopted]))
    assert world.room() == 1
