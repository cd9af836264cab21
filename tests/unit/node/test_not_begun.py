"""Handlers that may not begin, and what is around them: whatever that makes of it, what was never
called is given back, and what was called once is not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Annotated, Any

import pytest
from tests.unit.node.worker_world import ASKS, LateConnection, World, executed, working

from gnomon import Depends
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.sdk.executing.context import TaskContext

CallNext = Callable[[], Awaitable[Any]]
Around = Callable[[CallNext], Awaitable[Any]]


async def swallowing(call_next: CallNext) -> Any:
    try:
        return await call_next()
    except BaseException:  # noqa: BLE001 - as users write it
        return "as if it had run"


async def leaving_early(call_next: CallNext) -> Any:
    try:
        await call_next()
    finally:
        return None  # noqa: B012 - as users write it


async def grouping(call_next: CallNext) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_coroutine(call_next))
    return task.result()


async def _coroutine(call_next: CallNext) -> Any:
    return await call_next()


async def replacing(call_next: CallNext) -> Any:
    try:
        return await call_next()
    except BaseException as error:
        raise ConnectionResetError("while it was rolled back") from error


async def cancelling(call_next: CallNext) -> Any:
    try:
        return await call_next()
    except BaseException as error:
        raise asyncio.CancelledError from error


async def closing(call_next: CallNext) -> Any:
    try:
        return await call_next()
    except BaseException as error:
        raise GeneratorExit from error


@pytest.mark.parametrize("function", ["work", "in_thread", "with_more"])
@pytest.mark.parametrize(
    "around", [swallowing, leaving_early, grouping, replacing, cancelling, closing]
)
async def test_whatever_is_made_of_a_refusal_nothing_was_called(
    function: str, around: Around
) -> None:
    def in_thread(payload: Any) -> None:
        world.begun.append("in_thread")

    async def with_more(payload: Any, _: Annotated[int, Depends(int)]) -> None:
        world.begun.append("with_more")

    world = World(None, in_thread, with_more)

    async def waiting(_: TaskContext, call_next: CallNext) -> Any:
        world.may_begin = False
        return await around(call_next)

    world.app.middleware(waiting)
    assert (await executed(world, function)).outcome is None
    assert world.begun == []


async def test_one_that_is_told_to_stop_after_a_refusal_was_not_called() -> None:
    world, refused = World(), asyncio.Event()

    async def lingering(_: TaskContext, call_next: CallNext) -> Any:
        world.may_begin = False
        try:
            return await call_next()
        finally:
            refused.set()
            await asyncio.Event().wait()

    world.app.middleware(lingering)
    async with working(world):
        world.send("work", 1, timeout=60.0)
        await refused.wait()
        assert world.worker.interrupt(world.delivery("work", 1, 60.0).key, "cancelled")
        await world.reported(1)
    assert world.reports[0].outcome is None
    assert world.begun == []


async def test_one_that_is_asked_for_again_when_it_may_begin_is_called() -> None:
    world = World()

    async def patient(_: TaskContext, call_next: CallNext) -> Any:
        world.may_begin = False
        try:
            return await call_next()
        except BaseException:  # noqa: BLE001 - as users write it
            world.may_begin = True
            return await call_next()

    world.app.middleware(patient)
    await executed(world, "work")
    assert world.errors() == {(OutcomeKind.SUCCEEDED, None)}
    assert world.begun == ["work"]


@pytest.mark.parametrize("function", ["in_thread", "in_thread_with_more"])
async def test_one_that_was_called_in_a_thread_is_not_unstarted(function: str) -> None:
    """It may have had an effect, which at_most_once has once."""

    def in_thread(payload: Any) -> None:
        world.begun.append("in_thread")
        raise ValueError("refused by a service")

    def in_thread_with_more(payload: Any, _: Annotated[int, Depends(int)]) -> None:
        world.begun.append("in_thread_with_more")
        raise ValueError("refused by a service")

    world = World(None, in_thread, in_thread_with_more)

    async def retried(_: TaskContext, call_next: CallNext) -> Any:
        try:
            return await call_next()
        except ValueError:
            world.may_begin = False
            return await call_next()

    world.app.middleware(retried)
    world.answered.set()
    await executed(world, function, **ASKS)
    assert world.errors() == {(OutcomeKind.FAILED, "ValueError: refused by a service")}
    assert world.begun == [function] * 2


async def test_one_whose_dependency_waited_in_its_thread() -> None:
    late = LateConnection()

    def connection() -> Iterator[str]:
        with late.made(world) as made:
            yield made

    def book(payload: Any, uses: Annotated[str, Depends(connection)]) -> None:
        world.begun.append(uses)

    world = World(None, book)
    assert (await executed(world, "book")).outcome is None
    assert world.begun == []
    assert late.ended == ["NotBegun"]


async def test_no_dependency_is_made_in_a_thread_that_came_too_late() -> None:
    made: list[str] = []

    async def slow() -> AsyncIterator[None]:
        world.may_begin = False
        yield

    def connection(_: Annotated[None, Depends(slow)]) -> str:
        made.append("connection")
        return "connection"

    def book(payload: Any, uses: Annotated[str, Depends(connection)]) -> None:
        world.begun.append(uses)

    world = World(None, book)
    assert (await executed(world, "book")).outcome is None
    assert (made, world.begun) == ([], [])
