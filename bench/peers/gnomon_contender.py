"""Gnomon, behind the same port as its peers, with default settings: one `gnomon scheduler`, and one
`gnomon api` while tasks are submitted."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from bench.peers.port import Offer, Offered, Producer, Reading, Settings, Worker
from bench.peers.queue_table import QueueTable, Statements
from bench.stage import Stage
from gnomon import __version__
from gnomon.bench.arena import Arena
from gnomon.bench.processes import Process, calls_file
from gnomon.bench.submission import submit

_STATEMENTS = Statements(
    "SELECT id FROM gnomon.task ORDER BY tenant_id DESC, id DESC LIMIT 1",
    "SELECT true FROM gnomon.task WHERE tenant_id = 'default' AND id = $1",
    "SELECT count(*) FROM gnomon.task",
)


class GnomonProducer:
    """Submits over HTTP."""

    def __init__(self, api: Process) -> None:
        self._api = api

    async def offer(self, offer: Offer) -> Offered:
        loaded = await submit(self._api, function="stamp", **msgspec.to_builtins(offer))
        return Offered(
            accepted=loaded.accepted,
            began=loaded.began,
            ended=loaded.ended,
            due_at=loaded.due_at,
            moments=loaded.moments if offer.pause else [],
        )


class GnomonPlace:
    """A migrated database."""

    def __init__(self, arena: Arena, server_pid: int) -> None:
        self._arena = arena
        self._table = QueueTable(arena.connection, server_pid, _STATEMENTS)

    @property
    def calls(self) -> Path:
        return calls_file(self._arena.folder)

    @asynccontextmanager
    async def producing(self) -> AsyncIterator[Producer]:
        async with self._arena.api() as api:
            yield GnomonProducer(api)

    @asynccontextmanager
    async def working(self, *, until_empty: bool) -> AsyncIterator[Worker]:  # noqa: ARG002
        async with self._arena.node() as node:
            yield node

    async def unfinished(self) -> int:
        return await self._table.unfinished()

    async def settled(self, timeout: float) -> float:
        return await self._table.settled(timeout)

    async def reading(self, *, alone: bool = False) -> Reading:
        return await self._table.reading(alone=alone)


class GnomonContender:
    """This tree."""

    name = "gnomon"
    title = "Gnomon"
    version = __version__
    choices: Sequence[Settings] = ({},)
    single_connections = 64
    bulk_connections = 4
    most: int | None = None
    remark = "keeps history; enqueues over HTTP, one API process more while it does"

    @asynccontextmanager
    async def place(self, stage: Stage, settings: Settings) -> AsyncIterator[GnomonPlace]:  # noqa: ARG002
        async with stage.arena() as arena:
            yield GnomonPlace(arena, stage.server.pid)
