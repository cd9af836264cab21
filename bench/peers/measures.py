"""The measures, of one contender each on a fresh database. Every task must have run once, or there
is no figure.

Nothing is analyzed or vacuumed by hand for anybody. The server writes a checkpoint before tasks are
enqueued, so that none falls into a measure by chance.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

import asyncpg
import msgspec

from bench.peers.port import Contender, Offer, Offered, Place, Producer, Settings
from bench.stage import Stage
from bench.usage import cpu_seconds
from gnomon.bench.functions import count_calls, read_calls
from gnomon.bench.results import BenchError, percentile

BATCH = 1_000
PAUSE = 0.02  # mean seconds between two lone tasks
LEAD_SECONDS = 6.0  # from enqueueing to the instant, about: some peers look ahead by 5
WARM_UP = 50
SLOWEST_RATE = 100  # tasks a second; below that a measure is given up
START_SECONDS = 60.0
WRITTEN_SECONDS = 5.0  # for the last calls to be in the file
_WARM_UP_FROM = 1_000_000_000
MICRO, MILLI = 1e6, 1e3

Values = dict[str, float]


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything."""

    drains: tuple[int, ...] = (20_000, 100_000)
    seconds: float = 5.0  # of each way of enqueueing; of sustained work twice that
    sustained_most: int = 300_000  # tasks
    idle: int = 300
    herds: tuple[int, ...] = (1_000, 10_000)


QUICK = Sizes(drains=(2_000,), seconds=0.5, sustained_most=5_000, idle=40, herds=(200,))


class Entry(msgspec.Struct, frozen=True):
    """A contender with the settings that it runs with."""

    contender: Contender
    settings: Settings


async def drain(stage: Stage, entry: Entry, count: int) -> Values:
    """Work off a backlog: the rate, and what a task costs."""
    contender = entry.contender
    async with contender.place(stage, entry.settings) as place:
        await _checkpoint(stage)
        begin = await place.reading()
        async with place.producing() as producer:
            await _bulk(producer, contender, count)
        await _stored(place, count)
        stored = await place.reading()
        async with place.working(until_empty=True) as worker:
            worker_before, server_before = cpu_seconds(worker.pid), await place.reading()
            settled = await place.settled(START_SECONDS + count / SLOWEST_RATE)
            worker_after, server_after = cpu_seconds(worker.pid), await place.reading()
            await _written(place.calls, count)
        ended = await place.reading(alone=True)
        starts = _once(place.calls, range(count))
    seconds = settled - min(worker.ready_at, min(starts))
    return {
        "rate": count / seconds,
        "steady": _steady(starts),
        "first": (min(starts) - worker.ready_at) * MILLI,
        **_spent("cpu_worker", worker_before, worker_after, count, MICRO),
        **_spent("cpu_server", server_before.cpu, server_after.cpu, count, MICRO),
        **_spent("wal", begin.wal, server_after.wal, count),
        **_spent("wal_drain", stored.wal, server_after.wal, count),
        **_spent("dead", begin.dead, ended.dead, count),
    }


async def enqueue(stage: Stage, entry: Entry, sizes: Sizes) -> Values:
    """How fast tasks are stored, one in a call and 1 000 in a call. No worker runs."""
    contender = entry.contender
    async with contender.place(stage, entry.settings) as place:
        await _checkpoint(stage)
        async with place.producing() as producer:
            await producer.offer(Offer(first=_WARM_UP_FROM, requests=WARM_UP))
            single = await producer.offer(
                Offer(first=0, connections=contender.single_connections, seconds=sizes.seconds)
            )
            batches = None if contender.most is None else contender.most // BATCH
            bulk = await producer.offer(
                Offer(
                    first=single.accepted,
                    connections=contender.bulk_connections,
                    tasks=BATCH,
                    seconds=sizes.seconds,
                    requests=None if batches is None else batches * 10,
                )
            )
        await _stored(place, WARM_UP + single.accepted + bulk.accepted)
    return {"single": _rate(single), "bulk": _rate(bulk)}


async def sustained(stage: Stage, entry: Entry, sizes: Sizes) -> Values:
    """Enqueue and run at once."""
    contender = entry.contender
    most = min(sizes.sustained_most, contender.most or sizes.sustained_most)
    async with contender.place(stage, entry.settings) as place:
        await _checkpoint(stage)
        async with place.producing() as producer, place.working(until_empty=False):
            await _warm_up(place, producer)
            offered = await producer.offer(
                Offer(
                    first=0,
                    connections=2,
                    tasks=BATCH,
                    seconds=2 * sizes.seconds,
                    requests=most // BATCH,
                )
            )
            settled = await place.settled(START_SECONDS + offered.accepted / SLOWEST_RATE)
            await _written(place.calls, WARM_UP + offered.accepted)
        _once(place.calls, range(offered.accepted))
    return {"rate": offered.accepted / (settled - offered.began)}


