"""Reports wait for whoever writes them: one reader takes what comes, another only many at once."""

import asyncio

import msgspec
import pytest

from gnomon.model.outcomes.outcome import SUCCESS, Outcome, OutcomeKind
from gnomon.model.tasks.priority import Lane
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.pipe.report_queue import ReportQueue
from gnomon.testing.contracts.pipe import a_delivery

LARGE = Outcome(OutcomeKind.SUCCEEDED, result="x" * (40 * 1024 * 1024))


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_reader_that_waits_for_many_leaves_few_to_the_other() -> None:
    queue = ReportQueue()
    async with asyncio.TaskGroup() as group:
        many = group.create_task(queue.take(10, 3))
        await turns()
        first = group.create_task(queue.take(10))
        await turns()
        queue.put(Report(a_delivery(1)))
        await turns()
        assert [r.delivery.key.id.int for r in first.result()] == [1]
        for number in (2, 3):
            queue.put(Report(a_delivery(number)))
        await turns()
        assert not many.done()
        queue.put(Report(a_delivery(4)))
    assert [r.delivery.key.id.int for r in many.result()] == [2, 3, 4]


async def test_two_readers_that_are_woken_by_one_report_take_it_once() -> None:
    queue = ReportQueue()
    readers = [asyncio.ensure_future(queue.take(10)) for _ in range(2)]
    await turns()
    queue.put(Report(a_delivery(1)))
    await turns()
    assert sum(reader.done() for reader in readers) == 1
    queue.put(Report(a_delivery(2)))
    taken = [report for batch in await asyncio.gather(*readers) for report in batch]
    assert sorted(report.delivery.key.id.int for report in taken) == [1, 2]


@pytest.mark.parametrize("waits_before", [True, False])
async def test_a_pause_ends_by_itself(waits_before: bool) -> None:
    queue = ReportQueue()
    if waits_before:
        reader = asyncio.ensure_future(queue.take(10))
        await turns()
    queue.pause()
    if not waits_before:
        reader = asyncio.ensure_future(queue.take(10))
    queue.put(Report(a_delivery(1)))
    await turns()
    assert not reader.done()
    async with asyncio.timeout(20):
        assert len(await reader) == 1
    assert not queue._paused


async def test_whoever_was_told_to_read_does_though_the_next_pause_has_begun() -> None:
    queue = ReportQueue()
    reader = asyncio.ensure_future(queue.take(10))
    await turns()
    queue.pause()
    queue.put(Report(a_delivery(1)))
    queue.resume()
    queue.pause()
    await turns()
    assert len(reader.result()) == 1


@pytest.mark.parametrize("settling", [0, 1, 2, 5])
async def test_there_is_room_for_more_while_so_many_are_settled(settling: int) -> None:
    pipe = MemoryPipe(3, lambda: None, settling=settling)
    pipe.send([a_delivery(number) for number in range(3)])
    assert pipe.room() == 0
    for _ in range(3):
        pipe.report(Report(await pipe.receive(), SUCCESS))
    assert pipe.room() == min(3, settling)
    reports = await pipe.reports(10)
    assert pipe.room() == min(3, settling)
    pipe.settled(reports)
    assert pipe.room() == 3


async def test_nothing_is_claimed_beside_large_results_that_wait_to_be_written() -> None:
    pipe = MemoryPipe(2, lambda: None, settling=100)
    pipe.send([a_delivery(1), a_delivery(2)])
    pipe.report(Report(await pipe.receive(), LARGE))
    assert pipe.room() == 0
    pipe.settled(await pipe.reports(10))
    pipe.report(Report(await pipe.receive(), SUCCESS))
    assert pipe.room() == 2


async def test_whoever_claims_is_told_of_room_when_many_are_reported_and_none_is_settled() -> None:
    told: list[None] = []
    pipe = MemoryPipe(1000, lambda: told.append(None), settling=1000)
    pipe.send([a_delivery(number) for number in range(300)])
    for _ in range(300):
        pipe.report(Report(await pipe.receive(), SUCCESS))
    assert len(told) == 1
    assert pipe.room() == 1000


async def test_one_slot_is_woken_for_many_deliveries_and_wakes_the_next_when_it_has_one() -> None:
    pipe = MemoryPipe(10, lambda: None)
    slots = [asyncio.ensure_future(pipe.receive()) for _ in range(5)]
    await turns()
    pipe.send([a_delivery(number) for number in range(4)])
    await asyncio.sleep(0)
    assert sum(slot.done() for slot in slots) == 1
    await turns(10)
    assert sum(slot.done() for slot in slots) == 4
    for slot in slots:
        slot.cancel()
    await asyncio.wait(slots)


class Counting(MemoryPipe):
    """Counts how often slots look for something to do."""

    looks = 0

    def take(self) -> Delivery | None:
        self.looks += 1
        return super().take()


async def test_slots_that_are_kept_do_not_wake_each_other_for_what_they_do_not_get() -> None:
    pipe = Counting(10, lambda: None, prefetch=10, reserved=3)
    slots = [asyncio.ensure_future(pipe.receive()) for _ in range(10)]
    await turns()
    pipe.send([a_delivery(number) for number in range(7)])
    await turns(30)
    assert sum(slot.done() for slot in slots) == 7
    before = pipe.looks
    pipe.send([a_delivery(number) for number in range(100, 105)])
    await turns(200)
    assert pipe.looks - before <= 3
    pipe.send([a_delivery(number, Lane.CRITICAL) for number in range(200, 202)])
    await turns(30)
    assert sum(slot.done() for slot in slots) == 9
    for slot in slots:
        slot.cancel()
    await asyncio.wait(slots)


async def test_slots_go_on_with_what_is_offered_once_large_results_are_written() -> None:
    pipe = MemoryPipe(4, lambda: None, settling=4)
    herd = [msgspec.structs.replace(a_delivery(n), not_before=1.0) for n in range(20)]
    pipe.hold(herd, surplus=True)
    pipe.send([a_delivery(100)])
    pipe.report(Report(await pipe.receive(), LARGE))
    pipe.start(herd)
    slots = [asyncio.ensure_future(pipe.receive()) for _ in range(3)]
    await turns()
    assert not any(slot.done() for slot in slots)
    pipe.settled(await pipe.reports(10))
    await turns(20)
    assert all(slot.done() for slot in slots)
