"""The poll loop of a remote worker, with a gateway's conversation at its other end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import msgspec
from tests.unit.node.talking import EPOCH, TENANT, Talk
from tests.waiting import eventually

from gnomon.chores import Troubles
from gnomon.clock import SystemClock, chance
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.node.remote.conversation import PendingPoll
from gnomon.node.run.payloads import Payloads
from gnomon.node.run.runner import Runner
from gnomon.node.run.starter import Starter
from gnomon.node.run.targets import Callers
from gnomon.node.run.targets.python import PythonCaller
from gnomon.node.run.worker import Worker
from gnomon.observe.events import nobody
from gnomon.pipe.envelope import Delivery
from gnomon.pipe.http.messages import LONGEST_POLL, Poll, PollAnswer, SessionOpened
from gnomon.pipe.memory import MemoryPipe
from gnomon.remote.held import HeldDeliveries
from gnomon.remote.poller import Ends, HeldSession, Poller
from gnomon.remote.progress import ProgressNotes
from gnomon.sdk.app import Gnomon

SESSION = SessionOpened(
    session_id=UUID(int=2), secret="s", tenant_id=TENANT, lease_seconds=30, beat_seconds=6,
    poll_seconds=LONGEST_POLL, epoch=EPOCH,
)  # fmt: skip
SETTLING = 100


class Far:
    """A worker that takes nothing ahead, and the gateway that it polls."""

    def __init__(self, slots: int) -> None:
        self.talk = Talk()
        self.polls: list[Poll] = []
        self.begun: list[int] = []  # fences
        self.gate = asyncio.Event()
        clock = SystemClock()
        lease = Lease(SESSION.session_id, 3600.0)
        lease.renewed(clock.monotonic())
        pipe = MemoryPipe(slots, lambda: None, settling=SETTLING)
        self.held = HeldDeliveries(HeldTasks(SuspectRoom(1, slots)))
        self.poller = Poller(
            HeldSession(self, SESSION, lease), pipe, self.held, clock, chance, Ends(_end, _end)
        )
        app = Gnomon()
        app.task(self.work)
        app.task(self.wait)
        self._python = one = PythonCaller(app, slots, lambda: True)
        troubles = Troubles(clock, nobody)
        payloads = Payloads(_none_apart, 10, troubles)
        runner = Runner(Callers(one, one, one, one, one, one), payloads, clock, 1.0, nobody)
        starter = Starter(self.poller.grants.begin, troubles)
        self.worker = Worker(pipe, runner, starter, lease, clock, slots)
        self.poller.use(self.worker, ProgressNotes(runner), nobody)

    async def work(self, payload: Any) -> None:
        """At once."""

    async def wait(self, payload: Any) -> None:
        self.begun.append(payload)
        await self.gate.wait()

    async def poll(self, session: SessionOpened, poll: Poll) -> PollAnswer:
        """A gateway's answer, over a wire."""
        assert session is SESSION
        self.polls.append(poll)
        sent = msgspec.json.decode(msgspec.json.encode(poll), type=Poll)
        heard = self.talk.conversation.hear(self.talk.first, sent)
        answer = await heard.wait() if isinstance(heard, PendingPoll) else heard
        return msgspec.json.decode(msgspec.json.encode(answer), type=PollAnswer)

    def claimed(self, function: str, number: int, fence: int = 1) -> Delivery:
        return self.talk.claimed(
            number, target=PythonTarget(function), payload=str(fence).encode(), fence=fence
        )

    def reported(self) -> set[tuple[UUID, int]]:
        """What the gateway has heard of, and not written."""
        return {(key.id, fence) for key, fence in self.talk.first.reporting}

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        running = [asyncio.create_task(each.run()) for each in (self.worker, self.poller)]
        try:
            yield
            assert not any(each.done() for each in running)
        finally:
            for each in running:
                each.cancel()
            await asyncio.wait(running)
            self._python.__exit__()


def _end() -> None:
    raise AssertionError("the session goes on")


async def _none_apart(key: TaskKey) -> bytes | None:
    raise AssertionError(f"task {key.id} has its payload with it")


async def until(is_so: Callable[[], bool], timeout: float = 10.0) -> None:
    async def look() -> bool:
        return is_so()

    await eventually(look, timeout)


async def test_one_slot_takes_task_after_task_although_no_receipt_has_come() -> None:
    far = Far(slots=1)
    number = 20
    for each in range(number):
        far.claimed("work", each)
    async with far.at_work():
        await until(lambda: len(far.reported()) == number)
    assert far.talk.pipe.delivered == number, "each is delivered once, and held"
    assert len(far.held) == number


async def test_a_report_that_is_not_written_keeps_nothing_else_from_being_said() -> None:
    far = Far(slots=2)
    stuck, other = far.claimed("work", 1), far.claimed("wait", 2)
    async with far.at_work():
        await until(lambda: far.reported() == {(stuck.key.id, 1)} and far.begun == [1])
        polls = len(far.polls)
        far.gate.set()
        await until(lambda: far.reported() == {(stuck.key.id, 1), (other.key.id, 1)}, 5.0)
        assert len(far.polls) - polls <= 3
        sent = far.polls[-1]
        assert sent.wait_seconds < LONGEST_POLL
        far.talk.written(await far.talk.reported())
        await until(lambda: far.polls[-1].wait_seconds == LONGEST_POLL)


async def test_what_is_lost_by_an_older_claim_goes_on_by_a_newer_one() -> None:
    far = Far(slots=2)
    far.claimed("wait", 1, fence=1)
    async with far.at_work():
        await until(lambda: far.begun == [1])
        newer = far.claimed("wait", 1, fence=2)
        await until(lambda: far.begun == [1, 2])
        await until(lambda: far.talk.first.orders_said_at == 0.0)
        polls = len(far.polls)
        await until(lambda: len(far.polls) > polls)
        far.gate.set()
        await until(lambda: (newer.key.id, 2) in far.reported())
        reports = {r.delivery.fence: r for r in await far.talk.reported()}
    outcome = reports[2].outcome
    assert outcome is not None
    assert outcome.error is None
