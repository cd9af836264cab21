"""The contracts of pipes, as tests: derive from `PipeContract` and give it a world with your pipe.

    class TestMine(PipeContract):
        def make_world(self, capacity, on_room):
            return MyWorld(MyPipe(capacity, on_room))

A pipe whose workers are slots of the same process has a second one, `SlotPipeContract`. The tests
are coroutines: run them with pytest-asyncio or the like, in its auto mode.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

import msgspec

from gnomon.model.outcomes.outcome import SUCCESS
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.port import Pipe, SlotPipe

T = TypeVar("T")

_MOMENT = 1_800_000_000.0


def a_delivery(number: int, lane: Lane = Lane.MEDIUM) -> Delivery:
    """A claimed task that can be told from others by its number."""
    return Delivery(
        key=TaskKey("tenant", UUID(int=number)),
        fence=1,
        incarnation=UUID(int=0),
        attempt=1,
        retries_left=3,
        losses=0,
        target=PythonTarget("f"),
        payload=None,
        payload_size=None,
        timeout_seconds=30.0,
        retry_policy=RetryPolicy(),
        task_type="t",
        lane=lane,
        scheduled_for=_MOMENT,
        start_by=_MOMENT,
        idempotency_key=None,
        expired=False,
    )


def _held(number: int, not_before: float, lane: Lane = Lane.MEDIUM) -> Delivery:
    """One that was claimed ahead of its time."""
    delivery = a_delivery(number, lane)
    return msgspec.structs.replace(delivery, not_before=not_before, start_by=not_before + 5)


class PipeWorld(Protocol):
    """A pipe, and a worker at its other end that has so many slots."""

    @property
    def pipe(self) -> Pipe: ...

    async def send(self, deliveries: Sequence[Delivery]) -> None:
        """Hand claimed tasks to the pipe, as a dispatcher does that has chosen who runs them."""

    async def receive(self) -> Delivery:
        """The next delivery that the worker gets: it waits for one."""

    async def report(self, report: Report) -> None:
        """Have the worker say what became of a delivery."""

    async def receipts(self) -> list[bool]:
        """Whether the reports that the worker knows to be settled since the last call were
        accepted."""


class PipeContract:
    """The suite of all pipes."""

    def make_world(self, capacity: int, on_room: Callable[[], None]) -> PipeWorld:
        """A pipe with a worker of `capacity` slots; it calls `on_room` when there is room again."""
        raise NotImplementedError

    async def test_deliveries_come_in_the_order_they_were_sent(self) -> None:
        world = self.make_world(10, _nothing)
        sent = [a_delivery(n) for n in range(5)]
        await world.send(sent[:3])
        await world.send(sent[3:])
        assert [(await world.receive()).key for _ in sent] == [d.key for d in sent]

    async def test_critical_deliveries_overtake_all_others(self) -> None:
        world = self.make_world(10, _nothing)
        await world.send([a_delivery(1), a_delivery(2, Lane.HIGH)])
        await world.send(
            [a_delivery(3, Lane.CRITICAL), a_delivery(4), a_delivery(5, Lane.CRITICAL)]
        )
        received = [(await world.receive()).key.id.int for _ in range(5)]
        assert received == [3, 5, 1, 2, 4]

    async def test_a_worker_that_waits_is_woken(self) -> None:
        world = self.make_world(2, _nothing)
        waiting = _begun(world.receive())
        await _settle_down()
        assert not waiting.done()
        await world.send([a_delivery(1)])
        assert (await asyncio.wait_for(waiting, 5)).key == a_delivery(1).key

    async def test_room_shrinks_with_sending_and_is_back_after_settling(self) -> None:
        called: list[None] = []
        world = self.make_world(3, lambda: called.append(None))
        pipe = world.pipe
        assert pipe.room() == 3
        await world.send([a_delivery(1), a_delivery(2)])
        assert pipe.room() == 1
        delivery = await world.receive()
        assert pipe.room() == 1  # it is not over and done with
        called.clear()
        await world.report(Report(delivery, SUCCESS))
        reports = await pipe.reports(10)
        pipe.settled(reports)
        pipe.acknowledge(reports, accepted=True)
        assert await world.receipts() == [True]
        assert (pipe.room(), bool(called)) == (2, True)

    async def test_what_is_free_is_never_more_than_the_room(self) -> None:
        world = self.make_world(2, _nothing)
        pipe = world.pipe
        assert 0 < pipe.free() <= pipe.room() <= pipe.urgent_room()
        await world.send([a_delivery(1)])
        assert pipe.free() == 1
        await world.send([a_delivery(2)])
        assert pipe.free() == 0
        await world.receive()
        assert pipe.free() == 0  # it runs now

    async def test_what_was_not_received_can_be_taken_back(self) -> None:
        world = self.make_world(4, _nothing)
        await world.send([a_delivery(n) for n in range(4)])
        assert [d.key.id.int for d in world.pipe.unsent()] == [0, 1, 2, 3]
        assert world.pipe.unsent() == []

    async def test_what_is_late_can_be_taken_back(self) -> None:
        world = self.make_world(4, _nothing)
        await world.send([a_delivery(0), a_delivery(1, Lane.CRITICAL)])
        assert world.pipe.late(_MOMENT) == []
        assert {d.key.id.int for d in world.pipe.late(_MOMENT + 1)} == {0, 1}
        assert world.pipe.unsent() == []

    async def test_reports_come_in_batches_in_order(self) -> None:
        world = self.make_world(5, _nothing)
        await world.send([a_delivery(n) for n in range(5)])
        received = [await world.receive() for _ in range(5)]
        for delivery in received:
            await world.report(Report(delivery, SUCCESS))
        first, rest = await world.pipe.reports(2), await world.pipe.reports(10)
        assert [r.delivery for r in (*first, *rest)] == received
        assert len(first) == 2
        waiting = _begun(world.pipe.reports(10))
        await _settle_down()
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])

    async def test_a_report_that_was_stale_is_acknowledged_as_such(self) -> None:
        world = self.make_world(2, _nothing)
        await world.send([a_delivery(1), a_delivery(2)])
        for _ in range(2):
            await world.report(Report(await world.receive(), SUCCESS))
        reports = await world.pipe.reports(10)
        world.pipe.settled(reports)
        world.pipe.acknowledge(reports[:1], accepted=False)
        world.pipe.acknowledge(reports[1:], accepted=True)
        assert sorted(await world.receipts()) == [False, True]

    async def test_a_reader_of_reports_that_is_cancelled_takes_nothing_with_it(self) -> None:
        world = self.make_world(2, _nothing)
        await world.send([a_delivery(1)])
        delivery = await world.receive()
        reader = _begun(world.pipe.reports(10))
        await _settle_down()
        reader.cancel()
        await asyncio.wait([reader])
        await world.report(Report(delivery, SUCCESS))
        (report,) = await asyncio.wait_for(world.pipe.reports(10), 5)
        assert report.delivery == delivery


class SlotPipeContract:
    """The suite of pipes whose workers are slots of the same process."""

    def make_pipe(self, capacity: int, on_room: Callable[[], None], reserved: int = 0) -> SlotPipe:
        """A pipe whose workers can hold `capacity` deliveries, of which `reserved` are kept for
        CRITICAL ones; it calls `on_room` when there is room again."""
        raise NotImplementedError

    async def test_deliveries_come_in_the_order_they_were_sent(self) -> None:
        pipe = self.make_pipe(10, _nothing)
        sent = [a_delivery(n) for n in range(5)]
        pipe.send(sent[:3])
        pipe.send(sent[3:])
        assert [await pipe.receive() for _ in sent] == sent

    async def test_each_delivery_reaches_one_waiting_slot(self) -> None:
        pipe = self.make_pipe(10, _nothing)
        async with asyncio.TaskGroup() as group:
            slots = [group.create_task(pipe.receive()) for _ in range(5)]
            await _settle_down()
            sent = [a_delivery(n) for n in range(5)]
            pipe.send(sent[:2])
            await _settle_down()
            assert sum(slot.done() for slot in slots) == 2
            pipe.send(sent[2:])
        assert {slot.result().key for slot in slots} == {d.key for d in sent}

    async def test_what_is_held_takes_up_room_and_reaches_no_slot_before_it_is_started(
        self,
    ) -> None:
        pipe = self.make_pipe(10, _nothing, reserved=2)
        held = [_held(1, 30.0), _held(2, 20.0), _held(3, 20.0, Lane.CRITICAL)]
        room, urgent = pipe.room(), pipe.urgent_room()
        assert pipe.early_room() < room
        pipe.hold(held)
        assert (pipe.room(), pipe.urgent_room()) == (room - 2, urgent - 3)
        assert (pipe.take(), pipe.next_start()) == (None, 20.0)
        assert pipe.startable(19.9) == []
        assert pipe.startable(20.0) == held[1:]
        assert pipe.start(held[1:]) == held[1:]
        assert [pipe.take(), pipe.take(), pipe.take()] == [held[2], held[1], None]
        assert pipe.start(held) == held[:1]
        assert (pipe.take(), pipe.next_start()) == (held[0], None)

    async def test_what_is_held_can_be_taken_back(self) -> None:
        pipe = self.make_pipe(10, _nothing, reserved=2)
        room, urgent = pipe.room(), pipe.urgent_room()
        held = [_held(n, 20.0 + n, Lane.CRITICAL if n == 2 else Lane.LOW) for n in range(5)]
        pipe.hold(held)
        back = pipe.take_back(pipe.held(held[1].key, held[1].fence))
        assert back == [held[1]]
        assert pipe.held(held[2].key, held[2].fence + 1) == []
        assert pipe.take_back(pipe.held(held[2].key)) == [held[2]]
        assert pipe.start(held[:3]) == [held[0]]
        late = pipe.late(held[3].start_by + 0.5)
        assert late == [held[0], held[3]]
        assert pipe.unsent() == [held[4]]
        for each in held:
            pipe.report(Report(each))
        pipe.settled(await pipe.reports(10))
        assert (pipe.room(), pipe.urgent_room(), pipe.next_start()) == (room, urgent, None)

    async def test_a_slot_that_is_cancelled_takes_nothing_with_it(self) -> None:
        """Whenever the cancellation comes: before the sending, after it, or in between."""
        for turns in range(4):
            pipe = self.make_pipe(10, _nothing)
            leaving = _begun(pipe.receive())
            staying = _begun(pipe.receive())
            await _settle_down()
            pipe.send([a_delivery(1)])
            for _ in range(turns):
                await _settle_down(1)
            leaving.cancel()
            await asyncio.wait([leaving])
            received = leaving if not leaving.cancelled() else staying
            assert (await asyncio.wait_for(received, 5)).key == a_delivery(1).key
            staying.cancel()
            await asyncio.wait([staying])
            pipe.send([a_delivery(2)])
            assert (await asyncio.wait_for(pipe.receive(), 5)).key == a_delivery(2).key

    async def test_room_shrinks_with_sending_and_grows_with_settling(self) -> None:
        called: list[None] = []
        pipe = self.make_pipe(3, lambda: called.append(None))
        assert pipe.room() == 3
        pipe.send([a_delivery(1), a_delivery(2)])
        assert pipe.room() == 1
        delivery = await pipe.receive()
        assert pipe.room() == 1  # it is not over and done with
        pipe.report(Report(delivery, SUCCESS))
        reports = await pipe.reports(10)
        assert (pipe.room(), called) == (1, [])
        pipe.settled(reports)
        assert (pipe.room(), len(called)) == (2, 1)

    async def test_what_is_free_is_never_more_than_the_room(self) -> None:
        pipe = self.make_pipe(2, _nothing)
        free = pipe.free()
        assert 0 < free <= pipe.room()
        pipe.send([a_delivery(1)])
        assert 0 <= pipe.free() < free
        pipe.send([a_delivery(2)])
        assert pipe.free() == 0
        await pipe.receive()
        assert pipe.free() == 0  # it runs now
        pipe.settled([Report(a_delivery(1)), Report(a_delivery(2))])
        assert pipe.free() == free

    async def test_what_was_not_received_can_be_taken_back(self) -> None:
        pipe = self.make_pipe(10, _nothing)
        sent = [a_delivery(n) for n in range(4)]
        pipe.send(sent)
        first = await pipe.receive()
        assert [first, *pipe.unsent()] == sent
        assert pipe.unsent() == []
        assert pipe.room() == 6  # they are still to be settled
        waiting = _begun(pipe.receive())
        await _settle_down()
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])

    async def test_critical_deliveries_overtake_all_others(self) -> None:
        pipe = self.make_pipe(10, _nothing)
        pipe.send([a_delivery(1), a_delivery(2, Lane.HIGH)])
        pipe.send([a_delivery(3, Lane.CRITICAL), a_delivery(4), a_delivery(5, Lane.CRITICAL)])
        received = [(await pipe.receive()).key for _ in range(5)]
        assert received == [a_delivery(number).key for number in (3, 5, 1, 2, 4)]

    async def test_the_slots_that_are_kept_get_only_critical_deliveries(self) -> None:
        pipe = self.make_pipe(3, _nothing, reserved=1)
        slots = [_begun(pipe.receive()) for _ in range(3)]
        pipe.send([a_delivery(number) for number in range(3)])
        await _settle_down()
        assert sum(slot.done() for slot in slots) == 2
        pipe.send([a_delivery(3, Lane.CRITICAL)])
        await asyncio.wait_for(asyncio.gather(*slots), 5)
        assert {slot.result().key.id.int for slot in slots} == {0, 1, 3}
        # A slot that has done with a critical delivery is kept for the next one.
        pipe.report(Report(a_delivery(3, Lane.CRITICAL), SUCCESS))
        again = _begun(pipe.receive())
        await _settle_down()
        assert not again.done()
        pipe.report(Report(a_delivery(0), SUCCESS))
        another = _begun(pipe.receive())
        assert (await asyncio.wait_for(another, 5)).key == a_delivery(2).key
        pipe.send([a_delivery(4, Lane.CRITICAL)])
        assert (await asyncio.wait_for(again, 5)).key == a_delivery(4).key

    async def test_critical_deliveries_may_use_every_slot(self) -> None:
        pipe = self.make_pipe(3, _nothing, reserved=1)
        pipe.send([a_delivery(number, Lane.CRITICAL) for number in range(3)])
        assert [(await pipe.receive()).key.id.int for _ in range(3)] == [0, 1, 2]

    async def test_the_room_for_critical_deliveries_is_larger_by_the_slots_that_are_kept(
        self,
    ) -> None:
        pipe = self.make_pipe(4, _nothing, reserved=1)
        assert (pipe.room(), pipe.urgent_room()) == (3, 4)
        pipe.send([a_delivery(number) for number in range(3)])
        assert (pipe.room(), pipe.free(), pipe.urgent_room()) == (0, 0, 1)
        pipe.send([a_delivery(3, Lane.CRITICAL)])
        assert (pipe.room(), pipe.free(), pipe.urgent_room()) == (0, 0, 0)
        pipe.settled([Report(a_delivery(3, Lane.CRITICAL))])
        assert (pipe.room(), pipe.urgent_room()) == (0, 1)
        pipe.settled([Report(a_delivery(0)), Report(a_delivery(1))])
        # The first critical delivery fills the kept slot, the next ones the room of all.
        pipe.send([a_delivery(number, Lane.CRITICAL) for number in (4, 5)])
        assert (pipe.room(), pipe.urgent_room()) == (1, 1)

    async def test_critical_deliveries_that_no_slot_is_free_for_are_counted(self) -> None:
        pipe = self.make_pipe(2, _nothing, reserved=1)
        early = _MOMENT - 1
        pipe.send([a_delivery(1), a_delivery(2)])
        await pipe.receive()
        assert pipe.stranded(early) == 0
        pipe.send([a_delivery(3, Lane.CRITICAL)])
        assert pipe.stranded(early) == 0  # its slot has not come for it yet
        pipe.send([a_delivery(4, Lane.CRITICAL)])
        assert pipe.stranded(early) == 1
        urgent = await pipe.receive()
        assert pipe.stranded(early) == 1
        assert pipe.stranded(_MOMENT + 1) == 0  # too late to be started
        pipe.report(Report(urgent, SUCCESS))
        assert pipe.stranded(early) == 0

    async def test_what_is_late_can_be_taken_back(self) -> None:
        pipe = self.make_pipe(2, _nothing, reserved=1)
        pipe.send([a_delivery(0), a_delivery(1), a_delivery(2, Lane.CRITICAL)])
        assert (await pipe.receive()).key == a_delivery(2).key
        assert (await pipe.receive()).key == a_delivery(0).key
        pipe.send([a_delivery(2, Lane.CRITICAL)])
        assert pipe.late(_MOMENT) == []
        late = pipe.late(_MOMENT + 1)
        assert {delivery.key.id.int for delivery in late} == {1, 2}
        assert pipe.unsent() == []
        for delivery in late:
            pipe.report(Report(delivery))
        pipe.settled(await pipe.reports(2))
        assert (pipe.room(), pipe.urgent_room()) == (0, 0)  # those in the slots are all there is
        pipe.send([a_delivery(3), a_delivery(4, Lane.CRITICAL)])
        assert pipe.stranded(_MOMENT) == 1
        next_one = _begun(pipe.receive())
        assert (await asyncio.wait_for(next_one, 5)).key == a_delivery(4).key
        waiting = _begun(pipe.receive())
        await _settle_down()
        assert not waiting.done()  # the slot that is not kept has something to do
        waiting.cancel()
        await asyncio.wait([waiting])

    async def test_reports_come_in_batches_in_order(self) -> None:
        pipe = self.make_pipe(10, _nothing)
        reports = [Report(a_delivery(n)) for n in range(5)]
        for report in reports:
            pipe.report(report)
        assert await pipe.reports(2) == reports[:2]
        assert await pipe.reports(10) == reports[2:]
        waiting = _begun(pipe.reports(10))
        await _settle_down()
        assert not waiting.done()
        pipe.report(reports[0])
        assert await asyncio.wait_for(waiting, 5) == reports[:1]

    async def test_a_reader_of_reports_that_is_cancelled_takes_nothing_with_it(self) -> None:
        pipe = self.make_pipe(10, _nothing)
        reader = _begun(pipe.reports(10))
        await _settle_down()
        pipe.report(Report(a_delivery(1)))
        reader.cancel()
        await asyncio.wait([reader])
        if reader.cancelled():
            assert await asyncio.wait_for(pipe.reports(10), 5) == [Report(a_delivery(1))]


def _begun(waiting: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """A task that the test ends itself."""
    return asyncio.get_running_loop().create_task(waiting)


def _nothing() -> None:
    """Nobody waits for room."""


async def _settle_down(turns: int = 5) -> None:
    """Let every task that can run, run."""
    for _ in range(turns):
        await asyncio.wait([_begun(_turn())])


async def _turn() -> None:
    """One turn of the loop."""
