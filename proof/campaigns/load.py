"""Submits tasks and changes them, and writes down what was asked and what was answered.

An answer that does not come, or says that PostgreSQL is away, is asked for again under the same
key. What was never answered may have happened all the same, and is recorded so.
"""

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import msgspec
from proof.campaigns.book import Book, now
from proof.campaigns.history import Action, Changed, Submitted
from proof.campaigns.orders import BATCH_SIZE, REMOTE, RUN_SIZE, Mix, Order, moment, orders

__all__ = ["REMOTE", "Load", "Mix", "Places"]

FINISH_SECONDS = 20.0  # for what was begun before the load was stopped
_ANSWER_SECONDS = 5.0
# Between questions: hundreds that are asked in vain must not be what keeps an API from starting.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
_TICK = 0.1
_BATCH_TICKS = 5
_MOST_WAITING = 10.0  # seconds of load that may be unanswered
_TRANSACTIONS = 12  # open at once
_OUR_FAULT = (400, 405, 413, 415, 422)
_DELIVERIES = {"at_least_once": 0, "at_most_once": 1, "exactly_once": 2}

# Of a transaction that ends so nobody knows whether it was committed.
_AWAY = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
_SAID = {True: "accepted", False: "refused", None: "unanswered"}
_INSERT = """
    INSERT INTO gnomon.task (
        tenant_id, id, task_type, target, payload, delivery, execute_at, due_at, retries_left,
        retry_policy, timeout_seconds
    ) VALUES (
        'default', uuidv7(), coalesce($1::json ->> 'function', 'proof'), $1, $2, $3, $4, $4, $5, $6,
        $7
    )
    RETURNING id::text
"""


class Places(msgspec.Struct, frozen=True):
    """Where to submit, by HTTP and by SQL; where webhooks go; where to write what came of it."""

    api_urls: Sequence[str]
    dsn: str
    observer_url: str
    folder: Path


class Refused(Exception):
    """The API found fault with what it was sent: the load itself is wrong."""