async def idle(stage: Stage, entry: Entry, count: int) -> Values:
    """How soon a lone task starts, from the call that enqueues it and from the answer to that."""

    async def lone(producer: Producer) -> Offered:
        return await producer.offer(Offer(first=0, requests=count, pause=PAUSE))

    offered, starts = await _beside_a_worker(stage, entry, lone, count)
    pairs = list(zip(offered.moments, starts, strict=True))
    from_call = [(start - called) * MILLI for (called, _), start in pairs]
    from_answer = [(start - answered) * MILLI for (_, answered), start in pairs]
    if min(from_call) < 0:
        raise BenchError("a task began before it was enqueued: the clocks do not agree")
    return {
        "call_p50": percentile(from_call, 0.50),
        "call_p99": percentile(from_call, 0.99),
        "answer_p50": percentile(from_answer, 0.50),
        "answer_p99": percentile(from_answer, 0.99),
    }


async def herd(stage: Stage, entry: Entry, count: int) -> Values:
    """How late tasks start that are all due at one instant."""
    batch = min(BATCH, count)

    async def at_once(producer: Producer) -> Offered:
        offered = await producer.offer(
            Offer(first=0, tasks=batch, requests=count // batch, due_in=LEAD_SECONDS)
        )
        if offered.due_at is None or offered.ended > offered.due_at - 0.5:
            raise BenchError("enqueueing took so long that the tasks were nearly due")
        await asyncio.sleep(max(0.0, offered.due_at - time.time()))
        return offered

    offered, starts = await _beside_a_worker(stage, entry, at_once, count // batch * batch)
    assert offered.due_at is not None
    delays = [(start - offered.due_at) * MILLI for start in starts]
    return {
        "p50": percentile(delays, 0.50),
        "p99": percentile(delays, 0.99),
        "early": sum(delay < 0 for delay in delays),
    }


async def _beside_a_worker(
    stage: Stage,
    entry: Entry,
    act: Callable[[Producer], Awaitable[Offered]],
    count: int,
) -> tuple[Offered, list[float]]:
    """Have tasks enqueued while a warm worker waits. Gives the start of each, by its number."""
    async with entry.contender.place(stage, entry.settings) as place:
        await _checkpoint(stage)
        async with place.producing() as producer, place.working(until_empty=False):
            await _warm_up(place, producer)
            offered = await act(producer)
            await place.settled(START_SECONDS + count / SLOWEST_RATE)
            await _written(place.calls, WARM_UP + count)
        return offered, _once(place.calls, range(count))


async def _warm_up(place: Place, producer: Producer) -> None:
    await producer.offer(Offer(first=_WARM_UP_FROM, requests=WARM_UP, pause=PAUSE / 4))
    await place.settled(START_SECONDS)


async def _bulk(producer: Producer, contender: Contender, count: int) -> None:
    whole, rest = divmod(count, BATCH)
    connections = contender.bulk_connections
    if whole:
        await producer.offer(Offer(first=0, connections=connections, tasks=BATCH, requests=whole))
    if rest:
        await producer.offer(Offer(first=whole * BATCH, tasks=rest, requests=1))


async def _checkpoint(stage: Stage) -> None:
    connection = await asyncpg.connect(stage.server.superuser_dsn)
    try:
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


async def _stored(place: Place, count: int) -> None:
    found = await place.unfinished()
    if found != count:
        raise BenchError(f"{count} tasks were enqueued, and {found} are stored")


async def _written(calls: Path, count: int) -> None:
    """Wait for the handler's file to be complete. Whether it is, is checked afterwards."""
    deadline = time.monotonic() + WRITTEN_SECONDS
    while count_calls(calls) < count and time.monotonic() < deadline:
        await asyncio.sleep(0.05)


def _once(calls: Path, numbers: range) -> list[float]:
    """When each began. Raises if one did not, or did so twice, those of the warm-up included."""
    found = read_calls(calls)
    return once(found, numbers, range(_WARM_UP_FROM, _WARM_UP_FROM + WARM_UP))


def once(
    found: dict[int, list[float]], numbers: Iterable[int], others: Iterable[int] = ()
) -> list[float]:
    expected, allowed = list(numbers), set(others)
    lost = sum(number not in found for number in expected)
    repeated = sum(len(moments) > 1 for moments in found.values())
    unknown = len(found.keys() - set(expected) - allowed)
    if lost or repeated or unknown:
        raise BenchError(
            f"of {len(expected)} tasks {lost} did not run, {repeated} ran more than once, and "
            f"{unknown} ran that nobody enqueued"
        )
    return [found[number][0] for number in expected]


def _steady(starts: Sequence[float]) -> float:
    """Tasks a second between the first and the last tenth of the starts."""
    early, late = percentile(starts, 0.1), percentile(starts, 0.9)
    return 0.8 * len(starts) / (late - early) if late > early else float("nan")


def _rate(offered: Offered) -> float:
    return offered.accepted / (offered.ended - offered.began)


def _spent(
    name: str, before: float | None, after: float | None, count: int, factor: float = 1.0
) -> Values:
    if before is None or after is None:
        return {}
    return {name: (after - before) / count * factor}
