"""Threads for functions that block: capacity is kept whatever hangs."""

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.waiting import eventually

from gnomon.node.run.threads import LeftRunning, Threads, TooManyHung


class Gate:
    """A function that blocks until it is let go, and who is in it."""

    def __init__(self) -> None:
        self.entered: list[threading.Thread] = []
        self._open = threading.Event()

    def pass_through(self, value: str) -> str:
        self.entered.append(threading.current_thread())
        self._open.wait(60)
        return value

    def open(self) -> None:
        self._open.set()

    def has(self, count: int) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return len(self.entered) == count

        return look


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    made = Gate()
    yield made
    made.open()


def alive(threads: list[threading.Thread], count: int) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return sum(thread.is_alive() for thread in threads) == count

    return look


async def left(call: "asyncio.Task[str]") -> "asyncio.Future[None]":
    """Cancel a call that runs; gives what tells of its return."""
    call.cancel()
    with pytest.raises(LeftRunning) as told:
        await call
    return told.value.returned


async def hang(threads: Threads, gate: Gate, count: int) -> "list[asyncio.Future[None]]":
    before = len(gate.entered)
    calls = [asyncio.create_task(threads.run(gate.pass_through, "late")) for _ in range(count)]
    await eventually(gate.has(before + count))
    return [await left(call) for call in calls]


async def test_what_the_function_gives_or_raises_arrives() -> None:
    def fail() -> None:
        raise KeyError("no")

    def stop() -> None:
        next(iter(()))

    def leave() -> None:
        raise SystemExit(3)

    threads = Threads(2)
    assert await threads.run(lambda a, b: a + b, 1, 2) == 3
    with pytest.raises(KeyError):
        await threads.run(fail)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.run(stop)
    with pytest.raises(SystemExit):
        await threads.run(leave)
    assert await threads.run(str, 7) == "7"
    threads.close()


async def test_no_more_run_at_once_than_the_limit_and_all_run(gate: Gate) -> None:
    threads = Threads(3)
    calls = [asyncio.create_task(threads.run(gate.pass_through, str(n))) for n in range(10)]
    await eventually(gate.has(3))
    gate.open()
    assert await asyncio.gather(*calls) == [str(n) for n in range(10)]
    assert len(set(gate.entered)) <= 3
    threads.close()
    await eventually(alive(gate.entered, 0))


async def test_a_call_cancelled_before_it_began_is_never_made(gate: Gate) -> None:
    threads = Threads(1)
    first = asyncio.create_task(threads.run(gate.pass_through, "first"))
    await eventually(gate.has(1))
    second = asyncio.create_task(threads.run(gate.pass_through, "second"))
    third = asyncio.create_task(threads.run(gate.pass_through, "third"))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError) as told:
        await second
    assert not isinstance(told.value, LeftRunning)
    assert threads.hung == 0
    gate.open()
    assert (await first, await third) == ("first", "third")
    assert len(gate.entered) == 2
    threads.close()


async def test_a_thread_that_hangs_is_replaced_and_ends_when_it_returns(gate: Gate) -> None:
    threads = Threads(2)
    returns = [*await hang(threads, gate, 2), *await hang(threads, gate, 2)]
    hung = gate.entered[:]
    assert threads.hung == 4
    other = Gate()
    calls = [asyncio.create_task(threads.run(other.pass_through, str(n))) for n in range(3)]
    await eventually(other.has(2))  # both places are there, and not a third
    assert not any(done.done() for done in returns)
    gate.open()
    await asyncio.gather(*returns)
    assert threads.hung == 0
    await eventually(alive(hung, 0))
    assert len(other.entered) == 2
    other.open()
    assert await asyncio.gather(*calls) == ["0", "1", "2"]
    threads.close()


async def test_waiting_calls_go_to_the_threads_that_replace_hung_ones(gate: Gate) -> None:
    threads = Threads(1)
    stuck = asyncio.create_task(threads.run(gate.pass_through, "late"))
    await eventually(gate.has(1))
    waiting = [asyncio.create_task(threads.run(str, n)) for n in range(3)]
    await asyncio.sleep(0)
    await left(stuck)
    assert await asyncio.gather(*waiting) == ["0", "1", "2"]
    threads.close()


async def test_beyond_a_bound_of_hung_threads_calls_are_refused(gate: Gate) -> None:
    threads = Threads(1)
    for _ in range(10):
        await hang(threads, gate, 1)
    called: list[bool] = []
    with pytest.raises(TooManyHung, match="10 handlers hang in threads of this node"):
        await threads.run(called.append, True)
    assert called == []
    gate.open()

    async def runs_again() -> bool:
        return threads.hung == 0

    await eventually(runs_again)
    await threads.run(called.append, True)
    assert called == [True]
    threads.close()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_call_that_has_ended_when_it_is_cancelled_counts(fails: bool) -> None:
    began: queue.Queue[threading.Thread] = queue.Queue()

    def work(value: str) -> str:
        began.put(threading.current_thread())
        if fails:
            raise KeyError(value)
        return value

    threads = Threads(1)
    call = asyncio.create_task(threads.run(work, "in time"))
    await asyncio.sleep(0)
    # The loop is kept busy until the thread has ended, so it has not heard of it.
    thread = began.get(timeout=30)
    threads.close()
    thread.join(30)
    call.cancel()
    if fails:
        with pytest.raises(KeyError, match="in time"):
            await call
    else:
        assert await call == "in time"
    assert threads.hung == 0


async def test_closing_waits_for_nobody(gate: Gate) -> None:
    threads = Threads(1)
    running = asyncio.create_task(threads.run(gate.pass_through, "ran"))
    await eventually(gate.has(1))
    waiting = asyncio.create_task(threads.run(gate.pass_through, "waited"))
    await asyncio.sleep(0)
    threads.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.open()
    assert await running == "ran"
    await eventually(alive(gate.entered, 0))
    assert len(gate.entered) == 1


async def test_a_return_after_the_end_of_the_loop_harms_nothing(gate: Gate) -> None:
    """The thread outlives the loop that called it."""

    async def leave_one() -> None:
        threads = Threads(1)
        await hang(threads, gate, 1)
        threads.close()

    await asyncio.to_thread(asyncio.run, leave_one())
    gate.open()
    await eventually(alive(gate.entered, 0))
