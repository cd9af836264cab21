"""Worker sessions turned by hand, at the desk of a gateway that is cranked by hand."""

from typing import Any, cast

from tests.integration.faulty import Cranked

from gnomon.node.remote.conversation import PendingPoll
from gnomon.node.remote.desk import SessionCaller, SessionDesk
from gnomon.pipe.http.messages import (
    Poll,
    PollAnswer,
    SessionOpened,
    SessionOpening,
    TaskClaim,
    WorkerReport,
)
from gnomon.wiring.gateway import GatewayAssembly

OPENING = SessionOpening(name="w", handlers=("mail",), slots=4)


def gateway_of(crank: Cranked) -> GatewayAssembly:
    return cast("GatewayAssembly", crank.assembly)


class Session:
    """A worker, turned by hand, at the desk of a gateway."""

    def __init__(self, desk: SessionDesk, opened: SessionOpened) -> None:
        self.desk = desk
        self.id = opened.session_id
        self.caller = SessionCaller("default", None, opened.secret)
        self.epoch = opened.epoch
        self.sequence = 0

    async def poll(self, slots: int = 0, **more: Any) -> PollAnswer:
        self.sequence += 1
        answer = await self.say(self.desk, self.body(slots, **more))
        self.epoch = answer.epoch
        return answer

    def body(self, slots: int = 0, **more: Any) -> Poll:
        fields = {"epoch": self.epoch} | more
        return Poll(sequence=self.sequence, slots=slots, wait_seconds=0.0, **fields)

    async def say(self, desk: SessionDesk, poll: Poll) -> PollAnswer:
        """Send a poll; its answer is not taken in."""
        heard = await desk.poll(self.id, self.caller, poll)
        return await heard.wait() if isinstance(heard, PendingPoll) else heard


async def opened(desk: SessionDesk) -> Session:
    return Session(desk, await desk.open(OPENING, SessionCaller("default", None)))


async def delivered(crank: Cranked, session: Session) -> TaskClaim:
    for _ in range(200):
        await crank.turn()
        for each in (await session.poll(1)).deliveries:
            return TaskClaim(each.task_id, each.fence)
    raise AssertionError("nothing was delivered")


async def settled(crank: Cranked, session: Session, claim: TaskClaim) -> None:
    report = WorkerReport(task_id=claim.task_id, fence=claim.fence, outcome="succeeded")
    for _ in range(200):
        answer = await session.poll(held=(claim,), reports=(report,))
        if answer.acknowledged:
            assert answer.acknowledged[0].accepted
            return
        await crank.turn()
    raise AssertionError("it was not acknowledged")