class Load:
    """So many tasks a second, for as long as it is let."""

    def __init__(self, places: Places, *, seed: int, rate: float, mix: Mix | None = None) -> None:
        self.submitted: list[Submitted] = []
        self.changed: list[Changed] = []
        self.progress: Counter[str] = Counter()
        self._places = places
        self._key = f"{seed}-{time.time_ns()}"  # one history may hold more than one load
        self._rate = rate
        self._orders = orders(seed, mix or Mix())
        self._urls = itertools.cycle(places.api_urls)
        self._nodes: list[Order] = []  # of the run that is being put together
        self._members: list[Order] = []  # of the batch that is being drawn
        self._waiting = 0
        self._over = asyncio.Event()
        self._door = asyncio.Semaphore(_TRANSACTIONS)
        self._submissions = Book(places.folder / "submitted.jsonl")
        self._changes = Book(places.folder / "changed.jsonl")

    async def run(self, stop: asyncio.Event) -> None:
        """Go on until `stop` is set; then wait for the answers that are still to come."""
        limit = aiohttp.TCPConnector(limit=64)
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
        closing: asyncio.TimerHandle | None = None
        async with aiohttp.ClientSession(connector=limit, timeout=timeout) as session:
            self._session = session
            async with asyncio.TaskGroup() as self._group:
                await self._pace(stop)
                loop = asyncio.get_running_loop()
                closing = loop.call_later(FINISH_SECONDS, self._over.set)
            closing.cancel()

    async def _pace(self, stop: asyncio.Event) -> None:
        began, made = time.monotonic(), 0
        batch: list[Order] = []
        for tick in itertools.count(1):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _TICK)
            wanted = int((time.monotonic() - began) * self._rate) - made
            made += wanted
            if self._waiting < self._rate * _MOST_WAITING:
                batch += self._dispatch(itertools.islice(self._orders, wanted))
            if batch and (tick % _BATCH_TICKS == 0 or stop.is_set()):
                self._group.create_task(self._submit(batch))
                batch = []
            if stop.is_set():
                return

    def _dispatch(self, taken: Iterator[Order]) -> Iterator[Order]:
        """Send off what goes alone; gives what goes in a batch."""
        for order in taken:
            if order.run is not None:
                self._nodes.append(order)
                if len(self._nodes) == RUN_SIZE:
                    self._group.create_task(self._start_run(self._nodes))
                    self._nodes = []
            elif order.batch is not None:
                self._members.append(order)
                if len(self._members) == BATCH_SIZE:
                    self._group.create_task(self._fill_batch(self._members))
                    self._members = []
            elif order.hold is not None:
                self._group.create_task(self._by_sql(order, order.hold))
            elif order.single:
                self._group.create_task(self._submit([order]))
            else:
                yield order

    # Submitting

    async def _submit(self, batch: Sequence[Order]) -> None:
        asked_at = now()
        dues = [_microseconds(order.due_at(asked_at)) for order in batch]
        bodies = [
            order.body(due, f"{self._key}-{order.n}", self._places.observer_url)
            for order, due in zip(batch, dues, strict=True)
        ]
        self._waiting += len(batch)
        if len(bodies) == 1:
            answer = await self._answered("/tasks", bodies[0])
            ids = None if answer is None else [answer["task_id"]]
        else:
            answer = await self._answered("/tasks/batch", {"tasks": bodies})
            ids = None if answer is None else [each["task_id"] for each in answer["tasks"]]
        self._waiting -= len(batch)
        acked_at = None if ids is None else now()
        for index, (order, due) in enumerate(zip(batch, dues, strict=True)):
            task_id = None if ids is None else ids[index]
            self._note(order, asked_at, due, acked_at, task_id)

    async def _start_run(self, nodes: Sequence[Order]) -> None:
        asked_at = now()
        key = f"{self._key}-run-{nodes[0].n}"
        body = {"nodes": {f"n{o.n}": o.node(self._places.observer_url) for o in nodes}}
        self._waiting += len(nodes)
        answer = await self._answered("/workflow-runs", {"definition": body}, key)
        self._waiting -= len(nodes)
        acked_at = None if answer is None else now()
        ids = {} if answer is None else {each["node"]: each["task_id"] for each in answer["nodes"]}
        self.progress["runs of workflows"] += answer is not None
        for order in nodes:
            self._note(order, asked_at, _microseconds(asked_at), acked_at, ids.get(f"n{order.n}"))

    async def _fill_batch(self, orders: Sequence[Order]) -> None:
        """Open a batch, put half of its members in at once and the others one by one, close it."""
        *members, last = orders
        asked_at, url = now(), self._places.observer_url
        key = f"{self._key}-batch-{last.n}"
        due = _microseconds(asked_at)
        opened = {"on_success": last.callback(url)}
        batch = await self._answered("/batches", opened, f"{key}-open", 201)
        closed = None
        if batch is not None:
            bodies = [
                order.body(due, f"{self._key}-{order.n}", url) | {"batch_id": batch["batch_id"]}
                for order in members
            ]
            half = len(members) // 2
            self._waiting += len(members)
            many = await self._answered("/tasks/batch", {"tasks": bodies[:half]})
            ids = [None] * half if many is None else [each["task_id"] for each in many["tasks"]]
            for body in bodies[half:]:
                one = await self._answered("/tasks", body)
                ids.append(None if one is None else one["task_id"])
            self._waiting -= len(members)
            for order, task_id in zip(members, ids, strict=True):
                self._note(order, asked_at, due, None if task_id is None else now(), task_id)
            if None not in ids:
                path = f"/batches/{batch['batch_id']}/close"
                closed = await self._answered(path, {}, f"{key}-close", 200)
        self.progress["batches"] += closed is not None
        acked_at, task_id = (None, None) if closed is None else (now(), batch["on_success"])
        self._note(last, asked_at, due, acked_at, task_id)

    async def _by_sql(self, order: Order, hold: float) -> None:
        async with self._door:
            if self._over.is_set():
                return
            asked_at = now()
            due = _microseconds(asked_at + order.delay)
            acked_at, task_id = None, None
            with contextlib.suppress(*_AWAY):
                connection = await asyncpg.connect(self._places.dsn, timeout=_ANSWER_SECONDS)
                try:
                    async with asyncio.timeout(hold + _ANSWER_SECONDS):
                        async with connection.transaction():
                            found = await self._inserted(connection, order, due)
                            await asyncio.sleep(hold)
                    acked_at, task_id = now(), found
                finally:
                    connection.terminate()
        self._note(order, asked_at, due, acked_at, task_id)

    async def _inserted(self, connection: Any, order: Order, due: float) -> str:
        """The id of the task, once its transaction is committed."""
        target, payload, policy = (
            msgspec.json.encode(value).decode()
            for value in (
                order.target_for(self._places.observer_url),
                order.payload,
                order.retry_policy,
            )
        )
        delivery, retries = _DELIVERIES[order.mode], order.max_retries
        row = (target, payload, delivery, moment(due), retries, policy, order.timeout)
        return str(await connection.fetchval(_INSERT, *row))

    def _note(
        self, order: Order, asked_at: float, due: float, acked_at: float | None, task_id: str | None
    ) -> None:
        record = Submitted(
            n=order.n,
            mode=order.mode,
            way=order.way,
            asked_at=asked_at,
            acked_at=acked_at,
            task_id=task_id,
            due_at=due,
            fails=order.fails,
            seconds=order.seconds,
            max_retries=order.max_retries,
            timeout_seconds=order.timeout,
            after=order.after,
            late_commit=order.hold is not None,
        )
        self.submitted.append(record)
        self._submissions.note(record)
        self.progress["submitted"] += 1
        self.progress["acknowledged"] += acked_at is not None
        if order.change is not None and task_id is not None:
            self._group.create_task(self._alter(order, order.change, due, task_id))

    # Changing

    async def _alter(self, order: Order, action: Action, due: float, task_id: str) -> None:
        await self._until(due + order.change_at)
        await self._change(order.n, action, task_id)
        if action == "pause" and order.resume_after is not None:
            await self._until(now() + order.resume_after)
            await self._change(order.n, "resume", task_id)

    async def _change(self, n: int, action: Action, task_id: str) -> None:
        asked_at = now()
        verb = "cancel" if action == "interrupt" else action
        body = {"interrupt": True} if action == "interrupt" else {}
        accepted = await self._decided(f"/tasks/{task_id}/{verb}", body, f"{self._key}-{n}-{verb}")
        record = Changed(
            n=n,
            action=action,
            asked_at=asked_at,
            answered_at=None if accepted is None else now(),
            accepted=accepted,
        )
        self.changed.append(record)
        self._changes.note(record)
        self.progress[f"{action} {_SAID[accepted]}"] += 1

    async def _decided(self, path: str, body: Any, key: str) -> bool | None:
        """Whether a change was accepted; None where nobody knows. A refusal after a question that
        was not answered says nothing: that one may have been accepted."""
        sure, pauses = True, _pauses()
        while not self._over.is_set():
            status, _ = await self._ask(path, body, key)
            if status == 200:
                return True
            if status in (404, 409):
                return False if sure else None
            sure = False
            await self._until(now() + next(pauses))
        return None

    # Asking

    async def _answered(
        self, path: str, body: Any, key: str | None = None, accepted: int = 202
    ) -> Any:
        """The answer to a submission; None where there was none until the end."""
        pauses = _pauses()
        while not self._over.is_set():
            status, answer = await self._ask(path, body, key)
            if status == accepted:
                return answer
            self.progress["asked again"] += 1
            await self._until(now() + next(pauses))
        return None

    async def _ask(self, path: str, body: Any, key: str | None = None) -> tuple[int, Any]:
        """The status and the answer. 0 where there was none, or one that says: ask again."""
        headers = {} if key is None else {"Idempotency-Key": key}
        url = f"{next(self._urls)}/api/v1{path}"
        try:
            async with self._session.post(url, json=body, headers=headers) as response:
                answer = await response.json(content_type=None)
                if response.status in _OUR_FAULT:
                    raise Refused(f"{path}: {response.status} {answer}")
                unsure = response.status >= 500 or "Retry-After" in response.headers
                return 0 if unsure else response.status, answer
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return 0, None

    async def _until(self, at: float) -> None:
        """Wait for a moment, or for the end."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), max(0.0, at - now()))


def _pauses() -> Iterator[float]:
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(_LONGEST_PAUSE, pause * 1.5)


def _microseconds(seconds: float) -> float:
    """What is left of a time when it is written down and read again."""
    return moment(seconds).timestamp()
