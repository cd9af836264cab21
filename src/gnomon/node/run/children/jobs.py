"""What a child process is given, one call at a time, and how each call can end."""

import asyncio

import msgspec

from gnomon.model.outcomes.quarantine import group_size
from gnomon.node.run.children.frames import Cancelled, Ended, Left
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext


class Died(msgspec.Struct, frozen=True):
    """The process ended before the call did."""

    how: str
    others: int  # calls that it was making at the end
    alone: bool  # it had never made another call
    by_node: bool  # the node has ended it, or was not heard of: nobody in it is to blame
    blocked: bool


class Unstarted(msgspec.Struct, frozen=True):
    """The call was not made, and will not be."""


End = Ended | Cancelled | Left | Died | Unstarted


class Newcomer:
    """A task that needs a process."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.tenant_id = delivery.key.tenant_id
        self.group_size = group_size(delivery.losses, delivery.mode)


class Job(Newcomer):
    """One call."""

    def __init__(
        self, number: int, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> None:
        super().__init__(delivery)
        loop = asyncio.get_running_loop()
        self.number = number
        self.payload = payload
        self.run = run
        self.started = False
        self.told_at: float | None = None  # to stop
        self.over: asyncio.Future[End] = loop.create_future()
        self.returned: asyncio.Future[None] = loop.create_future()  # of one that was left running

    def end(self, end: End) -> None:
        if not self.over.done():
            self.over.set_result(end)
