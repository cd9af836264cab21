"""What becomes of messages as a connection to RabbitMQ breaks."""

import asyncio
from typing import Any

import pytest

from gnomon.clock import SystemClock
from gnomon.pipe.meeting.link import PipeUnavailable
from gnomon.pipe.rabbitmq.link import RabbitLink
from gnomon.settings import PipeSettings
from gnomon.testing.contracts.link import RecordingEnd


class BreakingSender:
    """A connection that breaks with a message on its way, and another one just put."""

    def __init__(self, link: RabbitLink) -> None:
        self._link = link
        self.late: asyncio.Future[Any] | None = None

    async def basic_publish(self, *_: object, **__: object) -> None:
        self.late = self._link._put("worker", b"late")
        raise ConnectionResetError("cut")


async def test_what_is_put_as_the_connection_breaks_is_told_so() -> None:
    settings = PipeSettings(url="amqp://127.0.0.1:1")
    link = RabbitLink(settings, "gateway", SystemClock(), RecordingEnd(is_gateway=True))
    sender = BreakingSender(link)
    first = link._put("worker", b"first")
    with pytest.raises(ExceptionGroup):
        await link._send(sender)
    link._close()
    assert sender.late is not None
    for fate in (first, sender.late):
        assert fate.done()
        assert isinstance(fate.exception(), PipeUnavailable)
