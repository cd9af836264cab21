"""One connection through a broker: a channel that is heard, and others that are sent to.

Each broker has an adapter (`pipe/redis`, `pipe/rabbitmq`, `pipe/kafka`); `link_to` makes the one
that the settings name. `gnomon.testing.contracts.link` is what all of them keep.
"""

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

from gnomon.clock import Clock
from gnomon.model.errors import StoreUnavailable
from gnomon.pipe.meeting.frames import LARGEST_MESSAGE
from gnomon.settings import MeetingPlace, PipeSettings

WATCH_SECONDS = 1.0  # between beats, and between looks at who is gone
MOST_ASKED = 20_000  # messages that wait to be sent
MOST_OFFERED = 1_000  # with so many before it, what is offered is dropped
PING = b""  # means nothing: its sender wants to know whether it is heard


class PipeUnavailable(StoreUnavailable):
    """The broker cannot be reached, or refuses what it is asked; nothing was acknowledged."""


class MessageTooLarge(PipeUnavailable):
    """The broker is there, and no message of this size goes through it."""


class UnfitBroker(PipeUnavailable):
    """The broker is there, and has to be set otherwise: to ask it soon again would be in vain."""


class LinkEnd(Protocol):
    """Whoever a link is of."""

    is_gateway: bool  # it beats, so that workers know that it does not stand still
    # Whether the broker takes the largest messages needs no trial. Links set it, for those after.
    largest_tried: bool

    def ready(self) -> None:
        """Messages can be sent, and are heard."""

    def hear(self, frame: bytes) -> None:
        """A message has come."""

    def beaten(self, gateway: str) -> None:
        """The gateway of this channel is well."""

    def watched(self) -> Collection[str]:
        """Channels of others, to be asked about; called every second."""

    def gone(self, channels: Collection[str]) -> None:
        """Nobody listens on these any more."""


class PipeLink(Protocol):
    """`run` lasts as long as the connection does; then it is to be replaced by another link, with
    another channel. Nobody who gives up waiting for a method interrupts the client of a broker."""

    @property
    def channel(self) -> str:
        """Where this end is heard; settled once it is ready."""

    async def run(self) -> None:
        """Listen until that fails. Raises PipeUnavailable."""

    async def publish(self, channel: str, frame: bytes) -> bool:
        """False: nobody has received it, as far as the broker can tell. Raises PipeUnavailable,
        MessageTooLarge."""

    def offer(self, channel: str, frame: bytes) -> None:
        """Publish it unless others have to wait for it, and without knowing what became of it."""

    async def gateways(self) -> list[str]:
        """The channels of living gateways, sorted. Raises PipeUnavailable."""


def link_to(settings: PipeSettings, channel: str, clock: Clock, end: LinkEnd) -> PipeLink:
    """A link through the broker of the settings. Imports its client, and no other."""
    match settings.place:
        case MeetingPlace.REDIS:
            from gnomon.pipe.redis.link import RedisLink

            return RedisLink(settings, channel, clock, end)
        case MeetingPlace.RABBITMQ:
            from gnomon.pipe.rabbitmq.link import RabbitLink

            return RabbitLink(settings, channel, clock, end)
        case MeetingPlace.KAFKA:
            from gnomon.pipe.kafka.link import KafkaLink

            return KafkaLink(settings, channel, clock, end)


@contextmanager
def as_unavailable(settings: PipeSettings, failures: tuple[type[Exception], ...]) -> Iterator[None]:
    """Raise PipeUnavailable for errors of the client of a broker, also for those of tasks."""
    try:
        yield
    except failures as error:
        raise unavailable(settings, error) from error
    except ExceptionGroup as group:
        if group.split((*failures, PipeUnavailable))[1] is not None:
            raise
        raise unavailable(settings, group) from group


def times_cancelled() -> int:
    """How often this task was cancelled: clients of brokers swallow that at times, while they
    connect. Not 0 in a task whose former link has broken: its task group leaves that behind."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def check_size(settings: PipeSettings, frame: bytes) -> None:
    """Raises MessageTooLarge. Some brokers cut off whoever sends more than they take, and with it
    all that others have under way."""
    if len(frame) > LARGEST_MESSAGE:
        raise MessageTooLarge(
            f"a message of {len(frame)} bytes does not go through {settings.place.label}:"
            f" {LARGEST_MESSAGE} is the most"
        )


def unavailable(settings: PipeSettings, error: BaseException) -> PipeUnavailable:
    """What an error of a client means to whoever sends."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, PipeUnavailable):
        return error
    why = str(error).strip() or type(error).__name__
    where = f"{settings.place.label} at {settings.where}"
    return PipeUnavailable(f"{where} is unavailable: {why}"[:500])
