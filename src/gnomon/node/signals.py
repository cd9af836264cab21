"""Signals between the stages of a node."""

import asyncio


class Signals:
    """Events that wake the services of the stages."""

    def __init__(self) -> None:
        self.due = asyncio.Event()  # the agenda has something earlier than before
        self.ready = asyncio.Event()  # something is ready, or there is room again
        self.early = asyncio.Event()  # many will be due at one instant, soon
        self.low = asyncio.Event()  # little is known of a backlog that is being worked off
        self.look = asyncio.Event()  # look behind the cursors
        self.ended = asyncio.Event()  # a cron job's run has ended
        self.steps = asyncio.Event()  # a workflow has steps that no statement takes
        self.room = asyncio.Event()  # there is room again

    def made_room(self) -> None:
        self.ready.set()
        self.room.set()
