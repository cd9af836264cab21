"""Apps on a virtual clock, through the real engine: everything happens at its own moment."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.integration.nodes import SETTINGS
from tests.settings import settings_with

from gnomon import Gnomon, LimiterSpec, Reject, RetryPolicy, Snooze, Status, TaskContext
from gnomon.model.tasks.retry import Backoff
from gnomon.sdk.submitting.handle import TaskExpired, TaskFailed
from gnomon.testing import NothingRuns, NotInThisMode, VirtualGnomon, virtual_gnomon
from gnomon.wiring.processes import run_node

START = datetime(2026, 3, 1, tzinfo=UTC)
FIXED = RetryPolicy(max_retries=3, backoff=Backoff.FIXED, base_seconds=60, jitter=False)


class Shop:
    """An app, and when its handlers ran."""

    def __init__(self) -> None:
        self.app = Gnomon()
        self.ran: list[tuple[str, datetime]] = []  # by the context
        self.g: VirtualGnomon | None = None

    def note(self, name: str) -> None:
        assert self.g is not None
        self.ran.append((name, self.g.now))

    def moments(self, name: str) -> list[datetime]:
        return [at for each, at in self.ran if each == name]

    @asynccontextmanager
    async def virtual(self, start: datetime = START, **options: Any) -> AsyncIterator[Any]:
        async with virtual_gnomon(self.app, start=start, **options) as g:
            self.g = g
            yield g


async def test_a_delayed_task_runs_at_its_time_and_not_before() -> None:
    shop = Shop()

    @shop.app.task
    async def greet(ctx: TaskContext, name: str) -> str:
        shop.note("greet")
        assert ctx.scheduled_for == START + timedelta(days=3)
        assert ctx.deadline == START + timedelta(days=3, seconds=30)
        return f"hello {name}"

    async with shop.virtual() as g:
        handle = await greet.options(delay="3 days").submit(name="ada")
        await g.advance("2d23h")
        assert await handle.status() is Status.SCHEDULED
        with pytest.raises(NothingRuns, match="due at 2026-03-04T00:00:00"):
            await handle.result()
        await g.advance(START + timedelta(days=4))
        assert await handle.result() == "hello ada"
        assert shop.moments("greet") == [START + timedelta(days=3)]
        assert g.now == START + timedelta(days=4)
        g.assert_submitted(greet.options(delay="3 days"), name="ada")


async def test_a_month_of_a_daily_job_with_retries_takes_under_a_second() -> None:
    shop = Shop()

    @shop.app.cron("0 9 * * *", timezone="Europe/Berlin", retries=FIXED)
    async def report(ctx: TaskContext) -> None:
        shop.note("report")
        if ctx.attempt < 3:
            raise RuntimeError("not yet")

    async with shop.virtual() as g:
        began, used = time.perf_counter(), time.process_time()
        await g.advance("30 days")
        took, worked = time.perf_counter() - began, time.process_time() - used
        tasks = await g.tasks(task_type="report")
    assert [task.status for task in tasks] == [Status.COMPLETED] * 30
    fires = shop.moments("report")[::3]
    assert len(shop.ran) == 90
    # Nine in Berlin, before and after the clocks were put forward on the 29th.
    assert [fire.hour for fire in fires] == [8] * 28 + [7] * 2
    assert [b - a for a, b in pairwise(shop.moments("report")[:3])] == [timedelta(minutes=1)] * 2
    # The promise is one second. Beside other work on the machine only this process's part of it
    # can be told; the rest is PostgreSQL's.
    assert worked < 1.0, f"{worked:.2f} s of this process, {took:.2f} s in all"


async def test_a_fire_in_the_hour_that_is_repeated() -> None:
    shop = Shop()

    @shop.app.cron("30 2 * * *", timezone="Europe/Berlin")
    async def nightly() -> None:
        shop.note("nightly")

    async with shop.virtual(datetime(2026, 10, 24, 12, tzinfo=UTC)) as g:
        await g.advance("3 days")
    # The clocks go back on the 25th: half past two comes twice, and the job fires once.
    fires = [at.isoformat() for at in shop.moments("nightly")]
    assert fires == [
        "2026-10-25T00:30:00+00:00",
        "2026-10-26T01:30:00+00:00",
        "2026-10-27T01:30:00+00:00",
    ]


async def test_snooze_reject_and_expiry() -> None:
    shop = Shop()

    @shop.app.task
    async def wait_a_day(ctx: TaskContext) -> int:
        shop.note("wait_a_day")
        if ctx.attempt < 3:
            raise Snooze("1 day")
        return ctx.attempt

    @shop.app.task
    async def refuse() -> None:
        raise Reject("no")

    @shop.app.task(retries=FIXED)
    async def fail() -> None:
        raise RuntimeError("broken")

    async with shop.virtual() as g:
        snoozed = await wait_a_day.submit()
        refused = await refuse.submit()
        failing = await fail.options(expires="90s").submit()
        await g.advance("3 days")
        assert await snoozed.result() == 3
        days = [START + timedelta(days=n) for n in range(3)]
        assert shop.moments("wait_a_day") == days
        assert [e.started_at for e in await g.executions(snoozed)] == days
        with pytest.raises(TaskFailed, match="Reject: no"):
            await refused.result()
        with pytest.raises(TaskExpired, match="2026-03-01T00:01:30"):
            await failing.result()
        assert len(await g.executions(failing)) == 2


async def test_what_handlers_declare_is_registered_and_the_lifespan_may_submit() -> None:
    shop = Shop()

    @shop.app.task(expiry="90s", retries=FIXED)
    async def fail() -> None:
        raise RuntimeError("broken")

    @shop.app.lifespan
    async def lifespan(app: Gnomon) -> AsyncIterator[None]:
        await fail.submit()
        yield

    async with shop.virtual() as g:
        assert [each.name for each in await g.client.list_task_types()] == ["fail"]
        handle = await fail.submit()
        await g.advance("1h")
        with pytest.raises(TaskExpired, match="2026-03-01T00:01:30"):
            await handle.result()
        assert len(g.submitted_to(fail)) == 2


async def test_a_handler_that_waits_times_out_at_its_virtual_moment() -> None:
    shop = Shop()

    @shop.app.task(timeout="30s", retries=0)
    async def hang() -> None:
        await asyncio.Event().wait()

    @shop.app.task
    async def meanwhile() -> None:
        shop.note("meanwhile")

    async with shop.virtual(patience=0.05) as g:
        hung = await hang.submit()
        await meanwhile.options(delay="10s").submit()
        await g.advance("1 minute")
        with pytest.raises(TaskFailed, match="did not end within 30 s"):
            await hung.result()
        (execution,) = await g.executions(hung)
        assert execution.finished_at == START + timedelta(seconds=30)
        assert shop.moments("meanwhile") == [START + timedelta(seconds=10)]


async def test_a_handler_that_ignores_its_timeout_holds_up_nothing() -> None:
    shop = Shop()

    @shop.app.task(timeout="30s", retries=0)
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if released:
                    raise

    released = False
    async with shop.virtual(patience=0.05) as g:
        handle = await stubborn.submit()
        await g.drain()
        assert await handle.status() is Status.DEAD_LETTERED
        released = True


async def test_whatever_a_handler_raises_fails_its_execution_alone() -> None:
    shop = Shop()

    class Odd(BaseException):
        pass

    @shop.app.task(retries=0)
    async def fail(how: str) -> None:
        raise {"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "odd": Odd("x")}[how]

    @shop.app.task
    async def work() -> int:
        return 1

    async with shop.virtual() as g:
        failed = [await fail.submit(how=how) for how in ("exit", "interrupt", "odd")]
        worked = await work.submit()
        await g.drain()
        assert [await each.status() for each in failed] == [Status.DEAD_LETTERED] * 3
        assert await worked.result() == 1


async def test_handlers_submit_and_wait_for_each_other_from_loop_and_thread() -> None:
    shop = Shop()

    @shop.app.task
    async def square(number: int) -> int:
        return number * number

    @shop.app.task
    async def total(numbers: list[int]) -> int:
        handles = [await square.submit(number=number) for number in numbers]
        return sum([await handle.result() for handle in handles])

    @shop.app.task
    def in_thread(number: int) -> int:
        return square.submit_sync(number=number).result_sync()

    @shop.app.task
    async def chain(left: int) -> None:
        shop.note("chain")
        if left:
            await chain.options(delay="1h").submit(left=left - 1)

    async with shop.virtual() as g:
        assert await (await total.submit(numbers=[1, 2, 3])).result() == 14
        assert await (await in_thread.submit(number=4)).result() == 16
        await chain.submit(left=3)
        await g.advance("1 day")
        assert shop.moments("chain") == [START + timedelta(hours=n) for n in range(4)]
        assert len(g.submitted) == 10
        with pytest.raises(NotInThisMode, match="result_sync"):
            (await square.options(delay="1h").submit(number=1)).result_sync()


async def test_a_handler_waits_for_another_that_is_due_later() -> None:
    shop = Shop()

    @shop.app.task
    async def inner(number: int) -> int:
        return number + 1

    @shop.app.task(timeout="1h")
    async def outer(number: int) -> int:
        handle = await inner.options(delay="10m").submit(number=number)
        return await handle.result()

    async with shop.virtual(patience=1.0) as g:
        handle = await outer.submit(number=1)
        await g.advance("11m")
        assert await handle.result() == 2
        assert [each.outcome for each in await g.executions(handle)] == ["succeeded"]
        assert g.now == START + timedelta(minutes=11)


async def test_a_limit_spreads_starts_over_virtual_time() -> None:
    shop = Shop()

    @shop.app.task(queue="slow")
    async def call() -> None:
        shop.note("call")

    async with shop.virtual() as g:
        await g.client.put_limiter("slow", LimiterSpec(queue="slow", rate=1, per_seconds=60))
        await shop.app.submit_many(call.prepare() for _ in range(4))
        await g.advance("10 minutes")
    gaps = [b - a for a, b in pairwise(shop.moments("call"))]
    assert len(gaps) == 3
    assert all(gap >= timedelta(seconds=59) for gap in gaps), gaps


async def test_a_task_without_a_handler_waits_and_costs_no_time() -> None:
    shop = Shop()
    elsewhere = Gnomon()

    @elsewhere.task
    async def unknown() -> None: ...

    async with shop.virtual() as g:
        prepared = unknown.prepare()
        handle = await shop.app.submit(prepared)
        began = time.process_time()
        await g.advance("365 days")
        assert time.process_time() - began < 0.5
        assert await handle.status() is Status.READY


async def test_the_clock_goes_forward_only_and_not_from_within() -> None:
    shop = Shop()

    @shop.app.task(retries=0)
    async def turn() -> None:
        assert shop.g is not None
        await shop.g.advance("1h")

    async with shop.virtual() as g:
        with pytest.raises(ValueError, match="only goes forward"):
            await g.advance(START - timedelta(days=1))
        with pytest.raises(ValueError, match="no time zone"):
            await g.advance(datetime(2030, 1, 1))  # noqa: DTZ001
        handle = await turn.submit()
        with pytest.raises(TaskFailed, match="cannot turn the clock"):
            await handle.result()


async def test_two_at_once_have_their_own_clocks_and_databases() -> None:
    one, other = Shop(), Shop()
    for shop in (one, other):

        @shop.app.task
        async def work() -> None: ...

    async with one.virtual() as g, other.virtual(datetime(2030, 1, 1, tzinfo=UTC)) as h:
        await one.app.handlers["work"].submit()
        await asyncio.gather(g.advance("1 day"), h.advance("2 days"))
        assert len(await g.tasks()) == 1
        assert await h.tasks() == []
        assert h.now == datetime(2030, 1, 3, tzinfo=UTC)


async def test_virtual_and_real_time_have_the_same_outcomes(database_dsn: str) -> None:
    virtual = Shop()
    outcomes = await _outcomes_virtually(virtual)
    assert outcomes == await _outcomes_really(database_dsn)
    assert outcomes["flaky"] == (Status.COMPLETED, ["failed", "failed", "succeeded"])
    assert outcomes["refuse"] == (Status.DEAD_LETTERED, ["failed"])


def _scenario(app: Gnomon) -> list[Any]:
    quick = RetryPolicy(max_retries=3, base_seconds=0.05, max_seconds=0.1)

    @app.task(retries=quick)
    async def flaky(ctx: TaskContext) -> int:
        if ctx.attempt < 3:
            raise ValueError("not yet")
        return ctx.attempt

    @app.task
    async def nap(ctx: TaskContext) -> int:
        if ctx.attempt == 1:
            raise Snooze(0.1)
        return ctx.attempt

    @app.task
    async def refuse() -> None:
        raise Reject("no")

    @app.task(retries=0, timeout=0.3)
    async def hang() -> None:
        await asyncio.Event().wait()

    return [flaky, nap, refuse, hang.options(delay="200ms")]


async def _told(app: Gnomon, handles: dict[str, Any]) -> dict[str, Any]:
    told = {}
    for name, handle in handles.items():
        executions = [each async for each in app.client.list_executions(handle.id)]
        told[name] = ((await handle.task()).status, [e.outcome for e in executions])
    return told


def _name(submittable: Any) -> str:
    return str(getattr(submittable, "handler", submittable).name)


async def _outcomes_virtually(shop: Shop) -> dict[str, Any]:
    scenario = _scenario(shop.app)
    async with shop.virtual(patience=0.05) as g:
        handles = {_name(each): await each.submit() for each in scenario}
        await g.advance("1 minute")
        return await _told(shop.app, handles)


async def _outcomes_really(dsn: str) -> dict[str, Any]:
    app = Gnomon()
    scenario = _scenario(app)
    stop, started = asyncio.Event(), asyncio.Event()
    settings = settings_with(SETTINGS, database_url=dsn)
    async with asyncio.TaskGroup() as group, app:
        group.create_task(run_node(settings, dsn, lambda _: started.set(), stop, app=app))
        await started.wait()
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("DATABASE_URL", dsn)
            handles = {_name(each): await each.submit() for each in scenario}
        for handle in handles.values():
            await app.client.wait(handle.id, timeout=30)
        told = await _told(app, handles)
        stop.set()
    return told
