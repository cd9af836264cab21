"""Secrets change under load, on two real nodes, with PostgreSQL gone for a moment in between: the
official library accepts every call, and what was revoked signs nothing more."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from tests.integration.webhook_calls import rotate
from tests.system.harness import (
    Process,
    Submitter,
    eventually,
    start_server,
    stop_server,
    submitting,
)

from gnomon.model.errors import StoreUnavailable
from gnomon.store.embedded import EmbeddedServer
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.webhook_secrets import PostgresSecrets

pytestmark = pytest.mark.system

NODES = ("first", "second")
IN_A_ROW = 100  # calls: all of them from one of two busy nodes would be a wonder
BATCH = 20
WAITING = 200  # tasks at the most, that have been stored and not called
PROMISED = 1.0  # seconds until no node signs with what was revoked
# The machine that tests run on may be busy with others; then it is noticed late by everybody.
BUSY = 10.0


class Verifier:
    """A receiver as the page for receivers wants it, with what it has seen."""

    def __init__(self) -> None:
        self.secrets: list[str] = []
        self.rejected: list[dict[str, str]] = []
        self.signatures: list[tuple[float, int]] = []  # when, and how many
        self.url = ""

    async def receive(self, request: web.BaseRequest) -> web.Response:
        body, headers = await request.read(), dict(request.headers)
        self.signatures.append((time.monotonic(), headers["webhook-signature"].count(" ") + 1))
        for secret in self.secrets:
            with suppress(WebhookVerificationError):
                Webhook(secret).verify(body, headers)
                return web.Response()
        self.rejected.append(headers)
        return web.Response(status=401)

    async def seen(self, signatures: int) -> None:
        """Wait until the latest calls all have so many signatures."""
        before = len(self.signatures)

        async def came() -> bool:
            latest = self.signatures[before:][-IN_A_ROW:]
            return len(latest) == IN_A_ROW and {count for _, count in latest} == {signatures}

        await eventually(came)


@asynccontextmanager
async def verifying() -> AsyncIterator[Verifier]:
    verifier = Verifier()
    runner = web.ServerRunner(web.Server(verifier.receive, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    verifier.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    try:
        yield verifier
    finally:
        await runner.cleanup()


async def feed(submitter: Submitter, verifier: Verifier) -> None:
    """Keep the nodes busy, for as long as it takes."""
    stored = 0
    while True:
        if stored - len(verifier.signatures) < WAITING:
            with suppress(StoreUnavailable):
                stored += len(await submitter.submit(verifier.url, BATCH))
        await asyncio.sleep(0.01)


async def again(act: Callable[[], Awaitable[object]]) -> None:
    """Do it as soon as PostgreSQL lets us."""

    async def done() -> bool:
        with suppress(StoreUnavailable):
            await act()
            return True
        return False

    await eventually(done)


async def workers(database: Database) -> bool:
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT DISTINCT worker FROM gnomon.task_archive")
    return {row["worker"] for row in rows} == set(NODES)


@pytest.mark.timeout(300)
async def test_secrets_change_under_load_and_nothing_is_rejected(
    own_server: EmbeddedServer, processes: list[Process], tmp_path: Path
) -> None:
    database = Database(own_server.dsn, 2)
    await database.open()
    secrets = PostgresSecrets(database)
    processes += [
        Process(own_server.dsn, tmp_path, name, "scheduler", node_slots=50) for name in NODES
    ]
    for node in processes:
        node.start()
    for node in processes:
        await node.started()
    (old,) = await secrets.list("default")
    async with (
        verifying() as verifier,
        submitting(own_server.dsn) as submitter,
        asyncio.TaskGroup() as group,
    ):
        verifier.secrets = [str((await secrets.show("default", old.id)).value)]
        feeding = group.create_task(feed(submitter, verifier))
        await verifier.seen(1)
        await eventually(lambda: workers(database))
        new = await rotate(database, old.id, 3600.0)
        await verifier.seen(2)
        verifier.secrets = [str(new.value)]
        await verifier.seen(2)
        stop_server(own_server, signal.SIGQUIT)
        start_server(own_server)
        await verifier.seen(2)
        await again(lambda: secrets.revoke("default", old.id))
        revoked = time.monotonic()
        await verifier.seen(1)
        feeding.cancel()
    await database.close()
    assert verifier.rejected == []
    last = max(at for at, count in verifier.signatures if count == 2) - revoked
    print(f"{len(verifier.signatures)} calls; the last with the revoked secret after {last:.2f} s")
    assert last < PROMISED + BUSY
    first = min(at for at, count in verifier.signatures if at > revoked and count == 1)
    assert first < revoked + PROMISED + BUSY
    assert all(str(new.value) not in node.text() for node in processes)
