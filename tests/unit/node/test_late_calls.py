"""Calls that wait for something after the slot has looked at the lease: where it is over by then,
nothing is called and nothing sent."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest
from tests.collector import Collector, collecting
from tests.grpc_servers import grpc_server, in_base64, shop_set
from tests.unit.node.test_traced_caller import SAMPLED, Plain, delivery
from tests.unit.node.webhook.misbehaving import receiving
from tests.unit.node.worker_world import LateConnection, World, executed
from tests.unit.notify.test_channel_secrets import TEST

from gnomon import Depends
from gnomon.clock import SystemClock
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.targets.target import HttpTarget, NotificationTarget, Target
from gnomon.model.tasks.task import TaskKey
from gnomon.node.run.resolver import Found, Resolver
from gnomon.node.run.targets.grpc.caller import GrpcCaller
from gnomon.node.run.targets.http import HttpCaller
from gnomon.node.run.targets.mail import Mailer
from gnomon.node.run.targets.notification import NotificationCaller
from gnomon.node.run.targets.queue import Broker, Message
from gnomon.node.run.targets.queue.caller import QueueCaller
from gnomon.node.run.targets.queue.publisher import QueuePublisher
from gnomon.node.run.targets.traced import TracedCaller
from gnomon.notify.notification import NOTIFIER_TENANT
from gnomon.notify.subscription import Subscription, SubscriptionRules, WebhookChannel
from gnomon.observe.tracing import Tracing
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.settings import NotifySettings
from gnomon.settings.targets import TargetSettings
from gnomon.settings.tracing import TracingSettings
from gnomon.testing.contracts.pipe import a_delivery


class Trust:
    """In a lease, until it is over."""

    def __init__(self) -> None:
        self.held = True

    def holds(self) -> bool:
        return self.held


@pytest.fixture
def trust() -> Trust:
    return Trust()


def looking_up(trust: Trust) -> Resolver:
    """Names lead here, and a look-up takes longer than the lease."""

    def look_up(_: str) -> list[Found]:
        trust.held = False
        return [Found(socket.AF_INET, 0, "127.0.0.1")]

    return Resolver(SystemClock(), look_up)


def of(target: Target) -> tuple[Delivery, TaskContext]:
    made = msgspec.structs.replace(a_delivery(1), target=target)
    run, clock = TaskContext(made), SystemClock()
    run.begin(clock.seconds() + 60.0, clock.seconds)
    return made, run


# Handlers


async def test_a_handler_whose_dependency_waited() -> None:
    late = LateConnection()

    async def connection() -> AsyncIterator[str]:
        with late.made(world) as made:
            yield made

    async def book(payload: Any, uses: Annotated[str, Depends(connection)]) -> None:
        world.begun.append(uses)

    world = World(None, book)
    assert (await executed(world, "book")).outcome is None
    assert world.begun == []
    assert late.ended == ["NotBegun"]


async def test_a_handler_whose_middleware_waited() -> None:
    world = World()

    async def throttled(_: TaskContext, call_next: Callable[[], Any]) -> Any:
        world.may_begin = False
        return await call_next()

    world.app.middleware(throttled)
    assert (await executed(world, "work")).outcome is None
    assert world.begun == []


@pytest.mark.parametrize("function", ["work", "with_more"])
async def test_a_handler_that_was_called_before_is_not_unstarted(function: str) -> None:
    """A middleware calls it again: an execution that has begun goes on, whatever the lease."""

    async def with_more(payload: Any, _: Annotated[int, Depends(int)]) -> None:
        world.begun.append("with_more")

    world = World(None, with_more)

    async def twice(_: TaskContext, call_next: Callable[[], Any]) -> Any:
        await call_next()
        world.may_begin = False
        return await call_next()

    world.app.middleware(twice)
    outcome = (await executed(world, function)).outcome
    assert outcome is not None
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert world.begun == [function] * 2


# Other targets


async def test_a_webhook_whose_connection_took_too_long(trust: Trust) -> None:
    received: list[bytes] = []
    over = asyncio.Event()

    async def serve(_: int, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        try:
            received.append(await reader.read())
        finally:
            over.set()

    names = looking_up(trust)
    async with (
        receiving(serve) as receiver,
        HttpCaller(SystemClock(), None, 10, names=names, may_begin=trust.holds) as caller,
    ):
        made, run = of(HttpTarget(f"http://late.example:{receiver.port}/"))
        assert await caller.call(made, b"{}", run) is None
        async with asyncio.timeout(30):
            await over.wait()
    assert b"".join(received) == b""


async def test_a_grpc_call_whose_address_took_too_long(trust: Trust) -> None:
    names = looking_up(trust)
    caller = GrpcCaller(SystemClock(), names, lambda _: None, TargetSettings(), trust.holds)
    async with grpc_server(reflection=None) as server:
        url = server.url().replace("127.0.0.1", "late.example")
        made, run = of(GrpcTarget(url, descriptor_set=in_base64(shop_set())))
        assert await caller.call(made, b"{}", run) is None
        assert server.calls == []
        trust.held = True  # and the name is known
        outcome = await caller.call(made, b"{}", run)
        assert outcome is not None
        assert outcome.kind is OutcomeKind.SUCCEEDED
        await caller.close()


class SlowBroker:
    """A broker that takes longer to connect to than the lease."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self.published: list[Message] = []

    async def connect(self) -> None:
        self._trust.held = False

    async def publish(self, topic: str, message: Message) -> str:
        self.published.append(message)
        return "1"

    async def close(self) -> None:
        """Nothing is open."""


