"""A gateway's conversation with sessions in memory, for tests that turn it by hand."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from gnomon.chores import Troubles
from gnomon.clock import SystemClock
from gnomon.model.fleet.pool import Pool
from gnomon.model.tasks.task import TaskKey
from gnomon.node.membership.lease import Lease
from gnomon.node.remote.conversation import Conversation, PendingPoll
from gnomon.node.remote.delivery_gate import DeliveryGate
from gnomon.node.run.starter import Starter
from gnomon.node.start_checks import StartChecks
from gnomon.observe.events import nobody
from gnomon.pipe.envelope import Delivery, FencedKey, Report
from gnomon.pipe.http.http_pipe import HttpPipe
from gnomon.pipe.http.messages import Poll, PollAnswer, TaskClaim, WorkerReport
from gnomon.pipe.http.session import WorkerSession
from gnomon.testing.contracts.pipe import a_delivery

EPOCH = "e"
TENANT = "tenant"


class HandClock(SystemClock):
    """Stands before the moment by which deliveries must start; `monotonic` is turned by hand."""

    def __init__(self) -> None:
        self.at = 0.0
        super().__init__(lambda: self.at)

    def seconds(self) -> float:
        return 0.0


class Talk:
    """A gateway with two sessions of one tenant."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.begun: list[TaskKey] = []  # that the store was asked for
        self.pipe = HttpPipe(self.clock.monotonic, lambda: None, self._tell)
        lease = Lease(UUID(int=1), 3600.0)
        lease.renewed(self.clock.monotonic())
        gate = DeliveryGate(StartChecks(), lambda _: None, lease, self.clock)
        self.starter = Starter(self._begin, Troubles(self.clock, nobody))
        self.conversation = Conversation(
            self.pipe, self.starter, gate, lambda _: None, self.clock, 1 << 20
        )
        self.first, self.second = self.session(2), self.session(3)

    def session(self, number: int) -> WorkerSession:
        pool = Pool(tenants=frozenset({TENANT}), webhooks=False, handlers=frozenset({"t"}))
        session = WorkerSession(UUID(int=number), f"w{number}", pool, 10, b"", EPOCH)
        session.trusted_until = float("inf")
        self.pipe.add(session)
        return session

    def claimed(self, number: int, session: WorkerSession | None = None, **more: Any) -> Delivery:
        """A task that was claimed for a session, and waits to be delivered."""
        incarnation = (session or self.first).incarnation
        delivery = msgspec.structs.replace(a_delivery(number), incarnation=incarnation, **more)
        self.pipe.send([delivery])
        return delivery

    def poll(
        self,
        sequence: int,
        session: WorkerSession | None = None,
        *,
        held: Sequence[Delivery] = (),
        reports: Sequence[Delivery] = (),
        begin: Sequence[Delivery] = (),
        epoch: str = EPOCH,
        slots: int = 10,
    ) -> PollAnswer:
        heard = self.conversation.hear(
            session or self.first,
            Poll(
                sequence=sequence,
                slots=slots,
                wait_seconds=0.0,
                epoch=epoch,
                held=tuple(map(_claim, held)),
                reports=tuple(
                    WorkerReport(task_id=d.key.id, fence=d.fence, outcome="succeeded")
                    for d in reports
                ),
                begin=tuple(map(_claim, begin)),
            ),
        )
        assert not isinstance(heard, PendingPoll), "it does not wait"
        return heard

    async def reported(self) -> list[Report]:
        """The reports that have come, to be written."""
        return await self.pipe.reports(100) if self.pipe.is_busy else []

    def written(self, reports: Sequence[Report], *, accepted: bool = True) -> None:
        self.pipe.settled(reports)
        self.pipe.acknowledge(reports, accepted=accepted)

    async def _begin(self, deliveries: Sequence[Delivery]) -> set[FencedKey]:
        self.begun += [delivery.key for delivery in deliveries]
        return {(delivery.key, delivery.fence) for delivery in deliveries}

    def _tell(self, session: WorkerSession) -> None:
        self.conversation.tell(session)


def _claim(delivery: Delivery) -> TaskClaim:
    return TaskClaim(delivery.key.id, delivery.fence)
