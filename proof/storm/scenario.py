"""A storm of dead letters over a real `gnomon up`, a real mail server, and a webhook that is down
for half of the time."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from tests.commands import running
from tests.integration.notifying import Mailbox, mail_server
from tests.waiting import eventually

TYPE = "fail"
_CODE = """
from gnomon import Gnomon

app = Gnomon()


@app.task
async def fail() -> None:
    raise ValueError("the bank has closed")
"""
_BATCH = 500
MOST_COUNTED = 10_000
_DOWN_SECONDS = 7.0  # no divisor of what digests take: their calls fall into it by turns
_LOOK_SECONDS = 0.5
_PATIENCE = 300.0
_SUBSCRIPTIONS = "/api/v1/subscriptions"
_TOLD = re.compile(
    rf"(new|ongoing|resolved) tasks\.dead_lettered of {TYPE}(?:, (\d+) times)?(?:, (\d+) since)?"
)


@dataclass(frozen=True)
class Size:
    """How large it is. Seconds, where it says nothing else."""

    dead: int = 10_000  # tasks that fail for good
    seconds: float = 50.0  # over which they are submitted
    digest: float = 10.0
    resolve: float = 40.0


@dataclass(frozen=True)
class Told:
    """A notification as it was received."""

    id: str
    state: str
    count: int  # since the one before
    total: int


@dataclass
class Seen:
    """What came of it."""

    dead: int = 0
    stormed: float = 0.0  # seconds from the first submission to the last dead letter
    refused: int = 0  # calls of the webhook while it was down
    webhook: list[Told] = field(default_factory=list)
    mail: list[Told] = field(default_factory=list)

    def readable(self) -> str:
        ways = (("webhook", self.webhook), ("e-mail", self.mail))
        lines = [
            (
                f"{self.dead} dead letters within {self.stormed:.0f} s; "
                f"the webhook was down for {self.refused} calls"
            )
        ]
        for name, told in ways:
            steps = ", ".join(f"{each.state} {each.count} of {each.total}" for each in told)
            lines.append(f"{name}: {len(told)} notifications: {steps}")
        return "\n".join(lines)


class Webhook:
    """Answers 503 for a while, and 204 for as long."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/hook", self._receive)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
        try:
            yield
        finally:
            await runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        if time.monotonic() // _DOWN_SECONDS % 2:
            self._seen.refused += 1
            return web.Response(status=503)
        event = await request.json()
        for group in event["data"]["groups"]:
            self._seen.webhook.append(
                Told(request.headers["webhook-id"], group["state"], group["count"], group["total"])
            )
        return web.Response(status=204)


class Storm:
    """The API of a running installation, and what is done to it."""

    def __init__(self, client: aiohttp.ClientSession, size: Size) -> None:
        self._client = client
        self._size = size

    async def subscribe(self, name: str, channel: dict[str, str]) -> None:
        rules = {"digest_seconds": self._size.digest, "resolve_seconds": self._size.resolve}
        body = {"channel": channel, "kinds": ["tasks.dead_lettered"], **rules}
        await self._asked("PUT", f"{_SUBSCRIPTIONS}/{name}", body)

    async def confirm(self, mailbox: Mailbox) -> None:
        """Agrees, as the owner of the address would."""

        async def asked() -> bool:
            return bool(mailbox.texts)

        await eventually(asked, _PATIENCE)
        (token,) = re.findall(r"notify confirm (\S+)", mailbox.texts[0])
        await self._asked("POST", f"{_SUBSCRIPTIONS}/confirm", {"token": token})

    async def rage(self) -> float:
        """Submits all tasks, evenly; gives how many seconds passed until the last was a dead
        letter."""
        size, began = self._size, time.monotonic()
        task = {"task_type": TYPE, "retry_policy": {"max_retries": 0}}
        done = 0
        while done < size.dead:
            more = min(_BATCH, size.dead - done)
            await self._asked("POST", "/api/v1/tasks/batch", {"tasks": [task] * more})
            done += more
            due = began + size.seconds * done / size.dead
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        await eventually(self._all_dead, _PATIENCE)
        return time.monotonic() - began

    async def _all_dead(self) -> bool:
        await asyncio.sleep(_LOOK_SECONDS)
        statuses = (await self._asked("GET", "/api/v1/tasks/stats"))["statuses"]
        live = ("SCHEDULED", "READY", "RUNNING", "FAILED")
        return not any(statuses.get(each, {"count": 0})["count"] for each in live)

    async def dead(self) -> int:
        """How many dead letters there are; counts end at 10 000."""
        statuses = (await self._asked("GET", "/api/v1/tasks/stats"))["statuses"]
        return int(statuses["DEAD_LETTERED"]["count"])

    async def _asked(self, method: str, path: str, body: Any = None) -> Any:
        async with self._client.request(method, path, json=body) as answer:
            if answer.status >= 400:
                raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
            return await answer.json() if answer.content_length != 0 else None


