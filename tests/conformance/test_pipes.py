"""Every pipe against the contracts of pipes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from uuid import UUID

import httpx
import msgspec
import pytest
from litestar.types import Receive, Scope, Send
from tests.brokers import ValkeyServer

from gnomon.api.workers.pipe_listener import PipeBounds, PipeListener
from gnomon.chores import Troubles
from gnomon.clock import SystemClock, new_secret
from gnomon.model.fleet.pool import Pool, Work
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
from gnomon.pipe.memory import MemoryPipe
from gnomon.pipe.port import SlotPipe
from gnomon.remote.pipe_transport import PipeTransport
from gnomon.settings import PipeSettings
from gnomon.testing.contracts.pipe import PipeContract, PipeWorld, SlotPipeContract

FOREVER = float("inf")
EPOCH = "e"


class SlotWorld:
    """A pipe with slots at its other end."""

    def __init__(self, pipe: SlotPipe) -> None:
        self.pipe = pipe

    async def send(self, deliveries: Sequence[Delivery]) -> None:
        self.pipe.send(deliveries)

    async def receive(self) -> Delivery:
        return await self.pipe.receive()

    async def report(self, report: Report) -> None:
        self.pipe.report(report)


class MemoryWorld(SlotWorld):
    """Its slots are told nothing: what they have reported is off their hands."""

    def __init__(self, capacity: int, on_room: Callable[[], None]) -> None:
        super().__init__(_Acknowledging(capacity, on_room))

    async def receipts(self) -> list[bool]:
        assert isinstance(self.pipe, _Acknowledging)
        told, self.pipe.told = self.pipe.told, []
        return told


class _Acknowledging(MemoryPipe):
    """Remembers what it was told to acknowledge."""

    def __init__(self, capacity: int, on_room: Callable[[], None]) -> None:
        super().__init__(capacity, on_room)
        self.told: list[bool] = []

    def acknowledge(self, reports: Sequence[Report], *, accepted: bool) -> None:
        self.told += [accepted] * len(reports)


class SessionWorld:
    """A worker session of one worker, which speaks the worker protocol, though not over HTTP."""

    def __init__(self, capacity: int, on_room: Callable[[], None]) -> None:
        self._clock = SystemClock()
        self.pipe = HttpPipe(self._clock.monotonic, on_room, self._tell)
        troubles = Troubles(self._clock, nobody)
        lease = Lease(UUID(int=1), 3600.0)
        lease.renewed(self._clock.monotonic())
        gate = DeliveryGate(StartChecks(), lambda _: None, lease, _Early(self._clock.monotonic))
        self._conversation = Conversation(
            self.pipe, Starter(_nobody, troubles), gate, lambda _: None, _Early(), 1 << 20
        )
        pool = Pool(tenants=frozenset({"tenant"}), webhooks=False, handlers=frozenset({"t"}))
        self._session = WorkerSession(UUID(int=2), "w", pool, capacity, b"", EPOCH)
        self._session.trusted_until = FOREVER
        self.pipe.add(self._session)
        self._capacity = capacity
        self._sequence = 0
        self._held: dict[TaskKey, int] = {}
        self._unread: list[TaskKey] = []
        self._reports: dict[TaskKey, WorkerReport] = {}
        self._receipts: list[bool] = []
        self._sent: dict[TaskKey, Delivery] = {}
        self.pipe.offer(self._session, capacity)

    def _tell(self, session: WorkerSession) -> None:
        self._conversation.tell(session)

    async def send(self, deliveries: Sequence[Delivery]) -> None:
        claimed = []
        for delivery in deliveries:
            work = Work("tenant", delivery.lane, delivery.task_type, None, by_handler=True)
            assert self.pipe.take(delivery.key, work)
            taker = self.pipe.taken_for(delivery.key)
            assert taker is not None
            claimed.append(msgspec.structs.replace(delivery, incarnation=taker))
        self._sent |= {delivery.key: delivery for delivery in claimed}
        self.pipe.send(claimed)

    async def receive(self) -> Delivery:
        while not self._unread:
            await self._poll(20.0)
        return self._sent[self._unread.pop(0)]

    async def report(self, report: Report) -> None:
        delivery = report.delivery
        self._reports[delivery.key] = WorkerReport(
            task_id=delivery.key.id, fence=delivery.fence, outcome="succeeded"
        )
        await self._poll(0.0)

    async def receipts(self) -> list[bool]:
        await self._poll(0.0)
        told, self._receipts = self._receipts, []
        return told

    async def ask(self, poll: Poll) -> PollAnswer:
        return await self.answer(poll)

    async def answer(self, poll: Poll) -> PollAnswer:
        heard = self._conversation.hear(self._session, poll)
        return await heard.wait() if isinstance(heard, PendingPoll) else heard

    async def _poll(self, seconds: float) -> None:
        self._sequence += 1
        busy = len(self._held) - len(self._reports)
        answer = await self.ask(
            Poll(
                sequence=self._sequence,
                slots=self._capacity - busy,
                wait_seconds=seconds,
                epoch=EPOCH,
                held=tuple(TaskClaim(key.id, fence) for key, fence in self._held.items()),
                reports=tuple(self._reports.values()),
            )
        )
        for each in answer.deliveries:
            key = TaskKey("tenant", each.task_id)
            self._held[key] = each.fence
            self._unread.append(key)
        for receipt in answer.acknowledged:
            key = TaskKey("tenant", receipt.task_id)
            del self._held[key], self._reports[key]
            self._receipts.append(receipt.accepted)


class BrokerWorld(SessionWorld):
    """The same, and each poll goes through a real server."""

    def __init__(self, capacity: int, on_room: Callable[[], None], http: httpx.AsyncClient) -> None:
        super().__init__(capacity, on_room)
        self._http = http

    async def ask(self, poll: Poll) -> PollAnswer:
        content = msgspec.json.encode(poll)
        reply = await self._http.post("/api/v1/worker-sessions/s/poll", content=content)
        assert reply.status_code == 200, reply.text
        return msgspec.json.decode(reply.content, type=PollAnswer)


class _Early(SystemClock):
    """Stands before the moment by which the deliveries of the suite must have started."""

    def seconds(self) -> float:
        return 0.0


async def _nobody(deliveries: Sequence[Delivery]) -> set[FencedKey]:
    raise AssertionError(f"nothing of the suite asks before it starts: {deliveries}")


class TestMemoryPipe(PipeContract):
    def make_world(self, capacity: int, on_room: Callable[[], None]) -> PipeWorld:
        return MemoryWorld(capacity, on_room)


class TestSlotsOfMemoryPipe(SlotPipeContract):
    def make_pipe(self, capacity: int, on_room: Callable[[], None], reserved: int = 0) -> SlotPipe:
        return MemoryPipe(capacity, on_room, reserved=reserved)


class TestHttpPipe(PipeContract):
    def make_world(self, capacity: int, on_room: Callable[[], None]) -> PipeWorld:
        return SessionWorld(capacity, on_room)


class ThroughBroker(PipeContract):
    """On a real server, whose listener answers by the world of the test under way."""

    @pytest.fixture(autouse=True)
    async def _through_broker(self, broker_url: str) -> AsyncIterator[None]:
        clock = SystemClock()
        settings = PipeSettings(url=broker_url, namespace=f"test-{new_secret(8).hex()}")
        troubles = Troubles(clock, nobody)
        connected = asyncio.Event()
        bounds = PipeBounds(100, 1 << 20)
        listener = PipeListener(
            self._application, settings, clock, troubles, lambda _: connected.set(), bounds
        )
        transport = PipeTransport(settings, clock, b"")
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(listener.run())
            async with httpx.AsyncClient(
                transport=transport, base_url="http://pipe", timeout=30
            ) as self._http:
                await connected.wait()
                yield
            listening.cancel()
        assert not troubles.all()

    def make_world(self, capacity: int, on_room: Callable[[], None]) -> PipeWorld:
        self._world = BrokerWorld(capacity, on_room, self._http)
        return self._world

    async def _application(self, _scope: Scope, receive: Receive, send: Send) -> None:
        asked: Any = await receive()
        answer = await self._world.answer(msgspec.json.decode(asked["body"], type=Poll))
        start: Any = {"type": "http.response.start", "status": 200, "headers": []}
        await send(start)
        body: Any = {"type": "http.response.body", "body": msgspec.json.encode(answer)}
        await send(body)


class TestRedisPipe(ThroughBroker):
    @pytest.fixture
    def broker_url(self, valkey: ValkeyServer) -> str:
        return valkey.url
