"""Runs that last longer than the time between fires, on two nodes, seen by a third party."""

import asyncio
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from proof.cron_chaos.checker import Span, overlapping, spans
from proof.cron_chaos.world import CronReceiver, body, create, definition, storing
from tests.system.conftest import NewProcess
from tests.system.harness import Process, Truth, eventually

from gnomon.cron.job import Definition, Missed, Overlap, Skipped
from gnomon.model.tasks.retry import Backoff, RetryPolicy

pytestmark = pytest.mark.system

EACH = 4  # jobs of a policy
RUNS = 4  # that each of them has to make
LONG = 1.3  # seconds
AGAIN = RetryPolicy(backoff=Backoff.FIXED, base_seconds=1.2, jitter=False)
GATED = (Overlap.SKIP, Overlap.QUEUE, Overlap.CANCEL_RUNNING)


def slow_jobs(receiver: CronReceiver) -> list[Definition]:
    """Of every policy, jobs whose runs are too long, and jobs whose runs fail and wait."""
    long, failing = receiver.url(seconds=LONG), receiver.url(fail=1)
    return [
        definition(f"{policy.value}-{kind}-{n}", url, overlap_policy=policy, retry_policy=AGAIN)
        for policy in Overlap
        for n in range(EACH)
        for kind, url in (("long", long), ("failing", failing))
        if kind == "long" or policy in GATED
    ]


@pytest.fixture
async def nodes(new_node: NewProcess) -> list[Process]:
    started = [new_node(f"node-{n}") for n in range(2)]
    for node in started:
        await node.started()
    return started


@pytest.fixture
async def client(api_url: str) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(api_url) as session:
        yield session


def of(policy: Overlap, found: list[Span]) -> list[Span]:
    return [span for span in found if span.job.startswith(policy.value)]


