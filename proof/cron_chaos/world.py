"""Cron jobs for the fault tests: made through the store, called at a receiver of its own."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
from proof.cron_chaos.checker import Call, Job
from tests.system.harness import Truth

from gnomon.clock import SystemClock
from gnomon.cron.job import Definition, checked
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.hints import Announcer
from gnomon.store.postgres.tasks.task_store import PostgresTasks

EVERY_SECOND = "* * * * * *"
PAYLOAD = {"job": "{{job_name}}", "fire_ms": "{{fire_time | unix_ms}}", "run": "{{run_id}}"}
_ROOT = Path(__file__).parents[2]
_JOBS_TOGETHER = 50


class CronReceiver:
    """The receiver's process, and the book that it keeps."""

    def __init__(self, folder: Path) -> None:
        self._book = folder / "calls.jsonl"
        self._read = 0
        self._calls: list[Call] = []
        self._process: subprocess.Popen[str] | None = None
        self.root = ""

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "proof.cron_chaos.receiver", str(self._book)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.root = self._process.stdout.readline().strip()
        assert self.root, "the receiver did not start"

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()

    def url(self, **query: object) -> str:
        return f"{self.root}?{urlencode(query)}" if query else self.root

    async def open(self, gate: str) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.root}open?{urlencode({'gate': gate})}") as answer,
        ):
            assert answer.status == 200

    def calls(self) -> list[Call]:
        """All that was noted until now."""
        if self._book.exists():
            with self._book.open("rb") as book:
                book.seek(self._read)
                text = book.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read += len(whole)
            rows = (msgspec.json.decode(line) for line in whole.splitlines())
            self._calls += [Call(**row) for row in rows]
        return self._calls

    def began(self, job: str | None = None) -> list[Call]:
        return [c for c in self.calls() if c.what == "began" and job in (None, c.job)]


def definition(name: str, url: str, **values: Any) -> Definition:
    """A job that fires every second, unless told otherwise."""
    fields: dict[str, Any] = {
        "name": name,
        "task_type": "test",
        "target": HttpTarget(url),
        "payload_template": msgspec.Raw(msgspec.json.encode(PAYLOAD)),
    }
    if "interval_seconds" not in values:
        fields["cron_expression"] = EVERY_SECOND
    return checked(Definition(**(fields | values)))


@asynccontextmanager
async def storing(dsn: str) -> AsyncIterator[PostgresTasks]:
    """The store as the API has it: a commit, then the hints."""
    database = Database(dsn, 2)
    await database.open()
    announcer = Announcer(dsn, SystemClock(), 15.0)
    try:
        async with asyncio.TaskGroup() as group:
            announcing = group.create_task(announcer.run())
            yield PostgresTasks(database, announcer, 3600.0)
            announcing.cancel()
    finally:
        await database.close()


async def create(tasks: PostgresTasks, definitions: Sequence[Definition]) -> list[Job]:
    """Create jobs; says between which moments each of them came to be, and which of them promise
    a run for each fire."""
    jobs: list[Job] = []
    for first in range(0, len(definitions), _JOBS_TOGETHER):
        together = definitions[first : first + _JOBS_TOGETHER]
        after = time.time()
        async with tasks.change(DEFAULT_TENANT) as change:
            for each in together:
                await change.cron.create(each)
        before = time.time()
        jobs += [Job(d.name, d.missed_run_policy == "backfill", after, before) for d in together]
    return jobs


async def unsettled(truth: Truth, until: float) -> int:
    """How many jobs and runs have something to do yet about fires up to a moment."""
    behind = "SELECT count(*) FROM gnomon.cron_job WHERE next_fire_at <= to_timestamp($1)"
    under_way = "SELECT count(*) FROM gnomon.task WHERE state < 4 AND fire_at <= to_timestamp($1)"
    return int(await truth.value(behind, until) + await truth.value(under_way, until))


def body(name: str, url: str, **values: Any) -> dict[str, Any]:
    """The same as the HTTP API takes it."""
    return {
        "name": name,
        "task_type": "test",
        "callback_url": url,
        "cron_expression": EVERY_SECOND,
        "payload_template": PAYLOAD,
    } | values
