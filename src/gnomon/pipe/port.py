"""Pipe port: the way between a dispatcher and its workers, the only thing that differs between a
laptop and a fleet.

Four things go through a pipe, and each is a concept of its own. *Credit*: how much the workers can
take (`room` and its kin); it keeps the dispatcher from claiming more, so that the backlog waits in
PostgreSQL, where it can still be reordered. *Deliveries*: claimed tasks, one way. *Grants*: the
store's consent to begin, for deliveries that ask for it (`Grants`). *Reports*: what became of
deliveries, the other way; one is acknowledged once it is written.

A delivery is a hint that carries all that an execution needs; the row stays the truth. A pipe may
lose or repeat deliveries and reports: the holder of a claim releases what it does not know, and
the fence refuses what comes twice.

`Pipe` is the dispatcher's end. The other end differs: slots in the same process receive and report
(`SlotPipe`); workers elsewhere speak the protocol of their pipe.
"""

from collections.abc import Sequence
from typing import Protocol

from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery, Report


class Pipe(Protocol):
    """The dispatcher's end: deliveries go out, reports come in."""

    # Credit

    def room(self) -> int:
        """How many more deliveries of any priority the workers can take now."""

    def urgent_room(self) -> int:
        """The room for CRITICAL deliveries: at least `room`, and more where slots are kept for
        them."""

    def free(self) -> int:
        """How many they could begin at once: the room, less what is claimed ahead."""

    def stranded(self, now: float) -> int:
        """How many CRITICAL deliveries could start now, but for want of a slot."""

    def pace(self) -> None:
        """Called at a steady rhythm: decide how far to claim ahead until the next call."""

    # Deliveries

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Hand claimed tasks to the workers."""

    def unsent(self) -> list[Delivery]:
        """Take back all that no worker has received."""

    def late(self, now: float) -> list[Delivery]:
        """Take back what no worker has received by its `start_by`. Like what is `unsent`, it must
        be reported."""

    # Reports

    def report(self, report: Report) -> None:
        """Say what became of a delivery. Its slot is free: it, or one that replaces it, comes
        back for another."""

    async def reports(self, most: int, least: int = 1) -> list[Report]:
        """Reports since the last call: at least so many, oldest first."""

    def settled(self, reports: Sequence[Report]) -> None:
        """The tasks of these reports are settled, or kept to be settled later: there is room for as
        many more."""

    def acknowledge(self, reports: Sequence[Report], *, accepted: bool) -> None:
        """These reports are written; or they were refused, as their claims were stale. Whoever sent
        them need not send them again."""


class SlotPipe(Pipe, Protocol):
    """A pipe whose workers are slots in the same event loop."""

    async def receive(self) -> Delivery:
        """A slot's next task: a CRITICAL one, where there is any. The slots that are kept for
        those get nothing else. Whoever has waited here has others woken for what else waits."""

    def take(self) -> Delivery | None:
        """The same where one waits for a slot already; nobody else is woken."""

    # Deliveries that were claimed ahead of their time: they take up room, and no slot

    def early_room(self) -> int:
        """How many may be claimed early: the room, less some for what becomes due meanwhile."""

    def surplus_room(self) -> int:
        """How many may be claimed early beyond that: such a surplus takes up no room, and is
        bounded in number and bytes. None of it is CRITICAL."""

    def hold(self, deliveries: Sequence[Delivery], *, surplus: bool = False) -> None:
        """Keep these until they are started, or taken back. `surplus`: they take up no room, though
        there is some."""

    def next_start(self) -> float | None:
        """When the first of what is held may start."""

    def startable(self, now: float) -> list[Delivery]:
        """What is held and may start by then, in order."""

    def start(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Hand these to the slots; gives those that were still held. A surplus is not among them:
        it is offered to slots that nothing else waits for."""

    def offered(self) -> int:
        """How many are offered, with those that slots have taken and `begun` has not told of."""

    def waiting(self) -> int:
        """How many wait for a slot, with what is offered."""

    def begun(self) -> list[Delivery]:
        """Offered ones that slots have taken since the last call. While some are offered, no report
        is read."""

    def unstarted(self) -> list[Delivery]:
        """Take back all that is offered and was not taken. It must be reported."""

    def take_back(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Hold or offer these no longer; gives those that were, which must be reported."""

    def held(self, key: TaskKey, fence: int | None = None) -> list[Delivery]:
        """What is held or offered of one task."""


class Grants(Protocol):
    """Asks for the store's consent to begin."""

    async def may_begin(self, delivery: Delivery) -> bool:
        """Whether the call may be made now. Where the store cannot be asked it may not."""
