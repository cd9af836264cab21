"""Places on a node: taken before the claim, free again whatever becomes of it."""

from datetime import timedelta

import msgspec
from tests.unit.fairness.fair_entries import START, entry

from gnomon.fairness import FairQueue
from gnomon.model.targets.target import HttpTarget, PythonTarget, Target
from gnomon.model.tasks.flow import UNKNOWN_FLOW
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.dispatch.places import PlaceCheck
from gnomon.node.run.targets import Place
from gnomon.pipe.envelope import Delivery, Report
from gnomon.store.ports.dispatch import Entry
from gnomon.testing.contracts.pipe import a_delivery

ROOM = 3
FIRST = 2
SLOW, FREE = 1, 2  # flows
TARGETS: dict[int, Target] = {SLOW: HttpTarget("http://slow/"), FREE: PythonTarget("f")}
LATER = START + timedelta(seconds=10)


class World:
    """Places, an agenda that is full of what is due, and whether the dispatcher was woken."""

    def __init__(self) -> None:
        self.agenda = Agenda(FairQueue(), START, 1000, self._wake)
        self.woken = 0
        self.places = PlaceCheck(_place_of, self.agenda, FIRST)

    def _wake(self) -> None:
        self.woken += 1

    def add(self, flow: int, *numbers: int) -> None:
        self.agenda.add([entry(number, flow=flow) for number in numbers])
        self.agenda.advance(LATER)

    def taken(self, most: int = 100) -> list[Entry]:
        return self.agenda.take(most, SuspectRoom(1, 1), self.places.admit)

    def claim(self, *entries: Entry) -> list[bool]:
        return [self.places.claimed(_delivery(e.key, e.flow)) for e in entries]

    def learn(self, flow: int) -> None:
        """From a task that comes and goes."""
        self.add(flow, 900 + flow)
        found = self.taken()
        self.claim(*found)
        self.end(*found)

    def end(self, *entries: Entry) -> None:
        for each in entries:
            self.places.ended(Report(_delivery(each.key, each.flow)))


def _place_of(target: Target) -> Place | None:
    return Place("slow", ROOM) if isinstance(target, HttpTarget) else None


def _delivery(key: TaskKey, flow: int) -> Delivery:
    return msgspec.structs.replace(a_delivery(1), key=key, flow=flow, target=TARGETS[flow])


def test_no_more_are_taken_than_there_are_places_and_others_pass() -> None:
    world = World()
    world.learn(SLOW)
    world.learn(FREE)
    world.add(SLOW, *range(10))
    world.add(FREE, *range(10, 20))
    taken = world.taken()
    assert sum(e.flow == SLOW for e in taken) == ROOM
    assert sum(e.flow == FREE for e in taken) == 10
    assert world.claim(*taken) == [True] * (ROOM + 10)
    assert world.taken() == []


def test_each_end_lets_another_one_in() -> None:
    world = World()
    world.learn(SLOW)
    world.add(SLOW, *range(10))
    running = world.taken()
    world.claim(*running)
    seen = set(running)
    while len(seen) < 10:
        before = world.woken
        world.end(running.pop(0))
        assert world.woken > before
        (found,) = world.taken()
        assert found not in seen
        seen.add(found)
        running.append(found)
        world.claim(found)


def test_of_a_flow_that_is_not_known_few_are_taken_until_it_is() -> None:
    world = World()
    world.add(FREE, *range(10))
    first = world.taken()
    assert len(first) == FIRST
    assert world.taken() == []
    world.claim(*first)
    assert len(world.taken()) == 10 - FIRST


def test_what_was_not_claimed_or_not_answered_takes_no_place() -> None:
    world = World()
    world.learn(SLOW)
    for told in (world.places.missed, world.places.unanswered):
        world.add(SLOW, *range(10))
        taken = world.taken()
        assert len(taken) == ROOM
        told([e.key for e in taken])
        assert len(world.taken()) == ROOM
        told([e.key for e in taken])
        world.places.missed([entry(n, flow=SLOW).key for n in range(10)])
        world.agenda.forget_ready()
        world.agenda.forget([entry(n, flow=SLOW).key for n in range(10)])


def test_a_hint_that_says_nothing_is_judged_by_its_row() -> None:
    world = World()
    hints = [entry(number, flow=UNKNOWN_FLOW) for number in range(5)]
    assert all(map(world.places.admit, hints))
    claimed = [world.places.claimed(_delivery(hint.key, SLOW)) for hint in hints]
    assert claimed == [True] * ROOM + [False] * 2
    world.end(*(Entry(h.key, h.due_at, h.lane, flow=SLOW) for h in hints[:1]))
    assert world.places.claimed(_delivery(hints[3].key, SLOW))


def test_a_task_that_is_claimed_again_while_it_runs_takes_no_second_place() -> None:
    world = World()
    world.learn(SLOW)
    mine = entry(1, flow=SLOW)
    for _ in range(2 * ROOM):
        assert world.places.admit(mine)
        assert world.claim(mine) == [True]
    world.add(SLOW, *range(10, 20))
    assert len(world.taken()) == ROOM - 1


def test_a_task_that_leads_elsewhere_by_now_leaves_its_place() -> None:
    world = World()
    world.learn(SLOW)
    world.add(SLOW, *range(ROOM))
    taken = world.taken()
    for each in taken:
        assert world.places.claimed(_delivery(each.key, FREE))
    world.learn(SLOW)
    world.add(SLOW, *range(10, 20))
    assert len(world.taken()) == ROOM


def test_whoever_waits_is_let_in_after_the_last_end_at_the_latest() -> None:
    """However many flows wait, and although those that were let in first take no place."""
    world = World()
    flows = range(10, 130)
    for flow in flows:
        TARGETS[flow] = TARGETS[SLOW]
        world.learn(flow)
    for flow in flows:
        world.add(flow, flow)
    running = world.taken()
    assert len(running) == ROOM
    world.claim(*running)
    assert world.taken() == []
    world.end(*running)
    assert len(world.agenda.take(1000, SuspectRoom(1, 1))) == len(flows) - ROOM


def test_places_are_free_for_what_is_not_known_while_nobody_waits_for_one() -> None:
    world = World()
    world.learn(SLOW)
    world.add(SLOW, *range(ROOM))
    taken = world.taken()
    assert world.places.is_free("acme")
    world.add(SLOW, 10)
    assert world.taken() == []
    assert not world.places.is_free("acme"), "one waits"
    world.end(*taken)
    assert world.places.is_free("acme")
