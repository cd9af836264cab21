"""What a gateway makes of polls: those that come again, late, out of turn, and of workers that want
more than is theirs."""

import asyncio
from uuid import UUID

import msgspec
import pytest
from tests.unit.node.talking import Talk

from gnomon.model.tasks.task import DeliveryMode
from gnomon.node.remote.keyed_locks import KeyedLocks
from gnomon.pipe.envelope import Delivery
from gnomon.pipe.http.http_pipe import AWAY_SECONDS
from gnomon.testing.contracts.pipe import a_delivery

EXACTLY = DeliveryMode.EXACTLY_ONCE


async def test_a_report_counts_only_from_the_session_that_was_given_the_task() -> None:
    talk = Talk()
    delivery = talk.claimed(1, talk.first)
    assert [d.task_id for d in talk.poll(1).deliveries] == [delivery.key.id]
    answer = talk.poll(1, talk.second, reports=[delivery])
    assert [each.accepted for each in answer.acknowledged] == [False]
    assert await talk.reported() == []
    talk.poll(2, held=[delivery], reports=[delivery])
    (report,) = await talk.reported()
    assert report.delivery.incarnation == talk.first.incarnation


async def test_a_report_counts_only_under_the_fence_of_its_delivery() -> None:
    talk = Talk()
    delivery = talk.claimed(1, fence=3)
    talk.poll(1)
    for number, fence in enumerate((2, 4), 2):
        stale = msgspec.structs.replace(delivery, fence=fence)
        answer = talk.poll(number, held=[delivery], reports=[stale])
        assert [each.accepted for each in answer.acknowledged] == [False]
    assert await talk.reported() == []


async def test_a_poll_of_before_counts_no_more() -> None:
    talk = Talk()
    talk.poll(1)
    delivery = talk.claimed(1)
    talk.poll(5)
    answer = talk.poll(4, reports=[delivery])  # overtaken
    assert (answer.acknowledged, answer.deliveries) == ([], [])
    assert await talk.reported() == []
    assert (delivery.key, delivery.fence) in talk.first.held


async def test_nothing_follows_from_what_a_poll_of_another_epoch_holds() -> None:
    talk = Talk()
    delivery = talk.claimed(1)
    talk.poll(1)
    answer = talk.poll(2, epoch="another")
    assert (answer.epoch, answer.deliveries, answer.cancel) == ("e", [], [])
    assert (delivery.key, delivery.fence) in talk.first.held
    assert talk.pipe.room() == 0


async def test_a_task_that_asks_is_granted_by_the_store_alone() -> None:
    talk = Talk()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(talk.starter.run())
        delivery = talk.claimed(1, mode=EXACTLY)
        assert [each.asks for each in talk.poll(1).deliveries] == [True]
        assert talk.poll(2, held=[delivery], begin=[delivery]).begun == []  # it is asked
        while not talk.first.grants:
            await asyncio.sleep(0)
        answer = talk.poll(3, held=[delivery], begin=[delivery])
        assert [each.granted for each in answer.begun] == [True]
        assert talk.begun == [delivery.key]
        other = msgspec.structs.replace(delivery, fence=9)
        answer = talk.poll(4, held=[delivery], begin=[other])
        assert [each.granted for each in answer.begun] == [False]
        # Another session may not ask for it.
        answer = talk.poll(1, talk.second, begin=[delivery])
        assert [each.granted for each in answer.begun] == [False]
        assert talk.begun == [delivery.key]
        # What has begun is never delivered again, whatever its worker has forgotten.
        assert talk.poll(5).deliveries == []
        assert (delivery.key, delivery.fence) in talk.first.held
        running.cancel()


async def test_receipts_are_kept_while_their_reports_are_repeated_and_no_longer() -> None:
    talk = Talk()
    delivery = talk.claimed(1)
    talk.poll(1)
    talk.poll(2, held=[delivery], reports=[delivery])
    talk.written(await talk.reported())
    for number in (3, 4):  # the answer was lost
        answer = talk.poll(number, held=[delivery], reports=[delivery])
        assert [each.accepted for each in answer.acknowledged] == [True]
    assert talk.poll(5).acknowledged == []
    assert talk.first.receipts == {}


async def test_a_report_that_was_heard_need_not_be_repeated() -> None:
    talk = Talk()
    written, stale = talk.claimed(1), talk.claimed(2)
    both = [written, stale]
    talk.poll(1)
    assert talk.poll(2, held=both, reports=both).acknowledged == []
    assert talk.poll(3, held=both).cancel == [], "it is being written"
    first, second = await talk.reported()
    talk.written([first])
    talk.written([second], accepted=False)
    for number in (4, 5):  # an answer was lost
        answer = talk.poll(number, held=both)
        receipts = {each.task_id: each.accepted for each in answer.acknowledged}
        assert receipts.get(written.key.id)
    assert stale.key.id not in receipts
    assert [each.task_id for each in answer.cancel] == [stale.key.id], "which its worker reports"
    answer = talk.poll(6, held=[stale], reports=[stale])
    assert [each.accepted for each in answer.acknowledged] == [False]
    talk.poll(7)
    assert talk.first.receipts == {}


