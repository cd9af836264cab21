"""Submits the tasks of an outbox: in order, in batches, and each at least once.

The idempotency key of a task is its id in the outbox. So one that was submitted, and not removed
because somebody died in between, gives the same task again.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast
from uuid import UUID

import asyncpg
import msgspec
import structlog

from gnomon.client.client import Client
from gnomon.client.errors import ApiProblem, ClientError
from gnomon.clock import Clock
from gnomon.relay.outbox_reader import MOST_BODY, OutboxReader, OutboxRow

log = structlog.get_logger("gnomon.relay")

MOST_ROWS = 500
MOST_BYTES = 4 * 1024 * 1024  # of one batch
IDLE_SECONDS = 0.25
LONGEST_PAUSE = 5.0
MOST_REASON = 500  # characters
# What is wrong with a task, and not with the moment.
_REFUSALS = frozenset(
    (HTTPStatus.FORBIDDEN, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)
)
_UNREACHABLE = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ClientError)


class Relay:
    """Submits by a client of the API what an outbox holds."""

    def __init__(self, outbox: OutboxReader, client: Client, clock: Clock) -> None:
        self._outbox = outbox
        self._client = client
        self._clock = clock
        self.submitted = 0

    async def run(self) -> None:
        """Go on until cancelled, whatever cannot be reached meanwhile."""
        pause = IDLE_SECONDS
        while True:
            try:
                number = await self.run_once()
            except _UNREACHABLE as error:
                log.warning(
                    "the outbox is not relayed now, retrying", why=str(error), seconds=pause
                )
                await self._clock.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            pause = IDLE_SECONDS
            if number == 0:
                await self._clock.sleep(IDLE_SECONDS)

    async def run_once(self) -> int:
        """Submit one batch; gives how many rows it had."""
        async with self._outbox.taken(MOST_ROWS) as taken:
            rows = _bounded(taken.rows)
            if not rows:
                return 0
            reasons = await self._submit(rows)
            await taken.refused(reasons)
            done = [row for row in rows if row.position not in reasons]
            await taken.submitted(done)
        for position, why in reasons.items():
            log.warning("a task of the outbox was refused", position=position, why=why)
        self.submitted += len(done)
        return len(rows)

    async def _submit(self, rows: Sequence[OutboxRow]) -> Mapping[int, str]:
        """The reasons of those that were refused, by position. Raises ClientError where none could
        be submitted now."""
        reasons: dict[int, str] = {}
        bodies: dict[int, msgspec.Raw] = {}
        for row in rows:
            body = None if row.body is None else _keyed(row.id, row.body)
            if body is not None:
                bodies[row.position] = body
            elif row.body is None:
                reasons[row.position] = f"has more than {MOST_BODY} bytes"
            else:
                reasons[row.position] = "is no JSON object"
        try:
            if bodies:
                await self._client.submit_batch(cast("Any", [*bodies.values()]))
        except ApiProblem as problem:
            if problem.status not in _REFUSALS:
                raise
            # One of them is wrong, and a batch is stored as a whole.
            for position, body in bodies.items():
                reason = await self._submit_one(body)
                if reason is not None:
                    reasons[position] = reason
        return reasons

    async def _submit_one(self, body: msgspec.Raw) -> str | None:
        """Why it was refused, if it was."""
        try:
            await self._client.submit_batch(cast("Any", [body]))
        except ApiProblem as problem:
            if problem.status not in _REFUSALS:
                raise
            return str(problem)[:MOST_REASON]
        return None


def _bounded(rows: Sequence[OutboxRow]) -> Sequence[OutboxRow]:
    """The first of them, as many as fit into a batch."""
    size = 0
    for number, row in enumerate(rows):
        size += len(row.body or "")
        if size > MOST_BYTES and number > 0:
            return rows[:number]
    return rows


def _keyed(place: UUID, text: str) -> msgspec.Raw | None:
    """The body with its idempotency key; None where it is no object."""
    try:
        body: Any = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return None
    body.setdefault("idempotency_key", f"outbox-{place}")
    return msgspec.Raw(msgspec.json.encode(body))
