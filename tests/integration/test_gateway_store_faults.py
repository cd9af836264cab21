"""Every statement about worker sessions fails: the gateway lives, and its sessions go on."""

from contextlib import suppress
from itertools import cycle
from typing import Any, cast

from tests.integration.api_calls import Api, submitted
from tests.integration.faulty import CLASSES, Cranked, Faults, cranked, statements_of_sessions
from tests.integration.remote_workers import task_for
from tests.integration.support import Connection

from gnomon.model.errors import StoreError
from gnomon.node.remote.conversation import PendingPoll
from gnomon.node.remote.desk import SessionCaller, SessionDesk
from gnomon.pipe.http.messages import (
    Poll,
    PollAnswer,
    SessionOpened,
    SessionOpening,
    TaskClaim,
    WorkerProgress,
    WorkerReport,
)
from gnomon.wiring.gateway import GatewayAssembly

# Asked by requests that have nothing to do with a gateway.
OF_REQUESTS = {"list_worker_sessions", "drain_worker_session"}
OPENING = SessionOpening(name="w", handlers=("mail",), slots=4)


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
        fields = {"epoch": self.epoch} | more
        poll = Poll(sequence=self.sequence, slots=slots, wait_seconds=0.0, **fields)
        heard = await self.desk.poll(self.id, self.caller, poll)
        answer = await heard.wait() if isinstance(heard, PendingPoll) else heard
        self.epoch = answer.epoch
        return answer


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


async def everything(crank: Cranked, session: Session, claim: TaskClaim) -> None:
    """All that a gateway asks of the store for its sessions; what fails of it, fails."""
    desk = session.desk
    with suppress(StoreError):
        other = await opened(desk)
        await crank.turn()
        await desk.leave(other.id, other.caller)
    with suppress(StoreError):
        await desk.beat(session.id, session.caller)
    note = WorkerProgress(task_id=claim.task_id, fence=claim.fence, fraction=0.5)
    await session.poll(2, held=(claim,), progress=(note,))
    pipe = cast("GatewayAssembly", crank.assembly)._sessions
    for each in pipe.sessions.values():
        each.trusted_until = crank.clock.monotonic() + 1.0  # about to run out, as far as it knows
    await crank.turn(2)
    with suppress(StoreError):  # as one that was adopted elsewhere, and comes back
        session.epoch = "another"
        await session.poll(held=(claim,))
    await crank.turn(2)


async def test_every_statement_of_sessions_may_fail(
    database_dsn: str, api: Api, connection: Connection
) -> None:
    faults = Faults()
    asked = statements_of_sessions() - OF_REQUESTS
    classes = cycle(CLASSES.values())
    async with cranked(database_dsn, faults, GatewayAssembly) as crank:
        desk = cast("GatewayAssembly", crank.assembly).desk
        session = await opened(desk)
        for name in sorted(asked):
            await submitted(api, task_for())
            claim = await delivered(crank, session)
            await submitted(api, task_for())  # to be claimed
            faults.fail(name, next(classes))
            await everything(crank, session, claim)
            if name == "claim_for_sessions":
                for _ in range(50):
                    await session.poll(2, held=(claim,))
                    await crank.turn()
                    if faults.raised[name]:
                        break
            assert faults.raised[name], f"{name} was never asked"
            faults.lift()
            crank.wait(120.0)  # whatever rests after a failure, rests no more
            await desk.beat(session.id, session.caller)
            await session.poll(held=(claim,))
            await settled(crank, session, claim)
            await settled(crank, session, await delivered(crank, session))
        await desk.leave(session.id, session.caller)
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 0
