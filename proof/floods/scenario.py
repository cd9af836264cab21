"""Normal work of one address beside the flood of another: how long its answers take."""

import asyncio
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp
import msgspec
from proof.fairness.world import percentile
from tests.integration.identity import bearer, make_key
from tests.system.crowd import ANSWER_SECONDS, SUBMISSION
from tests.system.harness import Process

from gnomon.store.postgres.database import Database

FLOOD, NORMAL = "127.0.0.2", "127.0.0.3"
TASKS = "/api/v1/tasks"
CALM = "calm"
# What each run floods with; the first is what the others are held against.
RUNS = {CALM: None, "wrong keys": "wrong-keys", "idle": "silent", "asking": "asking"}
_ROOT = Path(__file__).parents[2]


class Size(NamedTuple):
    """Of one run."""

    seconds: float = 10.0
    rate: float = 100.0  # submissions a second of normal work
    connections: int = 1_500  # of the flood
    address_connections: int = 1_000


class Result(NamedTuple):
    """What both sides saw in one run. Times are in milliseconds."""

    run: str
    submitted: int
    accepted: int
    p50: float
    p99: float
    slowest: float
    flood: dict[str, int]  # answers by status, connections opened and closed
    closed: int  # connections beyond what the address may have, as the process counts them
    refused: int  # requests beyond a limit, as the process counts them


async def run(name: str, dsn: str, folder: Path, size: Size) -> Result:
    """Serve, flood, and work meanwhile."""
    database = Database(dsn, 2)
    await database.open()
    try:
        _, key = await make_key(database)
    finally:
        await database.close()
    api = Process(
        dsn,
        folder,
        f"api-{name.replace(' ', '-')}",
        "api",
        "--port",
        "0",
        auth_enabled="true",
        # All of these addresses are loopback, which is not limited otherwise.
        api_unlimited_addresses="127.0.0.1/32",
        api_address_connections=size.address_connections,
    )
    api.start()
    try:
        return await _beside(name, await api.started(), key, size)
    finally:
        api.close()


async def _beside(name: str, url: str, key: str, size: Size) -> Result:
    connector = aiohttp.TCPConnector(local_addr=(NORMAL, 0), limit=0)
    headers = bearer(key) | {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(url, connector=connector, headers=headers) as session:
        flooding = await _flooder(RUNS[name], url, size)
        try:
            work = await _work(session, size)
            flood: dict[str, int] = {}
            if flooding is not None:
                output, _ = await flooding.communicate(b"")  # which ends its input
                flood = msgspec.json.decode(output, type=dict[str, int])
            counted = await _counted(session)
        finally:
            if flooding is not None and flooding.returncode is None:
                flooding.kill()
                await flooding.wait()
    times = sorted(seconds * 1000 for seconds, _ in work)
    return Result(
        name,
        len(work),
        sum(status == 202 for _, status in work),
        percentile(times, 0.5),
        percentile(times, 0.99),
        times[-1],
        flood,
        *counted,
    )


async def _flooder(kind: str | None, url: str, size: Size) -> "asyncio.subprocess.Process | None":
    if kind is None:
        return None
    longest = size.seconds + 2 * ANSWER_SECONDS
    given = (kind, url, FLOOD, str(size.connections), str(longest))
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "proof.floods.flooder", *given,
        cwd=_ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert started.stdout is not None
    assert (await started.stdout.readline()).strip() == b"begun"
    return started


async def _work(session: aiohttp.ClientSession, size: Size) -> list[tuple[float, int]]:
    """Submit at that rate, whether the answers come or not. Times count from when each was due."""
    done: list[tuple[float, int]] = []

    async def submit(due: float) -> None:
        status = 0
        with suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(ANSWER_SECONDS), session.post(TASKS, data=SUBMISSION) as got:
                status = got.status
        done.append((time.monotonic() - due, status))

    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(int(size.seconds * size.rate)):
            due = started + number / size.rate
            await asyncio.sleep(max(due - time.monotonic(), 0.0))
            group.create_task(submit(due))
    return done


async def _counted(session: aiohttp.ClientSession) -> tuple[int, int]:
    """Connections closed beyond the limit of an address, and requests refused."""
    async with session.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    closed = _sum(lines, 'gnomon_connections_closed_total{reason="address"}')
    return closed, _sum(lines, "gnomon_requests_refused_total")


def _sum(lines: list[str], name: str) -> int:
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name)))


def faults(result: Result) -> list[str]:
    """What must not be, however slow the machine is."""
    found = []
    if result.accepted != result.submitted:
        found.append(f"{result.submitted - result.accepted} submissions were not accepted")
    let_in = sum(n for status, n in result.flood.items() if status.startswith("2"))
    if let_in:
        found.append(f"{let_in} requests of the flood were answered")
    if result.run in ("wrong keys", "asking") and not result.flood.get("429"):
        found.append("no request of the flood was refused for its rate")
    if result.run in ("idle", "asking") and not (result.closed or result.flood.get("closed")):
        found.append("no connection of the flood was closed")
    return found


def table(results: list[Result]) -> str:
    lines = ["flood       normal work     p50 ms   p99 ms   max ms   401    429   closed"]
    for each in results:
        flood = each.flood
        lines.append(
            f"{'none' if each.run == CALM else each.run:<11} "
            f"{each.accepted:>5} of {each.submitted:<5} "
            f"{each.p50:8.1f} {each.p99:8.1f} {each.slowest:8.1f} "
            f"{flood.get('401', 0):>5} {flood.get('429', 0):>6} {each.closed:>8}"
        )
    return "\n".join(lines)
