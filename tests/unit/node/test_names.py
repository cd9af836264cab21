"""Looking up names: one slow name, or a tenant with many of them, keeps nobody else waiting."""

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.unit.api.raw_server import PLAIN, answering
from tests.unit.node.worker_world import PATIENCE
from tests.waiting import eventually

from gnomon.chores import Troubles
from gnomon.clock import SystemClock
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.task import DeliveryMode
from gnomon.node.membership.lease import Lease
from gnomon.node.run.payloads import Payloads
from gnomon.node.run.resolver import Found, Resolver, system_look_up
from gnomon.node.run.runner import Runner
from gnomon.node.run.starter import Starter
from gnomon.node.run.targets import Callers
from gnomon.node.run.targets.http import HttpCaller
from gnomon.node.run.worker import Worker
from gnomon.observe.events import nobody
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.testing.contracts.pipe import a_delivery

LOOPBACK = [Found(socket.AF_INET, socket.IPPROTO_TCP, "127.0.0.1")]


class System:
    """Look-ups as the system makes them: in the thread that asks, slow ones for as long as they
    like."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answer = threading.Event()  # those of slow names
        self.time = 0.0
        self.fails = False

    def look_up(self, host: str) -> list[Found]:
        self.asked[host] += 1
        if host.startswith("slow"):
            self.answer.wait(60)
        if self.fails or host.startswith("unknown"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return LOOPBACK

    def names(self, **values: Any) -> Resolver:
        return Resolver(SystemClock(lambda: self.time), self.look_up, **values)

    async def has_asked(self, *hosts: str) -> None:
        async def look() -> bool:
            return all(self.asked[host] for host in hosts)

        await eventually(look)


@pytest.fixture
async def system() -> AsyncIterator[System]:
    made = System()
    yield made
    made.answer.set()


async def until_ready(names: Resolver, host: str, tenant: str = "a") -> None:
    waiting = names.ready(host, tenant)
    if waiting is not None:
        await waiting


async def asking(names: Resolver, host: str, tenant: str = "a") -> "asyncio.Task[None]":
    """Somebody who waits for a name."""

    async def wait(waiting: Awaitable[None]) -> None:
        await waiting

    waiting = names.ready(host, tenant)
    assert waiting is not None
    task = asyncio.create_task(wait(waiting))
    await asyncio.sleep(0)
    return task


async def addresses(names: Resolver, host: str) -> list[str]:
    return [found.address for found in await names.resolve(host)]


async def test_all_who_ask_share_one_look_up_and_its_answer_is_kept(system: System) -> None:
    names = system.names()
    waiting = [await asking(names, "slow.example") for _ in range(50)]
    resolving = [asyncio.create_task(addresses(names, "slow.example")) for _ in range(50)]
    waiting.pop().cancel()  # is no matter to the others
    await system.has_asked("slow.example")
    system.answer.set()
    await asyncio.gather(*waiting)
    assert await asyncio.gather(*resolving) == [["127.0.0.1"]] * 50
    assert names.ready("slow.example", "a") is None
    assert await addresses(names, "slow.example") == ["127.0.0.1"]
    assert system.asked["slow.example"] == 1


async def test_slow_names_keep_no_other_waiting(system: System) -> None:
    names = system.names()
    slow = [await asking(names, f"slow{number}.example") for number in range(40)]
    await until_ready(names, "quick.example")
    assert await addresses(names, "quick.example") == ["127.0.0.1"]
    assert not any(task.done() for task in slow)
    system.answer.set()
    await asyncio.gather(*slow)


async def test_a_tenant_does_not_get_all_threads(system: System) -> None:
    names = system.names(at_once=4)
    slow = [await asking(names, f"slow{number}.example", "greedy") for number in range(20)]
    await system.has_asked("slow0.example", "slow1.example", "slow2.example")
    await until_ready(names, "quick.example", "other")
    assert len(system.asked) == 4
    system.answer.set()
    await asyncio.gather(*slow)
    assert len(system.asked) == 21


async def test_a_look_up_that_takes_too_long_fails_and_leaves_its_turn(system: System) -> None:
    names = system.names(seconds=0.1, at_once=1)
    slow, next_one = await asking(names, "slow.example"), await asking(names, "quick.example")
    await slow
    with pytest.raises(OSError, match=r"look-up of the name took longer than 0\.1 s"):
        await names.resolve("slow.example")
    await next_one
    assert await addresses(names, "quick.example") == ["127.0.0.1"]
    # Nobody asks again while it is under way, and nobody waits for it.
    assert names.ready("slow.example", "a") is None
    assert system.asked["slow.example"] == 1
    system.answer.set()

    async def is_found() -> bool:
        try:
            return await addresses(names, "slow.example") == ["127.0.0.1"]
        except OSError:
            return False

    await eventually(is_found)
    assert system.asked["slow.example"] == 1


async def test_two_tenants_whose_look_ups_hang_stop_no_third(system: System) -> None:
    names = system.names(seconds=0.05)
    for tenant in ("a", "b"):
        slow = [await asking(names, f"slow{n}.{tenant}", tenant) for n in range(128)]
        await asyncio.gather(*slow)  # all of them are overdue
    async with asyncio.timeout(10):
        await until_ready(names, "quick.example", "c")
    assert await addresses(names, "quick.example") == ["127.0.0.1"]


async def test_a_name_that_nobody_waits_for_any_more_is_not_looked_up(system: System) -> None:
    names = system.names(at_once=1)
    slow, given_up = await asking(names, "slow.example"), await asking(names, "quick.example")
    await system.has_asked("slow.example")
    given_up.cancel()
    await asyncio.wait([given_up])
    system.answer.set()
    await slow
    await until_ready(names, "other.example")
    assert system.asked["quick.example"] == 0


async def test_a_name_without_an_address_says_so_and_is_asked_for_again_soon(
    system: System,
) -> None:
    names = system.names()
    await until_ready(names, "unknown.example")
    for _ in range(2):
        with pytest.raises(OSError, match="Name or service not known"):
            await names.resolve("unknown.example")
    assert system.asked["unknown.example"] == 1
    system.time += 3.0
    with pytest.raises(OSError, match="not known"):
        await names.resolve("unknown.example")
    assert system.asked["unknown.example"] == 2


async def test_an_answer_is_used_for_a_while_after_it_is_old_but_asked_for_again(
    system: System,
) -> None:
    names = system.names()
    await until_ready(names, "quick.example")
    system.time += 11.0
    assert names.ready("quick.example", "a") is None, "nobody waits"
    assert await addresses(names, "quick.example") == ["127.0.0.1"]

    async def is_asked_again() -> bool:
        return system.asked["quick.example"] == 2

    await eventually(is_asked_again)


async def test_an_answer_that_is_too_old_is_not_used(system: System) -> None:
    names = system.names()
    await until_ready(names, "quick.example")
    system.time += 100.0
    system.fails = True
    await until_ready(names, "quick.example")
    with pytest.raises(OSError, match="not known"):
        await names.resolve("quick.example")


async def test_no_more_answers_are_kept_than_may_be(system: System) -> None:
    names = system.names(kept=3)
    for number in range(5):
        await until_ready(names, f"{number}.example")
    assert [names.ready(f"{number}.example", "a") is None for number in (2, 3, 4)] == [True] * 3
    await until_ready(names, "0.example")
    assert system.asked["0.example"] == 2


async def test_the_system_is_asked_as_it_is_set_up() -> None:
    assert {found.address for found in system_look_up("localhost")} <= {"127.0.0.1", "::1"}
    names = Resolver(SystemClock())
    with pytest.raises(OSError, match=r"not known|No address|failure"):
        await names.resolve("no-such-host.invalid")


class Node:
    """A worker that calls webhooks by these names, and what it reports."""

    def __init__(self, names: Resolver, caller: HttpCaller, slots: int) -> None:
        self.clock = SystemClock()
        self.reports: list[Report] = []
        self.pipe = MemoryPipe(slots, lambda: None, prefetch=100)
        callers = Callers(
            http=caller,
            grpc=caller,
            queue=caller,
            python=caller,
            notification=caller,
            workflow=caller,
        )  # no functions are called
        troubles = Troubles(self.clock, nobody)
        payloads = Payloads(self._payload, 1000, troubles)
        runner = Runner(callers, payloads, self.clock, PATIENCE, nobody)
        lease = Lease(a_delivery(1).incarnation, 3600.0)
        lease.renewed(self.clock.monotonic())
        starter = Starter(self._begin, troubles)
        self.asked_to_begin: list[Delivery] = []
        self.worker = Worker(self.pipe, runner, starter, lease, self.clock, slots)

    async def _payload(self, _: Any) -> bytes:
        return b"{}"

    async def _begin(self, deliveries: Any) -> Any:
        self.asked_to_begin += deliveries
        return {delivery.key for delivery in deliveries}

    def send(self, url: str, *numbers: int, start_in: float = 60.0, **values: Any) -> None:
        start_by = self.clock.seconds() + start_in
        given = {"target": HttpTarget(url), "start_by": start_by, "payload": b"{}", **values}
        self.pipe.send([msgspec.structs.replace(a_delivery(n), **given) for n in numbers])

    async def reported(self, *numbers: int) -> list[Report]:
        async def look() -> list[Report] | None:
            found = [r for r in self.reports if r.delivery.key.id.int in numbers]
            return found if len(found) == len(numbers) else None

        return await eventually(look)

    async def collect(self) -> None:
        while True:
            self.reports += await self.pipe.reports(100)


@asynccontextmanager
async def node(names: Resolver, slots: int = 20) -> AsyncIterator[Node]:
    async with HttpCaller(SystemClock(), None, 100, names=names) as caller:
        made = Node(names, caller, slots)
        running = [asyncio.create_task(made.worker.run()), asyncio.create_task(made.collect())]
        try:
            yield made
        finally:
            for task in running:
                task.cancel()
            await asyncio.wait(running)


async def test_slow_names_of_some_cost_others_nothing(system: System) -> None:
    """More names hang than a pool of the usual size has threads, and waiting is not running."""
    names = Resolver(SystemClock(), system.look_up)
    async with answering(PLAIN) as server, node(names) as worker:
        for number in range(10):
            worker.send(f"http://slow{number}.example:9/", 100 + number, timeout_seconds=0.2)
        await system.has_asked(*(f"slow{number}.example" for number in range(10)))
        for number in range(1, 11):
            worker.send(f"http://quick{number}.example:{server.port}/", number)
        for report in await worker.reported(*range(1, 11)):
            assert report.outcome is not None
            assert report.outcome.kind is OutcomeKind.SUCCEEDED
        assert len(worker.reports) == 10, "those that wait have neither failed nor timed out"


async def test_who_waits_for_a_name_too_long_is_given_back_unmarked(system: System) -> None:
    names = Resolver(SystemClock(), system.look_up)
    async with node(names) as worker:
        once = DeliveryMode.AT_MOST_ONCE
        worker.send("http://slow.example:9/", 1, start_in=0.1, mode=once, timeout_seconds=60.0)
        (report,) = await worker.reported(1)
    assert report.outcome is None
    assert worker.asked_to_begin == [], "a node that dies meanwhile leaves no doubt"


async def test_a_name_that_takes_too_long_is_a_failure_of_its_host(system: System) -> None:
    names = Resolver(SystemClock(), system.look_up, seconds=0.1)
    async with node(names) as worker:
        worker.send("http://slow.example:9/", 1, timeout_seconds=60.0)
        (report,) = await worker.reported(1)
    assert report.outcome is not None
    assert report.outcome.kind is OutcomeKind.FAILED
    assert report.outcome.unreachable
    assert report.outcome.retryable
    assert "took longer than 0.1 s" in (report.outcome.error or "")


async def test_what_waits_for_a_name_can_be_stopped(system: System) -> None:
    names = Resolver(SystemClock(), system.look_up)
    async with answering(PLAIN) as server, node(names, slots=2) as worker:
        worker.send("http://slow.example:9/", 1)
        await system.has_asked("slow.example")
        assert worker.worker.interrupt(a_delivery(1).key, "cancelled")
        assert not worker.worker.interrupt(a_delivery(1).key, "cancelled")
        (report,) = await worker.reported(1)
        assert report.outcome is None
        # Its slot goes on.
        worker.send(f"http://quick.example:{server.port}/", 2, 3, 4)
        for each in await worker.reported(2, 3, 4):
            assert each.outcome is not None
            assert each.outcome.kind is OutcomeKind.SUCCEEDED
        worker.send("http://slow.example:9/", 5)
        worker.worker.drain()
        (report,) = await worker.reported(5)
        assert report.outcome is None