@pytest.mark.parametrize("epoch", ["e", "wrong"])
async def test_reports_of_what_is_not_there_fill_no_memory(epoch: str) -> None:
    talk = Talk()
    held: list[Delivery] = []
    for number in range(20):
        made_up = [a_delivery(number * 100 + each) for each in range(1, 100)]
        held += made_up
        talk.poll(number, held=held, reports=made_up, epoch=epoch)
    assert len(talk.first.receipts) < 100


async def test_a_delivery_that_waits_is_found_by_its_report_whatever_waits_beside_it() -> None:
    talk = Talk()
    waiting = [talk.claimed(number) for number in range(1, 2000)]
    last = waiting[-1]
    # Its answer was lost, or so it seemed: it is delivered again, and reported meanwhile.
    talk.poll(1, slots=0, reports=[last])
    (report,) = await talk.reported()
    assert report.delivery == last
    assert talk.first.queued == len(waiting) - 1
    stale = msgspec.structs.replace(waiting[0], fence=7)
    talk.poll(2, slots=0, reports=[stale])
    assert talk.first.queued == len(waiting) - 1  # and nothing is taken for another


async def test_payloads_are_kept_until_a_worker_has_them_and_large_ones_not_at_all() -> None:
    talk = Talk()
    small = talk.claimed(1, payload=b'"x"')
    large = talk.claimed(2, payload_size=9000)
    session, lacking = talk.pipe.lacking.popleft()
    talk.pipe.loaded(session, msgspec.structs.replace(lacking, payload=b"9" * 9000))
    assert talk.pipe.loaded_bytes == 9000
    assert {bytes(d.payload)[:1] for d in talk.poll(1).deliveries} == {b'"', b"9"}
    assert talk.pipe.loaded_bytes == 0  # one who never comes back takes nothing from others
    assert talk.first.held[large.key, large.fence].delivery.payload is None
    assert talk.first.held[small.key, small.fence].delivery.payload == b'"x"'
    talk.poll(2, held=[small])
    assert talk.first.held[small.key, small.fence].delivery.payload is None
    # The large one has not arrived: it is released, and claimed anew.
    (report,) = await talk.reported()
    assert (report.delivery.key, report.outcome) == (large.key, None)


async def test_payloads_of_a_session_that_is_adopted_again_are_kept_no_longer() -> None:
    talk = Talk()
    delivery = talk.claimed(1, payload=b'"x"')
    talk.poll(1)
    had = talk.conversation.forget(talk.first)
    again = talk.session(2)
    talk.conversation.take_over(again, had)
    assert again.held[delivery.key, 1].delivery.payload == b'"x"', "it may have to be said again"
    talk.poll(2, again, held=[delivery])
    assert again.held[delivery.key, 1].delivery.payload is None


async def test_the_answer_to_one_who_went_away_is_not_kept() -> None:
    talk = Talk()
    delivery = talk.claimed(1)
    first = talk.poll(1)
    assert talk.poll(1) == first
    talk.clock.at += AWAY_SECONDS / 2
    talk.pipe.pace()
    assert talk.poll(1) == first
    talk.clock.at += AWAY_SECONDS
    talk.pipe.pace()
    assert talk.first.answered is None
    again = talk.poll(1)  # and what it delivered is delivered again
    assert [each.task_id for each in again.deliveries] == [delivery.key.id]


async def test_a_payload_that_is_read_for_a_session_of_before_goes_to_nobody() -> None:
    """The session was adopted anew meanwhile, and what it has is known by rows."""
    talk = Talk()
    talk.claimed(1, payload_size=9000)
    session, lacking = talk.pipe.lacking.popleft()
    talk.conversation.forget(talk.first)
    again = talk.session(2)
    talk.pipe.loaded(session, msgspec.structs.replace(lacking, payload=b"9" * 9000))
    (report,) = await talk.reported()
    assert (report.delivery.key, report.outcome) == (lacking.key, None)
    assert (again.queued, again.lacking, talk.pipe.loaded_bytes) == (0, 0, 0)


async def test_a_session_that_drains_is_told_and_gets_nothing() -> None:
    talk = Talk()
    talk.poll(1)
    talk.conversation.drain(talk.first)
    assert talk.poll(2).command == "drain"
    assert talk.pipe.room() == 0
    assert talk.poll(1, talk.second).command is None


async def test_locks_are_one_for_each_key_and_leave_nothing() -> None:
    locks = KeyedLocks()
    inside: list[UUID] = []
    most = 0

    async def enter(key: UUID) -> None:
        nonlocal most
        async with locks.alone(key):
            inside.append(key)
            most = max(most, inside.count(key))
            await asyncio.sleep(0)
            inside.remove(key)

    async with asyncio.TaskGroup() as group:
        for number in range(30):
            group.create_task(enter(UUID(int=number % 3)))
    assert (most, len(locks)) == (1, 0)
