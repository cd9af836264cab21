"""The parts of a stream that follows something: its items as they happen, and now and then a mark
of how far it has come."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, TypeVar

from gnomon.api.context import Request, context_of
from gnomon.api.http.answers.event_stream import (
    KEEP_ALIVE_SECONDS,
    LONGEST_SECONDS,
    is_still_admitted,
)
from gnomon.model.errors import EventsGone, StoreError
from gnomon.model.insight.transition import TransitionsGone

_AGAIN_SECONDS = 1.0

Item = TypeVar("Item", covariant=True)
T = TypeVar("T")


class FeedFollower(Protocol[Item]):
    """A reader of a feed. `told` is set when there may be something to take."""

    told: asyncio.Event

    @property
    def position(self) -> object:
        """All up to here were taken; its text is the id of an event of the stream."""

    async def take(self) -> Sequence[Item]:
        """The next items. Raises EventsGone or TransitionsGone, StoreError."""


async def followed(
    request: Request,
    closed: asyncio.Event,
    shown: Callable[[T], bytes | None],
    follower: FeedFollower[T],
) -> AsyncIterator[bytes]:
    """What is sent, until the feed is closed or the reader is no more admitted; `shown` gives an
    item, None: it was not asked for."""
    clock = context_of(request).clock
    began = checked = clock.monotonic()
    yield _mark(follower)  # so that the head is sent, and where a cut stream goes on
    while not closed.is_set() and clock.monotonic() < began + LONGEST_SECONDS:
        await clock.wait(follower.told, KEEP_ALIVE_SECONDS)
        items: Sequence[T] = ()
        try:
            items = await follower.take()
        except (EventsGone, TransitionsGone):
            return  # the next request is told so
        except StoreError:
            await clock.sleep(_AGAIN_SECONDS)
            follower.told.set()
        for item in items:
            part = shown(item)
            if part is not None:
                yield part
        if clock.monotonic() >= checked + KEEP_ALIVE_SECONDS:
            checked = clock.monotonic()
            if not await is_still_admitted(request):
                return
            yield _mark(follower)


def _mark(follower: FeedFollower[T]) -> bytes:
    """A comment that keeps the connection open, and says how far the stream has come: who reads
    nothing for weeks need not be told that what it missed is past retention."""
    return f":\nid: {follower.position}\n\n".encode()