async def test_runs_do_not_overlap_though_a_node_dies(
    nodes: list[Process], cron_receiver: CronReceiver, database_dsn: str, truth: Truth
) -> None:
    jobs = slow_jobs(cron_receiver)
    async with storing(database_dsn) as tasks:
        await create(tasks, jobs)

    def each_has(runs: int) -> bool:
        found = spans(cron_receiver.calls())
        counts = [sum(span.job == job.name for span in found) for job in jobs]
        return min(counts) >= runs

    async def half() -> bool:
        return each_has(RUNS // 2)

    async def all_of_them() -> bool:
        return each_has(RUNS)

    await eventually(half)
    nodes[0].kill()
    assert nodes[0].process.returncode == -signal.SIGKILL
    nodes[0].start()
    await eventually(all_of_them)
    found = spans(cron_receiver.calls())
    for policy in GATED:
        assert overlapping(of(policy, found)) == []
    assert overlapping(of(Overlap.ALLOW, found)), "the observer would have seen nothing"
    queued = [c for c in cron_receiver.began() if c.job.startswith(Overlap.QUEUE.value)]
    for job in {call.job for call in queued}:
        fires = [call.fire for call in queued if call.job == job and call.attempt == 1]
        assert fires == sorted(fires)
    skipped = "SELECT DISTINCT skipped FROM gnomon.occurrence WHERE skipped IS NOT NULL"
    why = {row["skipped"] for row in await truth.fetch(skipped)}
    assert why >= {Skipped.OVERLAP}


async def active_node(truth: Truth, job: str) -> str | None:
    """The name of the node that runs the job."""
    rows = await truth.fetch(
        "SELECT n.name FROM gnomon.task AS t JOIN gnomon.node AS n ON n.incarnation = t.node "
        "WHERE t.name = $1 AND t.state = 1",
        job,
    )
    return rows[0]["name"] if rows else None


async def test_a_run_is_active_until_it_is_settled(
    nodes: list[Process],
    client: aiohttp.ClientSession,
    cron_receiver: CronReceiver,
    truth: Truth,
    tmp_path: Path,
) -> None:
    """Also when its node has died; whoever asks meanwhile is refused, or queued."""
    for policy in (Overlap.SKIP, Overlap.QUEUE):
        url = cron_receiver.url(gate="shut")
        # Runs only when it is asked to: its own fires are far.
        asked = body(policy.value, url, cron_expression="0 0 1 1 *", overlap_policy=policy.value)
        async with client.post("/api/v1/cron-jobs", json=asked) as answer:
            assert answer.status == 201, await answer.text()
        assert await trigger(client, policy) == 202

    async def both_run() -> bool:
        return len(cron_receiver.began()) == 2

    await eventually(both_run)
    assert await trigger(client, Overlap.SKIP) == 409
    assert await trigger(client, Overlap.QUEUE) == 202

    victim = await active_node(truth, Overlap.SKIP.value)
    (dying,) = [node for node in nodes if node.name == victim]
    dying.kill()
    assert await trigger(client, Overlap.SKIP) == 409
    dying.start()

    async def tried_again() -> bool:
        return len(cron_receiver.began(Overlap.SKIP.value)) == 2

    await eventually(tried_again)
    assert len({call.run for call in cron_receiver.began(Overlap.SKIP.value)}) == 1
    assert await trigger(client, Overlap.SKIP) == 409
    assert len({call.run for call in cron_receiver.began(Overlap.QUEUE.value)}) == 1
    await cron_receiver.open("shut")

    async def over() -> bool:
        return bool(await truth.value("SELECT count(*) = 3 FROM gnomon.task_archive"))

    await eventually(over)
    found = spans(cron_receiver.calls())
    assert len(of(Overlap.QUEUE, found)) == 2
    assert len(of(Overlap.SKIP, found)) == 1
    assert overlapping(found) == []
    assert await trigger(client, Overlap.SKIP) == 202


async def trigger(client: aiohttp.ClientSession, job: str) -> int:
    async with client.post(f"/api/v1/cron-jobs/{job}/trigger", json={}) as answer:
        await answer.read()
        return answer.status


async def test_a_hanging_run_is_cancelled_when_the_next_one_comes(
    nodes: list[Process], cron_receiver: CronReceiver, database_dsn: str, truth: Truth
) -> None:
    hanging = definition(
        "hanging",
        cron_receiver.url(gate="never"),
        cron_expression="*/2 * * * * *",
        overlap_policy=Overlap.CANCEL_RUNNING,
        missed_run_policy=Missed.SKIP,
    )
    async with storing(database_dsn) as tasks:
        await create(tasks, [hanging])

    async def replaced() -> bool:
        return len(spans(cron_receiver.calls())) >= 3

    await eventually(replaced)
    found = spans(cron_receiver.calls())
    assert overlapping(found) == []
    ended = await truth.fetch("SELECT state, last_error FROM gnomon.task_archive")
    assert {row["state"] for row in ended} == {11}


async def test_many_who_trigger_at_once_start_one_after_the_other(
    nodes: list[Process], client: aiohttp.ClientSession, cron_receiver: CronReceiver, truth: Truth
) -> None:
    for policy in GATED:
        asked = body(
            policy.value,
            cron_receiver.url(seconds=0.2),
            cron_expression="0 0 1 1 *",
            overlap_policy=policy.value,
        )
        async with client.post("/api/v1/cron-jobs", json=asked) as answer:
            assert answer.status == 201, await answer.text()
    asking = [(policy, trigger(client, policy)) for _ in range(8) for policy in GATED]
    answers = await asyncio.gather(*(one for _, one in asking))
    said: defaultdict[Overlap, Counter[int]] = defaultdict(Counter)
    for (policy, _), status in zip(asking, answers, strict=True):
        said[policy][status] += 1

    async def over() -> bool:
        left = "SELECT count(*) = 0 FROM gnomon.task WHERE due_at <= gnomon.now()"
        return bool(await truth.value(left))

    await eventually(over)
    found = spans(cron_receiver.calls())
    assert overlapping(found) == []
    assert len(of(Overlap.QUEUE, found)) == said[Overlap.QUEUE][202] == 8
    assert of(Overlap.SKIP, found)
    assert set(said[Overlap.SKIP]) <= {202, 409}
    assert said[Overlap.CANCEL_RUNNING] == {202: 8}
    assert of(Overlap.CANCEL_RUNNING, found)
    print(said, Counter(span.job for span in found))
