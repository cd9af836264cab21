"""Which suspects are claimed: as many as can run, and of every tenant some."""

from datetime import UTC, datetime
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.outcomes.quarantine import ALONE_FROM, LARGEST_GROUP, STEP
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.suspects import SuspectQueue, SuspectRoom
from gnomon.store.ports.dispatch import Entry

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(tenant_id: str, number: int, losses: int = 1) -> Entry:
    return Entry(TaskKey(tenant_id, UUID(int=number)), NOW, Lane.MEDIUM, losses)


def fill(places: SuspectRoom, entries: list[Entry]) -> list[Entry]:
    taken = []
    for each in entries:
        if places.allows(each.key, each.losses, {e.key.tenant_id for e in entries}):
            places.take(each.key, each.losses)
            taken.append(each)
    return taken


def test_one_tenant_leaves_room_for_another() -> None:
    places = SuspectRoom(4, 1000)
    first = fill(places, [entry("a", n) for n in range(1000)])
    assert len(first) == 2 * LARGEST_GROUP
    assert fill(places, [entry("b", n) for n in range(1000)])
    assert fill(places, [entry("c", n) for n in range(1000)])


def test_those_that_need_a_process_for_themselves_are_as_many_as_there_are_processes() -> None:
    places = SuspectRoom(4, 1000)
    alone = [entry(tenant, n, ALONE_FROM) for tenant in "abcdef" for n in range(10)]
    assert len(fill(places, alone)) == 4
    assert not places.has_room()


def test_suspects_leave_slots_for_everything_else() -> None:
    places = SuspectRoom(4, 10)
    assert len(fill(places, [entry("abc"[n % 3], n) for n in range(100)])) == 5


def test_nobody_is_claimed_while_no_process_can_be_started() -> None:
    places = SuspectRoom(4, 10, is_open=lambda: False)
    assert not places.has_room()
    assert fill(places, [entry("a", 1)]) == []


def test_a_place_is_given_back_once() -> None:
    places = SuspectRoom(1, 1000)
    (one,) = fill(places, [entry("a", 1, ALONE_FROM)])
    assert fill(places, [entry("b", 2, ALONE_FROM)]) == []
    places.release(one.key)
    places.release(one.key)
    assert len(fill(places, [entry("b", 2, ALONE_FROM), entry("c", 3, ALONE_FROM)])) == 1


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 2 * ALONE_FROM)), max_size=300),
    st.integers(1, 8),
)
def test_never_more_than_the_processes_hold(them: list[tuple[str, int]], processes: int) -> None:
    places = SuspectRoom(processes, 10_000)
    taken = fill(places, [entry(tenant, n, losses) for n, (tenant, losses) in enumerate(them)])
    assert sum(1 / max(1, LARGEST_GROUP >> (e.losses // STEP)) for e in taken) <= processes
    for each in taken:
        places.release(each.key)
    assert not places.held
    assert places.has_room()


def test_tenants_take_turns() -> None:
    queue = SuspectQueue()
    queue.add([entry("a", n) for n in range(10)])
    queue.add([entry("b", n) for n in range(2)])
    assert [e.key.tenant_id for e in queue.take(5, lambda _: True)] == ["a", "b", "a", "b", "a"]
    assert len(queue) == 7
    assert not queue.all_refused


def test_many_that_were_refused_are_waited_for_no_more_than_a_few() -> None:
    """Or a node with many suspects that it has no room for would leave its slots empty."""
    queue = SuspectQueue()
    queue.add([entry("a", n) for n in range(500)])
    assert queue.take(10, lambda _: False) == []
    assert queue.all_refused


def test_one_that_does_not_fit_does_not_stop_the_others() -> None:
    queue = SuspectQueue()
    queue.add([entry("a", 1, 9), entry("a", 2), entry("b", 3, 9), entry("b", 4)])
    taken = queue.take(10, lambda e: e.losses == 1)
    assert sorted(e.key.id.int for e in taken) == [2, 4]
    assert queue.take(10, lambda _: False) == []
    assert queue.all_refused
    queue.put_back(entry("a", 5))
    assert not queue.all_refused
    assert len(queue) == 3
    queue.replace([])
    assert not queue
