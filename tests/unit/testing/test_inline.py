"""Handlers that run where they are submitted."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID, uuid4

import pytest

from gnomon import Depends, Gnomon, InvalidArguments, Reject, Retry, Snooze, TaskContext
from gnomon.sdk.app import CallNext
from gnomon.sdk.submitting.handle import TaskFailed
from gnomon.testing import NothingRuns, NotInThisMode, inline, inline_sync, recording

MOMENT = datetime(2026, 3, 1, 9, tzinfo=UTC)


@dataclass
class Receipt:
    to: UUID
    at: datetime


class Mailer:
    def __init__(self, name: str) -> None:
        self.name = name


def mailer() -> Iterator[Mailer]:
    yield Mailer("real")


async def send(to: UUID, at: datetime, *, by: Annotated[Mailer, Depends(mailer)]) -> Receipt:
    assert isinstance(to, UUID)
    assert isinstance(at, datetime)
    return Receipt(to, at)


async def name_of_mailer(*, by: Annotated[Mailer, Depends(mailer)]) -> str:
    return by.name


def double(number: int) -> int:
    return 2 * number


async def welcome(user: str) -> None:
    await app.handlers["double"].submit(number=len(user))


async def raise_it(what: str, ctx: TaskContext) -> None:
    raise {
        "snooze": Snooze("1h"),
        "retry": Retry("busy", after=60),
        "reject": Reject("never"),
        "exit": SystemExit(3),
        "fail": ValueError("broken"),
    }[what]


app = Gnomon()
for function in (send, name_of_mailer, double, welcome, raise_it):
    app.task(function)
sent, doubled, welcomed = (app.handlers[n] for n in ("send", "double", "welcome"))
raised, named = app.handlers["raise_it"], app.handlers["name_of_mailer"]


async def test_arguments_and_results_go_through_json() -> None:
    to = uuid4()
    async with inline(app) as g:
        handle = await sent.submit(to=to, at=MOMENT)
        receipt = await handle.result()
    assert receipt == Receipt(to, MOMENT)
    assert g.submitted[0].arguments == {"to": str(to), "at": "2026-03-01T09:00:00Z"}


async def test_wrong_arguments_are_refused_at_the_call() -> None:
    async with inline(app) as g:
        with pytest.raises(InvalidArguments, match="argument number"):
            await doubled.submit(number="many")
    assert g.submitted == []


async def test_what_a_handler_submits_runs_too() -> None:
    async with inline(app) as g:
        await welcomed.submit(user="ada")
    g.assert_submitted(doubled, number=3)
    assert [task.task_type for task in g.submitted] == ["welcome", "double"]


async def test_dependencies_are_overridden_and_middleware_and_lifespan_run() -> None:
    seen: list[str] = []
    shop = Gnomon()
    shop.task(name_of_mailer)

    @shop.middleware
    async def around(ctx: TaskContext, call_next: CallNext) -> object:
        seen.append(f"before {ctx.task_type}")
        return await call_next()

    @shop.lifespan
    async def lifespan(_: Gnomon) -> AsyncIterator[None]:
        seen.append("opened")
        yield
        seen.append("closed")

    async with inline(shop):
        with shop.override(mailer, lambda: Mailer("of the test")):
            handle = await shop.handlers["name_of_mailer"].submit()
            assert await handle.result() == "of the test"
    assert seen == ["opened", "before name_of_mailer", "closed"]


@pytest.mark.parametrize(
    ("what", "error"),
    [("snooze", Snooze), ("retry", Retry), ("reject", Reject), ("exit", SystemExit)],
)
async def test_whatever_a_handler_raises_the_submission_raises(
    what: str, error: type[BaseException]
) -> None:
    async with inline(app) as g:
        with pytest.raises(error):
            await raised.submit(what=what)
    g.assert_submitted(raised, what=what)


async def test_failures_are_kept_where_that_is_asked_for() -> None:
    async with inline(app, raises=False) as g:
        failed = await raised.submit(what="fail")
        exited = await raised.submit(what="exit")
        snoozed = await raised.submit(what="snooze")
        assert isinstance(g.outcome(failed), ValueError)
        assert isinstance(g.outcome(exited), SystemExit)
        outcome = g.outcome(snoozed)
        assert isinstance(outcome, Snooze)
        assert outcome.seconds == 3600
        with pytest.raises(TaskFailed, match="ValueError: broken") as told:
            await failed.result()
        assert told.value.traceback is not None
        assert "raise_it" in told.value.traceback
        with pytest.raises(NothingRuns, match="snoozed for 3600 s"):
            await snoozed.result()


async def test_a_key_submits_once() -> None:
    async with inline(app) as g:
        handles = [await doubled.options(key="once").submit(number=2) for _ in range(2)]
    assert handles[0] == handles[1]
    assert len(g.submitted) == 1


async def test_synchronous_code_submits_from_the_loop_and_from_handlers() -> None:
    shop = Gnomon()
    inner = shop.task(double)

    @shop.task
    def outer(number: int) -> int:
        return inner.submit_sync(number=number).result_sync() + 1

    async with inline(shop):
        assert await (await outer.submit(number=4)).result() == 9
        assert outer.submit_sync(number=4).result_sync() == 9
        many = await asyncio.to_thread(outer.submit_sync, number=4)
        assert await many.result() == 9


def test_synchronous_tests_have_a_way_of_their_own() -> None:
    with inline_sync(app) as g:
        assert doubled.submit_sync(number=4).result_sync() == 8
        assert named.submit_sync().result_sync() == "real"
        with pytest.raises(ValueError, match="broken"):
            raised.submit_sync(what="fail")
    g.assert_submitted(doubled, number=4)


async def test_recording_runs_nothing() -> None:
    with recording(app) as g:
        handle = await raised.options(delay="10m", key="k").submit(what="exit")
        await app.submit_many(doubled.prepare(number=n) for n in range(3))
        with pytest.raises(NothingRuns, match="only recorded"):
            await handle.result()
    g.assert_submitted(raised.options(delay="10m"), what="exit")
    g.assert_not_submitted(raised.options(delay="20m"))
    assert [task.arguments["number"] for task in g.submitted_to(doubled)] == [0, 1, 2]


async def test_a_failed_assertion_shows_what_was_submitted_instead() -> None:
    with recording(app) as g:
        with pytest.raises(AssertionError, match="nothing was submitted"):
            g.assert_submitted(doubled, number=1)
        await doubled.options(delay="10m").submit(number=2)
        with pytest.raises(AssertionError) as told:
            g.assert_submitted(doubled, number=1)
        assert str(told.value) == (
            "no task was submitted as double(number=1); submitted were:\n"
            "  double(number=2)  with delay=600.0"
        )
        with pytest.raises(AssertionError, match=r"a task was submitted as double\(number=2\)"):
            g.assert_not_submitted(doubled, number=2)


async def test_what_it_has_no_answer_to_is_named() -> None:
    async with inline(app):
        with pytest.raises(NotInThisMode, match=r"GET /api/v1/tasks .*virtual_gnomon"):
            _ = [task async for task in app.client.list_tasks()]


async def test_the_app_submits_as_before_once_the_block_is_left() -> None:
    shop = Gnomon(url="http://127.0.0.1:1")
    shop.task(double)
    before = shop.client
    async with inline(shop):
        assert shop.client is not before
    assert shop.client is before
    await shop.close()
