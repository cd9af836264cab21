"""Dependencies are made for each execution, shared within it, and closed after it."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import pytest
from tests.unit.sdk.claimed import context, executed

from gnomon.node.run.threads import LeftRunning, Threads
from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring.dependencies import Depends
from gnomon.sdk.errors import InvalidHandler
from gnomon.sdk.executing.context import TaskContext

events: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_happened() -> None:
    events.clear()


def settings() -> str:
    events.append("settings")
    return "s"


async def pool(name: str = Depends(settings)) -> AsyncIterator[str]:
    events.append("open pool")
    try:
        yield f"pool of {name}"
    except BaseException as error:
        events.append(f"pool saw {type(error).__name__}")
        raise
    finally:
        events.append("close pool")


def session(
    ctx: TaskContext, pool: Annotated[str, Depends(pool)], name: str = Depends(settings)
) -> Iterator[str]:
    events.append("open session")
    try:
        yield f"session {ctx.attempt} on {pool} for {name}"
    finally:
        events.append("close session")


async def user(fresh: int = 5, /, *, session: str = Depends(session)) -> str:
    return f"{fresh} {session}"


OPENED = ["settings", "open pool", "open session"]
CLOSED = ["close session", "close pool"]
TEXT = "session 1 on pool of s for s"


async def test_an_async_handler_gets_them_made_once_and_closed_in_reverse() -> None:
    app = Gnomon()

    @app.task
    async def work(
        n: int, session: Annotated[str, Depends(session)], user: str = Depends(user)
    ) -> list[Any]:
        events.append("work")
        return [n, session, user]

    assert work.arguments.names == ("n",)
    for _ in range(2):
        events.clear()
        assert await executed(app, "work", b'{"n":2}') == [2, TEXT, f"5 {TEXT}"]
        assert events == [*OPENED, "work", *CLOSED]


async def test_a_sync_handler_gets_sync_ones_in_its_own_thread() -> None:
    app = Gnomon()
    where: list[int] = []

    def connection(pool: str = Depends(pool)) -> Iterator[str]:
        where.append(threading.get_ident())
        yield f"connection of {pool}"
        where.append(threading.get_ident())
        events.append("close connection")

    @app.task
    def work(*, connection: str = Depends(connection)) -> str:
        where.append(threading.get_ident())
        return connection

    assert await executed(app, "work") == "connection of pool of s"
    assert len(set(where)) == 1
    assert where[0] != threading.get_ident()
    assert events == ["settings", "open pool", "close connection", "close pool"]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_failure_is_raised_in_them_and_stays_the_failure(kind: str) -> None:
    app = Gnomon()

    def swallowing() -> Iterator[None]:
        try:
            yield
        except ValueError:
            events.append("swallowed")

    if kind == "async":

        @app.task(name="work")
        async def work(_a: str = Depends(session), _b: None = Depends(swallowing)) -> None:
            raise ValueError("mine")
    else:

        @app.task(name="work")
        def work_sync(_a: str = Depends(session), _b: None = Depends(swallowing)) -> None:
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await executed(app, "work")
    assert events == [*OPENED, "swallowed", "close session", "pool saw ValueError", "close pool"]


async def test_they_are_closed_when_the_execution_is_cancelled() -> None:
    app = Gnomon()
    begun = asyncio.Event()

    @app.task
    async def work(session: str = Depends(session)) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(executed(app, "work"))
        await begun.wait()
        running.cancel()
    assert running.cancelled()
    assert events == [*OPENED, "close session", "pool saw CancelledError", "close pool"]


async def test_one_that_cannot_be_made_closes_those_before_it() -> None:
    app = Gnomon()

    async def broken() -> str:
        raise OSError("no route")

    @app.task
    async def work(session: str = Depends(session), more: str = Depends(broken)) -> None: ...

    with pytest.raises(OSError, match="no route"):
        await executed(app, "work")
    assert events == [*OPENED, "close session", "pool saw OSError", "close pool"]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_one_that_fails_after_the_handler_fails_the_execution(kind: str) -> None:
    """As in a `with` statement: it may have been the commit."""
    app = Gnomon()

    def committing() -> Iterator[None]:
        yield
        raise ConnectionError("commit lost")

    async def outer() -> AsyncIterator[None]:
        try:
            yield
        except ConnectionError:
            events.append("outer saw it")
            raise

    if kind == "async":

        @app.task(name="work")
        async def work(_a: None = Depends(outer), _b: None = Depends(committing)) -> int:
            return 1
    else:

        @app.task(name="work")
        def work_sync(_a: None = Depends(outer), _b: None = Depends(committing)) -> int:
            return 1

    with pytest.raises(ConnectionError, match="commit lost"):
        await executed(app, "work")
    assert events == ["outer saw it"]


async def test_one_that_fails_after_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    app = Gnomon()

    async def failing() -> AsyncIterator[None]:
        try:
            yield
        finally:
            raise ConnectionError("cannot close")

    @app.task
    async def work(session: str = Depends(session), f: None = Depends(failing)) -> None:
        raise ValueError("mine")

    with caplog.at_level(logging.ERROR), pytest.raises(ValueError, match="mine"):
        await executed(app, "work")
    assert "failing failed while it was closed" in caplog.text
    assert "cannot close" in caplog.text
    assert events[-1] == "close pool"


async def test_a_generator_that_yields_not_once_is_told() -> None:
    app = Gnomon()

    def twice() -> Iterator[int]:
        yield 1
        yield 2

    def never() -> Iterator[int]:
        yield from ()

    @app.task
    async def work(n: int = Depends(twice)) -> int:
        return n

    @app.task
    async def other(n: int = Depends(never)) -> int:
        return n

    with pytest.raises(RuntimeError, match="twice yields more than once"):
        await executed(app, "work")
    with pytest.raises(RuntimeError, match="never yields nothing"):
        await executed(app, "other")


async def test_an_override_takes_the_place_of_one_however_deep() -> None:
    app = Gnomon()

    @app.task
    async def work(user: str = Depends(user)) -> str:
        return user

    def fake(ctx: TaskContext) -> str:
        return f"fake {ctx.attempt}"

    with app.override(pool, fake):
        assert await executed(app, "work") == "5 session 1 on fake 1 for s"
        with app.override(settings, lambda: "t"):
            assert await executed(app, "work") == "5 session 1 on fake 1 for t"
    assert await executed(app, "work") == f"5 {TEXT}"


def test_an_override_cannot_need_what_it_replaces() -> None:
    def fake(settings: str = Depends(settings)) -> str:
        return settings

    with (
        pytest.raises(InvalidHandler, match="so it cannot depend on it"),
        Gnomon().override(settings, fake),
    ):
        pass


def first(x: "Annotated[int, Depends(second)]") -> int:
    return x


def second(y: Annotated[int, Depends(first)]) -> int:
    return y


def needs_data(amount: int) -> int:
    return amount


def test_dependencies_that_need_each_other_are_refused() -> None:
    async def work(x: Annotated[int, Depends(first)]) -> None: ...

    with pytest.raises(InvalidHandler, match="need each other: first -> second -> first"):
        Gnomon().task(work)


def test_a_dependency_that_needs_data_is_refused() -> None:
    async def work(x: int = Depends(needs_data)) -> None: ...

    with pytest.raises(InvalidHandler, match="a dependency cannot have the parameter amount"):
        Gnomon().task(work)


async def test_a_class_can_be_a_dependency() -> None:
    class Clock:
        def __init__(self, ctx: TaskContext, name: str = Depends(settings)) -> None:
            self.text = f"{name} {ctx.attempt}"

    app = Gnomon()

    @app.task
    async def work(clock: Annotated[Clock, Depends(Clock)]) -> str:
        return clock.text

    assert await executed(app, "work") == "s 1"


@pytest.mark.parametrize("given", [5, [], None])
def test_what_cannot_be_a_dependency_is_refused(given: Any) -> None:
    async def work(x: Any = Depends(given)) -> None: ...  # noqa: B008

    with pytest.raises(InvalidHandler, match="give it a function"):
        Gnomon().task(work)


async def test_the_first_of_two_cancellations_is_told() -> None:
    """It may know of a thread that goes on."""
    app = Gnomon()

    async def converting() -> AsyncIterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            raise asyncio.CancelledError("another") from None

    class Known(asyncio.CancelledError):
        pass

    @app.task
    async def work(c: None = Depends(converting)) -> None:
        raise Known

    with pytest.raises(Known):
        await executed(app, "work")


async def test_a_thread_that_is_given_up_closes_its_own_when_it_ends() -> None:
    """And nobody else does while it still uses them."""
    app = Gnomon()
    begun, go_on = threading.Event(), threading.Event()
    threads = Threads(1)

    def connection(pool: str = Depends(pool)) -> Iterator[str]:
        try:
            yield "connection"
        finally:
            events.append("close connection")

    @app.task
    def work(connection: str = Depends(connection)) -> None:
        begun.set()
        go_on.wait()
        events.append("work ends")

    running = asyncio.ensure_future(app.execute("work", None, context(), threads.run))
    await asyncio.to_thread(begun.wait)
    running.cancel()
    with pytest.raises(LeftRunning) as left:
        await running
    seen = ["settings", "open pool", "pool saw LeftRunning", "close pool"]
    assert events == seen
    go_on.set()
    await left.value.returned
    assert events == [*seen, "work ends", "close connection"]
    threads.close()
