"""A worker session, as its gateway knows it: its credit, what waits for it, and what it has."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from uuid import UUID

import msgspec

from gnomon.model.fleet.pool import Pool
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.pipe.http.messages import PollAnswer, StopReason

TRUSTED = 0.8  # of a lease: until then a session is given tasks
Claimed = tuple[TaskKey, int]  # a task and the fence of its claim


class DeliveryQueue(OrderedDict[Claimed, Delivery]):
    """Deliveries in their order, of which each is found by its claim."""

    def append(self, delivery: Delivery) -> None:
        self[delivery.key, delivery.fence] = delivery

    def put_first(self, delivery: Delivery) -> None:
        claimed = delivery.key, delivery.fence
        self[claimed] = delivery
        self.move_to_end(claimed, last=False)

    def take_first(self) -> Delivery:
        return self.popitem(last=False)[1]

    @property
    def first(self) -> Delivery:
        return next(iter(self.values()))


class RemoteExecution(msgspec.Struct, eq=False, gc=False):
    """A task that was delivered to a session and is not reported."""

    delivery: Delivery
    started_at: float  # when it was delivered, in seconds since the epoch
    gives_way: bool  # to a CRITICAL one
    adopted: bool = False  # from another gateway, or large: its payload is not known here
    begun: bool = False  # by consent of the store
    stop: StopReason | None = None
    progress: tuple[float, str | None] | None = None

    @property
    def claimed(self) -> Claimed:
        return self.delivery.key, self.delivery.fence


class WorkerSession:
    """One session. `offered` is what its worker said that it can take, less what was delivered
    since; its credit is that, less what was chosen or waits for it already."""

    def __init__(
        self,
        incarnation: UUID,
        name: str,
        pool: Pool,
        slots: int,
        secret: bytes,
        epoch: str,
    ) -> None:
        self.incarnation = incarnation
        self.name = name
        self.pool = pool
        self.slots = slots
        self.secret = secret
        self.epoch = epoch
        self.closed = False
        self.draining = False  # its worker shall take nothing more, and leave
        self.drain_said_at = float("-inf")  # monotonic
        self.trusted_until = float("-inf")  # monotonic
        # Credit
        self.offered = 0
        self.offered_at = float("-inf")  # monotonic
        self.taken = 0  # chosen, and the claim is not answered
        self.lacking = 0  # claimed, and their payloads are being read
        self.counted = 0  # of its credit, in the room of the pipe
        # Suspects: one at a time, and nothing beside one that must be alone
        self.suspect: TaskKey | None = None
        self.alone = False
        self.clearing_until = float("-inf")  # monotonic: gets nothing, so that one can be alone
        # Deliveries
        self.urgent = DeliveryQueue()
        self.others = DeliveryQueue()
        self.held: dict[Claimed, RemoteExecution] = {}
        self.unconfirmed: set[Claimed] = set()  # of these, by the last answers
        # Reports
        self.reporting: set[Claimed] = set()  # received, and not written
        self.receipts: dict[Claimed, bool] = {}  # written or refused, to be said
        self.said: set[Claimed] = set()  # receipts that some answer had
        # Grants
        self.asking: set[Claimed] = set()
        self.grants: dict[Claimed, bool] = {}
        self.unsaid_grants = False
        # What is to end
        self.orders: dict[Claimed, StopReason] = {}
        self.unsaid_orders = False
        self.orders_said_at = float("-inf")  # monotonic
        # The conversation
        self.sequence = -1
        self.carried = False  # its polls come through a broker, which bounds their answers
        self.synced = False  # its worker has polled with the epoch of this gateway
        self.waiting: asyncio.Future[PollAnswer] | None = None
        self.answered: PollAnswer | None = None  # the last one, for a while
        self.answered_at = float("-inf")  # monotonic

    def renewed(self, asked_at: float, lease: float) -> None:
        """Its lease is good for so long from a moment after `asked_at` (monotonic)."""
        self.trusted_until = asked_at + lease * TRUSTED

    @property
    def tenant_id(self) -> str:
        return next(iter(self.pool.tenants))

    @property
    def credit(self) -> int:
        return self.offered - self.taken - self.queued

    @property
    def queued(self) -> int:
        return len(self.urgent) + len(self.others) + self.lacking

    @property
    def is_empty(self) -> bool:
        """Whether its worker has nothing to do, and nothing is on its way."""
        return not (self.held or self.reporting or self.taken or self.queued)

    def undelivered(self) -> Iterator[Delivery]:
        yield from self.urgent.values()
        yield from self.others.values()
