"""A gateway without a database: real HTTP, tasks in memory. For faults that a real one makes only
by chance; `test_remote_gateway.py` has the real one."""

import asyncio
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from aiohttp import web

KEY = "gn_work"


class PlayedTask:
    """A task, and what became of it."""

    def __init__(self, task_type: str, payload: object, **delivery: object) -> None:
        self.id = uuid.uuid4()
        self.task_type = task_type
        self.payload = payload
        self.extra = delivery
        self.fence = 0
        self.session: str | None = None
        self.delivered_at = 0.0
        self.begun = False
        self.cancelled = False
        self.report: dict[str, Any] | None = None
        self.progress: dict[str, Any] | None = None

    @property
    def done(self) -> bool:
        return self.report is not None

    @property
    def outcome(self) -> str | None:
        return None if self.report is None else str(self.report["outcome"])


class PlayedSession(NamedTuple):
    request: dict[str, Any]
    secret: str
    polls: list[dict[str, Any]]
    beats: list[float]


class PlayedGateway:
    """Runs in a thread of its own. Attributes are its faults."""

    def __init__(self, lease_seconds: float = 5.0) -> None:
        self.lease_seconds = lease_seconds
        self.poll_seconds = 20.0
        self.roles = {"work"}
        self.sessions: dict[str, PlayedSession] = {}
        self.dead: set[str] = set()
        self.left: list[str] = []
        self.refused = 0  # reports of stale fences
        self.lose_answers = 0  # polls that are done, and cut off before they are answered
        self.answer_instead: Callable[[], web.Response] | None = None
        self.late = (
            asyncio.Event()
        )  # set: polls of sessions that ended while they waited are refused
        self.late.set()
        self.withhold = False  # what asks whether it may begin is not answered
        self.command: str | None = None
        self.epoch = "1"
        self.puts: list[str] = []
        self.tasks: dict[UUID, PlayedTask] = {}
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._stop = asyncio.Event()
        self._up = threading.Event()
        self._port = 0
        self._runner: web.ServerRunner | None = None
        self._thread = threading.Thread(target=self._serve_all)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> "PlayedGateway":
        self._thread.start()
        assert self._up.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    # From the test

    def submit(self, task_type: str, payload: object = None, **delivery: object) -> PlayedTask:
        task = PlayedTask(task_type, payload, **delivery)
        self._on_loop(lambda: self.tasks.__setitem__(task.id, task))
        return task

    def cancel(self, task: PlayedTask) -> None:
        self._on_loop(lambda: setattr(task, "cancelled", True))

    def say(self, command: str) -> None:
        self._on_loop(lambda: setattr(self, "command", command))

    def kill(self, session: str) -> None:
        """Declare it dead; its tasks wait for another."""

        def declare() -> None:
            self.dead.add(session)
            for task in self.tasks.values():
                if task.session == session and not task.done:
                    task.session, task.begun = None, False
                    task.fence += 1

        self._on_loop(declare)

    def refuse_late(self, *, late: bool) -> None:
        """Have polls that wait when their session ends refused only once this is over."""
        self._on_loop(self.late.clear if late else self.late.set)

    def stop_listening(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)

    def listen_again(self) -> None:
        """As another process: it knows the rows, and an epoch of its own."""
        self.epoch += "1"
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    @property
    def only(self) -> PlayedSession:
        """The session that is not dead."""
        (found,) = [s for key, s in self.sessions.items() if key not in self.dead]
        return found

    def _on_loop(self, change: Callable[[], object]) -> None:
        done = threading.Event()

        def make() -> None:
            change()
            self._changed.set()
            done.set()

        self._loop.call_soon_threadsafe(make)
        assert done.wait(10)

    # Its side

    def _serve_all(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        await self._listen()
        self._up.set()
        await self._stop.wait()
        await self._close()

    async def _listen(self) -> None:
        self._runner = web.ServerRunner(
            web.Server(self._serve, access_log=None), shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]

    async def _close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        said = msgspec.json.decode(body) if body else {}
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return _problem(401, "this key is not known")
        parts = request.path.removeprefix("/api/v1/").split("/")
        if parts[0] != "worker-sessions":
            return self._administer(request.method, request.path)
        if "work" not in self.roles:
            return _problem(403, "the key lacks the role work")
        if len(parts) == 1:
            return self._open(said)
        session = self.sessions.get(parts[1])
        if session is not None and parts[2:] == ["poll"] and self.answer_instead is not None:
            session.polls.append(said)
            return self.answer_instead()
        if session is None or parts[1] in self.dead:
            return _problem(410, "the session was declared dead")
        if request.headers.get("gnomon-session-secret") != session.secret:
            return _problem(403, "the session's secret is wrong")
        if request.method == "DELETE":
            self.left.append(parts[1])
            self.dead.add(parts[1])
            return web.Response(status=204)
        if parts[2] == "beat":
            session.beats.append(time.monotonic())
            return _json(200, {"lease_seconds": self.lease_seconds})
        return await self._poll(request, parts[1], session, said)

    def _administer(self, method: str, path: str) -> web.Response:
        """Task types and cron jobs: there are none, and they may be put."""
        if "admin" not in self.roles:
            return _problem(403, "the key lacks the role admin")
        if method == "GET" and path == "/api/v1/cron-jobs":
            return _json(200, {"cron_jobs": [], "next_cursor": None})
        if method == "GET":
            return _problem(404, "not found")
        self.puts.append(path.removeprefix("/api/v1/"))
        return _problem(422, "kept all the same")

    def _open(self, said: dict[str, Any]) -> web.Response:
        key, secret = str(uuid.uuid4()), uuid.uuid4().hex
        self.sessions[key] = PlayedSession(said, secret, [], [])
        return _json(
            201,
            {
                "session_id": key,
                "secret": secret,
                "tenant_id": "default",
                "epoch": self.epoch,
                "lease_seconds": self.lease_seconds,
                "beat_seconds": self.lease_seconds / 5,
                "poll_seconds": self.poll_seconds,
            },
        )

    async def _poll(
        self, request: web.BaseRequest, key: str, session: PlayedSession, said: dict[str, Any]
    ) -> web.StreamResponse:
        session.polls.append(said)
        self._changed.set()  # ends an older one
        until = time.monotonic() + said["wait_seconds"]
        answer = {"sequence": said["sequence"], "epoch": self.epoch}
        newest = session.polls[-1] is said
        if newest and said["epoch"] == self.epoch:
            acknowledged = [self._settle(key, report) for report in said["reports"]]
            begun = [self._begin(key, asked) for asked in said["begin"] if not self.withhold]
            for note in said["progress"]:
                self.tasks[UUID(note["task_id"])].progress = note
            told = False
            while time.monotonic() < until and session.polls[-1] is said and key not in self.dead:
                deliveries = self._deliver(key, said)
                cancel = self._cancels(key)
                if acknowledged or begun or deliveries or self.command or (cancel and not told):
                    answer |= {"acknowledged": acknowledged, "begun": begun, "cancel": cancel}
                    answer |= {"deliveries": deliveries, "command": self.command}
                    break
                self._changed.clear()
                try:
                    async with asyncio.timeout(until - time.monotonic()):
                        await self._changed.wait()
                except TimeoutError:
                    break
        if key in self.dead and self.answer_instead is None:
            await self.late.wait()
            return _problem(410, "the session was declared dead")
        if self.lose_answers:
            self.lose_answers -= 1
            assert request.transport is not None
            request.transport.abort()
        return _json(200, answer)

    def _settle(self, key: str, report: dict[str, Any]) -> dict[str, Any]:
        task = self.tasks[UUID(report["task_id"])]
        fresh = task.session == key and task.fence == report["fence"]
        again = task.report == report  # its answer was lost
        if fresh and not task.done:
            if report["outcome"] == "released":
                task.session = None
                task.fence += 1
            else:
                task.report = report
        elif not again:
            self.refused += 1
        accepted = fresh or again
        return {"task_id": report["task_id"], "fence": report["fence"], "accepted": accepted}

    def _begin(self, key: str, asked: dict[str, Any]) -> dict[str, Any]:
        task = self.tasks[UUID(asked["task_id"])]
        granted = task.session == key and task.fence == asked["fence"]
        task.begun = task.begun or granted
        return {**asked, "granted": granted}

    def _deliver(self, key: str, said: dict[str, Any]) -> list[dict[str, Any]]:
        held = {(UUID(each["task_id"]), each["fence"]) for each in said["held"]}
        room, given = said["slots"], list[dict[str, Any]]()
        handlers = self.sessions[key].request["handlers"]
        for task in self.tasks.values():
            lost = task.session == key and not task.done and (task.id, task.fence) not in held
            if task.done or task.task_type not in handlers:
                continue
            if lost or (task.session is None and len(given) < room):
                if not lost:
                    task.session = key
                    task.fence += 1
                    task.delivered_at = time.monotonic()
                given.append(self._delivery(task))
        return given

    def _delivery(self, task: PlayedTask) -> dict[str, Any]:
        return {
            "task_id": str(task.id),
            "fence": task.fence,
            "task_type": task.task_type,
            "function": task.task_type,
            "attempt": 1,
            "retries_left": 3,
            "payload": task.payload,
            "timeout_seconds": 60,
            "start_within_seconds": 10,
            "asks": False,
            "delivery": "at_least_once",
            "priority": "MEDIUM",
            "queue": None,
            "idempotency_key": None,
            "correlation_id": str(task.id),
            "scheduled_for": "2026-01-01T00:00:00Z",
            "tenant_id": "default",
            "recurring": False,
            "suspect": False,
            "something_new": 1,
            **task.extra,
        }

    def _cancels(self, key: str) -> list[dict[str, Any]]:
        return [
            {"task_id": str(task.id), "fence": task.fence, "reason": "cancelled"}
            for task in self.tasks.values()
            if task.session == key and task.cancelled and not task.done
        ]


def _json(status: int, document: object) -> web.Response:
    body = msgspec.json.encode(document)
    return web.Response(status=status, body=body, content_type="application/json")


def _problem(status: int, detail: str) -> web.Response:
    body = {"type": "about:blank", "title": "refused", "status": status, "detail": detail}
    return web.Response(
        status=status, body=msgspec.json.encode(body), content_type="application/problem+json"
    )
