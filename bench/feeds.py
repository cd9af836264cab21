"""What a feed of outcomes costs: a drain with one and without, and how fast its notes are published
to each broker once nothing else is done."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import aio_pika
import msgspec
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from proof.campaigns.pipe_servers import PipeName, make_pipe_server
from rich.progress import Progress

from bench.stage import Stage
from gnomon.bench.arena import Arena
from gnomon.bench.drain import SLOWEST_RATE, START_SECONDS
from gnomon.bench.results import Findings, Measure, TaskTally, number
from gnomon.clock import SystemClock, new_id
from gnomon.model.insight.outcome_feed import FeedOutcome, OutcomeFeed
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.settings.queues import QueueConnection
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.feeds.feed_store import PostgresFeeds

TOPIC = "results"
_LOOK_SECONDS = 0.05
_SLOWEST_FEED = 100  # events a second


class _Drained(NamedTuple):
    """A drain, and the publishing of what was left of its feed."""

    rate: float  # tasks a second
    left: int  # outcomes that were not published at its end
    seconds: float  # until they were


async def run(
    stage: Stage, pipes: tuple[PipeName, ...], tasks: int, rounds: int, progress: Progress
) -> Findings:
    findings = Findings()
    bar = progress.add_task("", total=2 * rounds * len(pipes))
    for pipe in pipes:
        without: list[_Drained] = []
        with_feed: list[_Drained] = []
        async with _broker(pipe) as queues:
            for _ in range(rounds):
                for given, drained in (({}, without), (queues, with_feed)):
                    progress.update(bar, description=f"drain, {'feed to ' if given else ''}{pipe}")
                    async with stage.arena() as arena:
                        drained.append(await _drain(arena, given, tasks))
                        findings.add([], TaskTally(f"feed_{pipe}", tasks, await arena.completed()))
                    progress.advance(bar)
        findings.add(_measures(pipe, tasks, without, with_feed))
    return findings


@asynccontextmanager
async def _broker(name: PipeName) -> AsyncIterator[dict[str, QueueConnection]]:
    """A server with a place for what is published; gives the connection to it."""
    with TemporaryDirectory() as folder:
        server = make_pipe_server(name, Path(folder), ())
        try:
            await asyncio.to_thread(server.start, {})
            await _PREPARED[name](server.url())
            yield {"bench": _connection(server.url(), Path(folder))}
        finally:
            server.kill()


def _connection(url: str, folder: Path) -> QueueConnection:
    scheme, _, rest = url.partition("://")
    user, at, place = rest.rpartition("@")
    if not at:
        return QueueConnection(url=url)
    name, _, password = user.partition(":")
    (folder / "secret").write_text(password)
    return QueueConnection(url=f"{scheme}://{name}@{place}", password_file=str(folder / "secret"))


async def _stream(_url: str) -> None:
    """Streams are made by the first message."""


async def _queue(url: str) -> None:
    async with await aio_pika.connect(url) as connection, connection.channel() as channel:
        await channel.declare_queue(TOPIC, durable=True)


async def _topic(url: str) -> None:
    admin = AdminClient({"bootstrap.servers": url.removeprefix("kafka://")})
    for made in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
        await asyncio.to_thread(made.result, 30)


_PREPARED: dict[PipeName, Callable[[str], Awaitable[None]]] = {
    "redis": _stream,
    "rabbitmq": _queue,
    "kafka": _topic,
}


async def _drain(arena: Arena, queues: dict[str, QueueConnection], tasks: int) -> _Drained:
    await arena.preload(PythonTarget("noop"), tasks)
    settings = {}
    if queues:
        await _follow(arena.dsn)
        settings["targets_queues"] = msgspec.json.encode(queues).decode()
    async with arena.worker(1, None, **settings):
        await arena.settled(START_SECONDS + tasks / SLOWEST_RATE)
        left, began = await _left(arena), time.monotonic()
        async with asyncio.timeout(START_SECONDS + tasks / _SLOWEST_FEED):
            while await _left(arena):
                await asyncio.sleep(_LOOK_SECONDS)
        seconds = time.monotonic() - began
    return _Drained(await arena.steady_rate(), left, seconds)


async def _follow(dsn: str) -> None:
    feed = OutcomeFeed(
        tenant_id=DEFAULT_TENANT,
        name=TOPIC,
        url=f"queue://bench/{TOPIC}",
        task_types=None,
        outcomes=tuple(FeedOutcome),
    )
    database = Database(dsn, 1)
    await database.open()
    try:
        await PostgresFeeds(database).put(feed, new_id(SystemClock().now()))
    finally:
        await database.close()


async def _left(arena: Arena) -> int:
    left: int = await arena.connection.fetchval("SELECT count(*) FROM gnomon.feed_note")
    return left


def _measures(
    pipe: str, tasks: int, without: list[_Drained], with_feed: list[_Drained]
) -> list[Measure]:
    alone, fed = median(each.rate for each in without), median(each.rate for each in with_feed)
    added = [1e6 / f.rate - 1e6 / w.rate for f, w in zip(with_feed, without, strict=True)]
    published = [each.left / each.seconds for each in with_feed if each.left]
    note = f"{tasks} tasks; " + ", ".join(number(each.rate) for each in with_feed)
    left = ", ".join(number(each.left) for each in with_feed)
    return [
        Measure(f"feed_{pipe}_without", f"drain without a feed ({pipe})", alone, "/s"),
        Measure(f"feed_{pipe}_with", f"drain with a feed to {pipe}", fed, "/s", note=note),
        Measure(f"feed_{pipe}_added", "added to each task", median(added), "µs"),
        Measure(
            f"feed_{pipe}_rate", f"published to {pipe} afterwards",
            median(published) if published else None, "/s", note=f"of {left} that were left",
        ),
    ]  # fmt: skip
