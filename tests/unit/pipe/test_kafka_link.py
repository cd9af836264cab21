"""How a link through Kafka ends and hands over what has come, where there is no Kafka."""

import asyncio
import threading

import pytest
from confluent_kafka import KafkaError

from gnomon.clock import SystemClock
from gnomon.pipe.kafka.client import ClientEvents, KafkaClient, PipeRecord, Reading
from gnomon.pipe.kafka.link import KafkaLink
from gnomon.pipe.meeting.link import PipeUnavailable
from gnomon.settings import PipeSettings
from gnomon.testing.contracts.link import RecordingEnd


async def test_what_is_confirmed_as_the_link_ends_does_not_keep_its_threads() -> None:
    settings = PipeSettings(url="kafka://127.0.0.1:1", silence_seconds=1.0)
    link = KafkaLink(settings, "worker", SystemClock(), RecordingEnd(is_gateway=False))
    before = set(threading.enumerate())
    told: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
    told.set_result(None)
    link._pending.add(told)  # its callback waits for the next turn of the loop
    with pytest.raises(PipeUnavailable):
        await link.run()
    left = set(threading.enumerate()) - before
    assert not [each for each in left if each.name == "kafka-pipe"]


async def test_a_batch_waits_until_the_one_before_is_taken() -> None:
    heard: list[PipeRecord] = []
    events = ClientEvents(lambda _: None, heard.extend, lambda _: None)
    client = KafkaClient({}, Reading("calls", b"key", None), lambda: 0, events, 1.0)
    batch = [PipeRecord("calls", b"call", None)]
    handing = threading.Thread(target=client._hand_over, args=(batch,))
    handing.start()
    handing.join(0.5)
    assert handing.is_alive(), "the event loop has not turned"
    await asyncio.to_thread(handing.join)
    assert heard == batch
    handing = threading.Thread(target=client._hand_over, args=(batch,))
    handing.start()
    client._stopped.set()
    handing.join()