async def run(folder: Path, size: Size) -> Seen:
    """A world of its own, and what is seen in it."""
    (folder / "storm_handlers.py").write_text(_CODE)
    seen = Seen()
    webhook = Webhook(seen)
    async with mail_server() as mailbox, webhook.open(), _installed(folder, mailbox) as client:
        storm = Storm(client, size)
        await storm.subscribe("hook", {"type": "webhook", "url": webhook.url})
        await storm.subscribe("mail", {"type": "email", "address": "ops@example.com"})
        await storm.confirm(mailbox)
        seen.stormed = await storm.rage()

        async def all_told() -> bool:
            seen.mail = _mails(mailbox)
            return all(_is_whole(told, size) for told in (seen.webhook, seen.mail))

        with suppress(AssertionError):  # the judge says what is missing
            await eventually(all_told, size.resolve + size.digest + _PATIENCE)
        seen.dead = await storm.dead()
    return seen


@asynccontextmanager
async def _installed(folder: Path, mailbox: Mailbox) -> AsyncIterator[aiohttp.ClientSession]:
    """`gnomon up`, with all that belongs to it."""
    environment = {
        "GNOMON_NODE_APP": "storm_handlers:app",
        "PYTHONPATH": str(folder),
        "GNOMON_NOTIFY_SMTP_HOST": "127.0.0.1",
        "GNOMON_NOTIFY_SMTP_PORT": str(mailbox.port),
        "GNOMON_NOTIFY_SMTP_TLS": "none",
        "GNOMON_NOTIFY_SENDER": "gnomon@example.com",
        "GNOMON_TARGETS_ALLOW": "127.0.0.1",
    }
    with running("up", "--port", "0", cwd=folder, env=environment) as command:

        async def announced() -> re.Match[str] | None:
            if command.process.poll() is not None:
                raise RuntimeError(f"gnomon up has ended: {command.errors}")
            return re.search(r"API\s+(http://\S+)/api/v1", command.errors)

        found = await eventually(announced, _PATIENCE)
        async with aiohttp.ClientSession(found[1]) as client:
            yield client
        command.process.terminate()
        await asyncio.to_thread(command.process.wait, _PATIENCE)


def _is_whole(told: list[Told], size: Size) -> bool:
    """Whether all were told, and the end. A notification that is retried may come after it."""
    states = {each.state for each in told}
    return "resolved" in states and sum(each.count for each in told) >= size.dead


def _mails(mailbox: Mailbox) -> list[Told]:
    told = []
    for message, text in zip(mailbox.messages, mailbox.texts, strict=True):
        for state, count, total in _TOLD.findall(text):
            number = int(count or (0 if state == "resolved" else 1))
            told.append(Told(str(message["message-id"]), state, number, int(total or number)))
    return told


def judge(seen: Seen, size: Size) -> list[str]:
    """What does not hold."""
    wrong = []
    if seen.dead != min(size.dead, MOST_COUNTED):
        wrong.append(f"{seen.dead} of {size.dead} tasks are dead letters")
    if not seen.refused:
        wrong.append("the webhook was never down when it was called")
    # The first, a digest an interval, and the end; a digest may begin before and end after.
    most = 3 + int((seen.stormed + size.resolve) / size.digest)
    for name, told in (("webhook", seen.webhook), ("e-mail", seen.mail)):
        states = [each.state for each in told]
        if states.count("new") != 1 or states.count("resolved") != 1:
            wrong.append(f"{name}: not one beginning and one end: {states}")
        if sum(each.count for each in told) != size.dead:
            wrong.append(f"{name}: it counts {sum(t.count for t in told)} of {size.dead}")
        if any(each.total != size.dead for each in told if each.state == "resolved"):
            wrong.append(f"{name}: the end does not tell of all: {told}")
        if len(told) > most:
            wrong.append(f"{name}: {len(told)} notifications; {most} are the most")
        twice = [each for each, times in Counter(t.id for t in told).items() if times > 1]
        if twice:
            wrong.append(f"{name}: {len(twice)} notifications were accepted twice")
    return wrong
