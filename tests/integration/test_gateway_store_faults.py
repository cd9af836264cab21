"""Every statement about worker sessions fails: the gateway lives, and its sessions go on."""

from contextlib import suppress
from itertools import cycle

from tests.integration.api_calls import Api, submitted
from tests.integration.desk_sessions import Session, delivered, gateway_of, opened, settled
from tests.integration.faulty import CLASSES, Cranked, Faults, cranked, statements_of_sessions
from tests.integration.remote_workers import task_for
from tests.integration.support import Connection

from gnomon.model.errors import StoreError
from gnomon.pipe.http.messages import TaskClaim, WorkerProgress
from gnomon.wiring.gateway import GatewayAssembly

# Asked by requests that have nothing to do with a gateway.
OF_REQUESTS = {"list_worker_sessions", "drain_worker_session"}


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
    pipe = gateway_of(crank)._sessions
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
        desk = gateway_of(crank).desk
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