class SlowPublisher(QueuePublisher):
    def __init__(self, broker: Broker) -> None:
        super().__init__({})
        self._slow = broker

    @asynccontextmanager
    async def broker_of(self, target: QueueTarget, tenant_id: str) -> AsyncIterator[Broker]:
        yield self._slow


async def test_a_message_whose_broker_took_too_long(trust: Trust) -> None:
    broker = SlowBroker(trust)
    caller = QueueCaller(SystemClock(), None, SlowPublisher(broker), 10, trust.holds)
    made, run = of(QueueTarget("queue://events/orders"))
    assert await caller.call(made, b"{}", run) is None
    assert broker.published == []


class SlowNames(Plain):
    """A caller whose names take longer to look up than the lease."""

    def __init__(self, trust: Trust) -> None:
        super().__init__()
        self._trust = trust

    def ready(self, _: Delivery) -> Awaitable[object] | None:
        return self._look_up()

    async def _look_up(self) -> None:
        self._trust.held = False


class SlowChannels:
    """A store that takes longer to read a subscription than the lease."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust

    async def subscription(self, subscription_id: UUID) -> Subscription:
        self._trust.held = False
        return Subscription(
            id=subscription_id,
            tenant_id="acme",
            name="late",
            channel=WebhookChannel("http://late.example/"),
            rules=SubscriptionRules(),
            created_at=datetime.now(UTC),
        )


@pytest.mark.parametrize("subscription_id", [None, UUID(int=1)], ids=["name", "subscription"])
async def test_a_notification_that_waited(trust: Trust, subscription_id: UUID | None) -> None:
    http = SlowNames(trust)
    channels: Any = SlowChannels(trust)
    mailer = Mailer(NotifySettings(), SystemClock())
    caller = NotificationCaller(channels, http, mailer, "http://late.example/", trust.holds)
    made, run = of(NotificationTarget("acme", "late.example", subscription_id))
    made = msgspec.structs.replace(made, key=TaskKey(NOTIFIER_TENANT, made.key.id))
    assert await caller.call(made, msgspec.json.encode(TEST), run) is None
    assert http.called == []


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


async def test_a_traced_call_that_waited_for_its_link(trust: Trust, collector: Collector) -> None:
    async def start_of(_: TaskKey, __: int) -> datetime | None:
        trust.held = False
        return datetime.now(UTC)

    settings = TracingSettings(exporter="otlp", endpoint=collector.url)
    tracing, plain = Tracing(settings, lambda _result, _number: None), Plain()
    caller = TracedCaller(plain, tracing, SystemClock(), start_of, trust.holds)
    late = delivery(SAMPLED, age=3600.0, attempt=2)
    assert await caller.call(late, None, TaskContext(late)) is None
    assert plain.called == []
    tracing.close()

    assert len(collector.spans) == 1
