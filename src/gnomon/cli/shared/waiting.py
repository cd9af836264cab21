"""Waits for the end of something that goes on by itself, whatever becomes of the waiting."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from gnomon.cli.shared import output
from gnomon.client.errors import ApiUnreachable, RateLimited, Unavailable

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json

INTERRUPTED = 130  # as shells tell of SIGINT
ABSENT = (ApiUnreachable, Unavailable, RateLimited)  # the API, for a while
_LOOK_SECONDS = 1.0  # the longest that a change goes untold


async def states(
    read: Callable[[float | None], Awaitable["Json"]], is_over: Callable[["Json"], bool]
) -> AsyncIterator["Json"]:
    """What `read` gives once a second, and at its end at once: it is told how many seconds to wait
    for that. It goes on when the API does not answer for a while."""
    from gnomon.clock import SystemClock

    clock = SystemClock()
    found = await read(None)
    yield found
    lost = False
    while not is_over(found):
        try:
            found = await read(_LOOK_SECONDS)
        except ABSENT as error:
            if not lost:
                output.live(f"{error}; trying again", new=True)
            lost = True
            await clock.sleep(_LOOK_SECONDS)
            continue
        lost = False
        yield found


@contextmanager
def goes_on(what: str, again: str, stop: str) -> Iterator[None]:
    """At Ctrl-C, says that only the waiting has ended, and which command waits again and which
    stops it. (asyncio cancels what runs.)"""
    import asyncio

    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError):
        output.live_end()
        output.note(
            f"stopped waiting; the {what} goes on: gnomon {again}\n"
            f"  to stop it as well: gnomon {stop}"
        )
        raise typer.Exit(INTERRUPTED) from None
