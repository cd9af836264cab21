"""Hints that work exists, over NOTIFY: coalesced, and never inside the submitting transaction.

A NOTIFY in a transaction makes all such commits queue for one lock, so hints go out afterwards,
on a connection of their own. They may be lost: whoever misses one finds the work by scanning.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn, Protocol
from uuid import UUID

import structlog

from gnomon.clock import Clock, from_micros, to_micros
from gnomon.model.errors import StoreError
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.database import connect, is_pooled
from gnomon.store.postgres.refusals import translated

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection, DriverConnection

log = structlog.get_logger("gnomon.store")

DUE_CHANNEL = "gnomon_due"
CANCEL_CHANNEL = "gnomon_cancel"
LOOK_AGAIN = "*"  # more than fits: look behind your cursors
STEPS = "steps"  # nothing is due, but a workflow has steps to take
_PAYLOAD_BYTES = 7900  # PostgreSQL takes just under 8000
_MOST_ENTRIES = _PAYLOAD_BYTES // 60  # the shortest that there are
_RECONNECT_SECONDS = 0.5
# Waiting for the disk would help nobody: a lost hint costs half a second, not a task.
_NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"


def encode_entries(entries: Sequence[Entry]) -> str:
    if len(entries) > _MOST_ENTRIES:
        return LOOK_AGAIN
    lines = [
        f"{e.key.tenant_id}\t{e.key.id.hex}\t{to_micros(e.due_at)}\t{int(e.lane)}\t{e.recurring:d}"
        f"\t{e.flow}\t{e.by_handler:d}"
        for e in entries
    ]
    text = "\n".join(lines)
    return text if len(text.encode()) <= _PAYLOAD_BYTES else LOOK_AGAIN


def decode_entries(text: str) -> list[Entry] | None:
    """The entries, or None for "look again"."""
    if text == LOOK_AGAIN:
        return None
    rows = (line.split("\t") for line in text.split("\n"))
    return [
        Entry(
            TaskKey(t, UUID(i)),
            from_micros(int(due)),
            Lane(int(lane)),
            recurring=r == "1",
            flow=int(flow),
            by_handler=handler == "1",
        )
        for t, i, due, lane, r, flow, handler in rows
    ]


class Hints(Protocol):
    """Where the store says what it has just committed."""

    def due(self, entries: Iterable[Entry]) -> None:
        """Tasks that are now waiting."""

    def cancel(self, key: TaskKey) -> None:
        """A running task whose cancelling was asked for."""

    def steps(self) -> None:
        """A workflow has steps for the chore of workflows."""


class Announcer:
    """Sends hints to all nodes. `run` must be running for anything to leave."""

    def __init__(self, dsn: str, clock: Clock, horizon_seconds: float) -> None:
        self._dsn = dsn
        self._clock = clock
        self._horizon = timedelta(seconds=horizon_seconds)
        self._due: list[Entry] = []
        self._cancels: list[TaskKey] = []
        self._steps = False
        self._wake = asyncio.Event()

    def due(self, entries: Iterable[Entry]) -> None:
        until = self._clock.now() + self._horizon
        self._due.extend(e for e in entries if e.due_at <= until)
        if self._due:
            self._wake.set()

    def cancel(self, key: TaskKey) -> None:
        self._cancels.append(key)
        self._wake.set()

    def steps(self) -> None:
        self._steps = True
        self._wake.set()

    async def run(self) -> None:
        while True:
            try:
                await self._send_over_one_connection()
            except StoreError:
                # Nodes that lost their listener scan anyway: old hints are worth nothing.
                self._due.clear()
                await self._clock.sleep(_RECONNECT_SECONDS)

    async def _send_over_one_connection(self) -> None:
        connection = await connect(self._dsn)
        try:
            with translated():
                while True:
                    await self._wake.wait()
                    self._wake.clear()
                    due, self._due = self._due, []
                    cancels, self._cancels = self._cancels, []
                    steps, self._steps = self._steps, False
                    await send_hints(connection, due, cancels, steps=steps)
        finally:
            connection.terminate()


async def send_hints(
    connection: "Connection | DriverConnection",
    due: Sequence[Entry],
    cancels: Sequence[TaskKey],
    *,
    steps: bool = False,
) -> None:
    """Tell all nodes, outside of any transaction."""
    if due:
        await connection.execute(_NOTIFY, DUE_CHANNEL, encode_entries(due))
    if steps:
        await connection.execute(_NOTIFY, DUE_CHANNEL, STEPS)
    for key in cancels:
        await connection.execute(_NOTIFY, CANCEL_CHANNEL, f"{key.tenant_id}\t{key.id.hex}")


class Listener:
    """Hears hints. After a break in the connection it says "look again".

    Through a pooler nothing can be heard: a session there is nobody's for long. Then it says
    "look again" every `look_seconds`.
    """

    def __init__(
        self,
        dsn: str,
        clock: Clock,
        on_due: Callable[[list[Entry] | None], None],
        on_cancel: Callable[[TaskKey], None],
        look_seconds: float,
        on_steps: Callable[[], None] = lambda: None,
    ) -> None:
        self._dsn = dsn
        self._clock = clock
        self._on_due = on_due
        self._on_cancel = on_cancel
        self._look_seconds = look_seconds
        self._on_steps = on_steps

    async def run(self) -> None:
        while True:
            try:
                await self._listen()
            except StoreError:
                await self._clock.sleep(_RECONNECT_SECONDS)

    async def _listen(self) -> None:
        connection = await connect(self._dsn)
        if is_pooled(connection):
            connection.terminate()
            await self._look()
        lost = asyncio.Event()
        connection.add_termination_listener(lambda *_: lost.set())
        try:
            with translated():
                await connection.add_listener(DUE_CHANNEL, self._heard_due)
                await connection.add_listener(CANCEL_CHANNEL, self._heard_cancel)
            self._on_due(None)
            await lost.wait()
        finally:
            connection.terminate()

    async def _look(self) -> NoReturn:
        log.warning(
            "new tasks are found by looking only: a pooler is in between, and hints do not pass it",
            every_seconds=self._look_seconds,
            remedy="set GNOMON_DATABASE_DIRECT_URL to the server itself",
        )
        while True:
            self._on_due(None)
            await self._clock.sleep(self._look_seconds)

    def _heard_due(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        if payload == STEPS:
            self._on_steps()
            return
        try:
            entries = decode_entries(str(payload))
        except (ValueError, OverflowError):  # anybody may NOTIFY anything
            entries = None
        self._on_due(entries)

    def _heard_cancel(self, _connection: object, _pid: int, _channel: str, text: object) -> None:
        tenant_id, _, hex_id = str(text).partition("\t")
        with contextlib.suppress(ValueError):
            self._on_cancel(TaskKey(tenant_id, UUID(hex_id)))
