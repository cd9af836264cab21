"""Dispatch on PostgreSQL: finds, claims and settles tasks for a node."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.errors import BrokenInvariant, StoreError
from gnomon.model.fleet.pool import EVERYTHING, WHOLE, Pool, Territory, Work
from gnomon.model.outcomes.fingerprint import fingerprint
from gnomon.model.outcomes.verdict import VerdictKind
from gnomon.model.targets.target import Target
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.dispatch import (
    NOTHING_KNOWN,
    Burial,
    Buried,
    Claim,
    Cursor,
    Entry,
    FlowCursor,
    FlowKey,
    Recalls,
    RunningTask,
    Settled,
    Settlement,
    WaitingFlow,
)
from gnomon.store.ports.work.writer import Writer
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.columns import same_or_all
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.pools import pool_columns, territory_columns
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import (
    ANY_LANE,
    LANES,
    MODES,
    NO_TARGET,
    SAFE_MODE,
    UNREADABLE,
    origin_of,
)
from gnomon.store.postgres.workflows.spawning import SpawnRules, spawn

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_DEFAULT_POLICY = RetryPolicy()
_BEFORE_ALL = FlowKey("", Lane.CRITICAL, -(1 << 63))
_MOST_REASON = 500
_ANY_LOSSES = 32767  # more than a task survives
_NO_FINGERPRINT: tuple[None] = (None,)
_FEW = 10  # fingerprints, which are worked out at once


# Tasks of one kind share their target and policy to the letter, so decoding them once is enough.
@lru_cache(maxsize=4096)
def _target(text: str) -> Target:
    target: Target = msgspec.json.decode(text, type=Target)
    return target


@lru_cache(maxsize=4096)
def _policy(text: str) -> RetryPolicy:
    return msgspec.json.decode(text, type=RetryPolicy)


class PostgresDispatch:
    """`DispatchStore` on PostgreSQL."""

    def __init__(
        self, database: Database, grace_seconds: float, spawning: SpawnRules | None = None
    ) -> None:
        self._database = database
        self._grace = grace_seconds
        self._spawning = spawning  # None: nothing that runs here spawns

    async def scan(
        self, cursors: Sequence[Cursor], until: datetime, each: int, within: Territory = WHOLE
    ) -> list[Entry]:
        columns, pool = _columns(cursors), territory_columns(within, cursors)
        rows = await self._database.fetch("scan", *columns, until, each, *pool)
        return [entry_of(row) for row in rows]

    async def repair(
        self,
        cursors: Sequence[Cursor],
        since: Sequence[datetime],
        until: datetime,
        each: int,
        within: Territory = WHOLE,
    ) -> list[Entry]:
        columns, pool = _columns(cursors), territory_columns(within, cursors)
        rows = await self._database.fetch("repair", *columns, since, until, each, *pool)
        return [entry_of(row) for row in rows]

    async def flows(
        self,
        after: FlowKey | None,
        most: int,
        known: Mapping[FlowKey, datetime] = NOTHING_KNOWN,
    ) -> list[WaitingFlow]:
        start = _BEFORE_ALL if after is None else after
        # By code points, as the index has them, and not as a reader would.
        passed = sorted(flow for flow in known if flow > start)
        rows = await self._database.fetch(
            "flows",
            start.tenant_id,
            start.lane,
            start.flow,
            most,
            [flow.tenant_id for flow in passed],
            [flow.lane for flow in passed],
            [flow.flow for flow in passed],
            [known[flow] for flow in passed],
        )
        return [_waiting_flow(*row) for row in rows]

    async def heads(self, cursors: Sequence[FlowCursor], shards: Collection[int]) -> list[Entry]:
        rows = await self._database.fetch(
            "heads",
            [c.key.tenant_id for c in cursors],
            [c.key.lane for c in cursors],
            [c.key.flow for c in cursors],
            [c.due_at for c in cursors],
            [c.id for c in cursors],
            [c.most for c in cursors],
            list(shards),
        )
        by_handler = {(c.key.tenant_id, c.key.flow): c.by_handler for c in cursors}
        return [entry_of((*row, by_handler[row["tenant_id"], row["flow"]])) for row in rows]

    async def stealable(
        self,
        shards: Sequence[int],
        seconds: float,
        each: int,
        most: int,
        *,
        suspects: bool,
        pool: Pool = EVERYTHING,
    ) -> list[Entry]:
        losses = _ANY_LOSSES if suspects else 0
        rows = await self._database.fetch(
            "steal", shards, seconds, each, most, losses, *pool_columns(pool)
        )
        return [entry_of(row) for row in rows]

    async def open_writers(self) -> tuple[frozenset[Writer], datetime]:
        row = await self._database.fetchrow("open_writers")
        assert row is not None, "an aggregate always gives a row"
        began, sessions = row["began"], row["sessions"]
        return frozenset(map(Writer, began, sessions)), row["now"]

    async def claim(
        self,
        incarnation: UUID,
        keys: Sequence[TaskKey],
        flows: Sequence[int] = (),
        sessions: Sequence[UUID] = (),
        early: float = 0.0,
    ) -> Claim:
        async with self._database.connection() as connection:
            return await claim(
                connection, incarnation, keys, self._grace, flows, sessions, early=early
            )

    async def recalls(self) -> Recalls:
        row = await self._database.fetchrow("recalls")
        assert row is not None, "a sequence always gives a row"
        return Recalls(row["now"], row["number"])

    async def begin(self, claimed: Sequence[Delivery]) -> set[TaskKey]:
        rows = await self._database.fetch(
            "begin",
            same_or_all([d.incarnation for d in claimed]),
            [d.key.tenant_id for d in claimed],
            [d.key.id for d in claimed],
            [d.fence for d in claimed],
        )
        return {TaskKey(tenant_id, task_id) for tenant_id, task_id in rows}

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        settled = await self._settle(settlements)
        if len(settled) < len(settlements):
            # Stale, or a cancellation was requested just then: only a second look can tell.
            done = {s.key for s in settled}
            settled += await self._settle([s for s in settlements if s.key not in done])
        return settled

    async def settle_spawning(self, settlement: Settlement, origin: Origin | None) -> list[Settled]:
        assert self._spawning is not None, "whoever runs handlers says how they spawn"
        assert settlement.spawns is not None, "else it is settled with others"
        tenant_id, limits = settlement.key.tenant_id, self._spawning.limits
        tasks = await self._spawning.accept(tenant_id, settlement.spawns, origin)
        async with self._database.transaction() as connection:
            entries = await spawn(connection, settlement, tasks, limits)
            if entries is None:
                return []
            settled = await self._settle([settlement], connection)
            if not settled:
                raise BrokenInvariant(f"{settlement.key} is held, and cannot be settled")
        hints = CollectedHints(self._database)
        hints.due(entries)
        with suppress(StoreError):  # scans find them
            await hints.send()
        children = (*settled[0].children, *entries)
        return [msgspec.structs.replace(settled[0], children=children)]

    async def _settle(
        self, settlements: Sequence[Settlement], connection: "Connection | None" = None
    ) -> list[Settled]:
        # One order for all, so that two batches that meet cannot wait for each other.
        batch = sorted(settlements, key=_order)
        verdicts = same_or_all([s.verdict for s in batch])
        kinds = same_or_all([v.kind for v in verdicts])
        columns = (
            same_or_all([s.key.tenant_id for s in batch]),
            [s.key.id for s in batch],
            same_or_all([s.fence for s in batch]),
            same_or_all([s.incarnation for s in batch]),
            kinds,
            same_or_all([s.outcome for s in batch]),
            same_or_all([v.delay for v in verdicts]),
            same_or_all([v.spends for v in verdicts]),
            same_or_all([v.losses for v in verdicts]),
            [s.started_at for s in batch],
            [s.finished_at for s in batch],
            same_or_all([s.worker for s in batch]),
            same_or_all([s.error for s in batch]),
            same_or_all([s.response_status for s in batch]),
            same_or_all([s.response_body for s in batch]),
            same_or_all([s.result for s in batch]),
            same_or_all([s.unbegun for s in batch]),
            same_or_all([s.traceback for s in batch]),
            await _fingerprints(batch) if VerdictKind.DEAD_LETTER in kinds else _NO_FINGERPRINT,
        )
        if connection is None:
            rows = await self._database.fetch("settle", *columns)
        else:
            rows = await connection.fetch(query("settle"), *columns)
        settled: list[Settled] = []
        children: list[Entry] = []
        steps = False
        for places, state, due_at, cron_job_id, child in rows:
            if child is not None:
                entry = _child(child, due_at)
                steps = steps or entry is None
                children += [] if entry is None else [entry]
                continue
            reached = State(state)
            settled += [
                Settled(asked.key, asked.fence, reached, due_at, cron_job_id)
                for asked in [batch[place - 1] for place in places]
            ]
        if children or steps:
            settled[0] = msgspec.structs.replace(settled[0], children=tuple(children), steps=steps)
        return settled

    async def bury(self, incarnation: UUID, burials: Sequence[Burial]) -> list[Buried]:
        rows = await self._database.fetch(
            "bury",
            incarnation,
            [b.key.tenant_id for b in burials],
            [b.key.id for b in burials],
            [b.fence for b in burials],
            [b.reason for b in burials],
        )
        return [
            Buried(TaskKey(tenant_id, task_id), task_type, LANES.get(lane, ANY_LANE), recurring)
            for tenant_id, task_id, task_type, lane, recurring in rows
        ]

    async def payload(self, key: TaskKey) -> bytes | None:
        row = await self._database.fetchrow("payload", key.tenant_id, key.id)
        return None if row is None else row["payload"].encode()

    async def running_on(self, incarnation: UUID) -> list[RunningTask]:
        rows = await self._database.fetch("running_on", incarnation)
        return [running_task(row) for row in rows]

    async def orphans(self, most: int, *, overdue: bool) -> list[RunningTask]:
        rows = await self._database.fetch("overdue" if overdue else "orphans", most)
        return [running_task(row) for row in rows]


def _child(text: str, due_at: datetime) -> Entry | None:
    """The hint in an answer of settle.sql."""
    tenant_id, task_id, lane, flow, by_handler = msgspec.json.decode(text)
    if task_id is None:
        return None
    key = TaskKey(tenant_id, UUID(task_id))
    return Entry(key, due_at, LANES.get(lane, ANY_LANE), flow=flow, by_handler=by_handler)


async def claim(
    connection: "Connection",
    incarnation: UUID,
    keys: Sequence[TaskKey],
    grace: float,
    flows: Sequence[int] = (),
    sessions: Sequence[UUID] = (),
    *,
    consented: bool = False,
    early: float = 0.0,
) -> Claim:
    """`consented`: the jobs of runs that need consent have given it. `sessions`: the session that
    each is for, where a gateway claims; nothing is claimed early for those. PostgreSQL gives the
    rows by their places in the table; here they are in the order of the keys again."""
    tenants = same_or_all([k.tenant_id for k in keys])
    ids = [k.id for k in keys]
    asked = (incarnation, tenants, ids, grace, consented, same_or_all(flows))
    if sessions:
        rows = await connection.fetch(query("claim_for_sessions"), *asked, same_or_all(sessions))
    else:
        rows = await connection.fetch(query("claim"), *asked, early)
    if not rows:
        return Claim([], None)
    patience = grace / 2
    claimed: list[Delivery] = []
    unreadable: list[Burial] = []
    for row in rows:
        try:
            if sessions:
                *columns, claimant = row
                claimed.append(_delivery(columns, claimant, patience))
            else:
                claimed.append(_delivery(row, incarnation, patience))
        except UNREADABLE as error:
            key, why = TaskKey(row["tenant_id"], row["id"]), f"its row cannot be read: {error}"
            unreadable.append(Burial(key, row["fence"], why[:_MOST_REASON]))
    places = {task_id: place for place, task_id in enumerate(ids)}
    claimed.sort(key=lambda delivery: places[delivery.key.id])
    # What is not claimed early may start from the moment of the claim on.
    now = None if early else datetime.fromtimestamp(rows[0]["not_before"], UTC)
    return Claim(claimed, now, unreadable)


async def _fingerprints(batch: Sequence[Settlement]) -> Sequence[int | None]:
    """Of those that die, and say of what. Many of them take a while, and others need the loop."""
    dying = [
        (n, s.task_type, s.error)
        for n, s in enumerate(batch)
        if s.verdict.kind is VerdictKind.DEAD_LETTER and s.error is not None
    ]
    if len(dying) > _FEW:
        found = await asyncio.to_thread(_fingerprints_of, dying)
    else:
        found = _fingerprints_of(dying)
    return same_or_all([found.get(n) for n in range(len(batch))])


def _fingerprints_of(dying: Iterable[tuple[int, str, str]]) -> dict[int, int]:
    return {n: fingerprint(task_type, error) for n, task_type, error in dying}


def _order(settlement: Settlement) -> bytes:
    return settlement.key.id.bytes


def _columns(cursors: Sequence[Cursor]) -> tuple[list[int], list[datetime], list[UUID]]:
    return [c.shard for c in cursors], [c.due_at for c in cursors], [c.id for c in cursors]


def entry_of(row: Iterable[Any]) -> Entry:
    tenant_id, task_id, due_at, lane, losses, recurring, flow, by_handler = row
    key = TaskKey(tenant_id, task_id)
    # Of a lane that there is not, too: it must be claimed to become a dead letter that says so.
    return Entry(key, due_at, LANES.get(lane, ANY_LANE), losses, recurring, flow, by_handler)


def _waiting_flow(
    tenant_id: str, lane: int, flow: int, due_at: datetime, *what: Any
) -> WaitingFlow:
    known = LANES.get(lane)
    if known is None:
        return WaitingFlow(FlowKey(tenant_id, lane, flow), None, due_at)
    return WaitingFlow(FlowKey(tenant_id, known, flow), Work(tenant_id, known, *what), due_at)


def _delivery(row: Iterable[Any], incarnation: UUID, patience: float) -> Delivery:
    (
        tenant_id, task_id, fence, attempt, retries_left, losses, target, payload, payload_size,
        timeout_seconds, retry_policy, task_type, lane, mode, scheduled_for, idempotency_key,
        preemptible, queue, limit_keys, flow, origin, expired, recurring, workflow_node, not_before,
    ) = row  # fmt: skip
    # By position: names take as long as all the rest.
    return Delivery(
        TaskKey(tenant_id, task_id), fence, incarnation, attempt, retries_left, losses,
        _target(target), None if payload is None else payload.encode(), payload_size,
        timeout_seconds, _DEFAULT_POLICY if retry_policy is None else _policy(retry_policy),
        task_type, LANES[lane], scheduled_for, not_before + patience, idempotency_key, expired,
        MODES[mode], preemptible, queue, limit_keys, flow, recurring,
        None if origin is None else origin_of(origin), workflow_node, not_before,
    )  # fmt: skip


def running_task(row: asyncpg.Record) -> RunningTask:
    """A row that says that it is running."""
    return RunningTask(
        key=TaskKey(row["tenant_id"], row["id"]),
        fence=row["fence"],
        incarnation=row["node"],
        worker=row["worker"],
        attempt=row["attempt"],
        retries_left=row["retries_left"],
        losses=row["losses"],
        retry_policy=_policy_of(row["retry_policy"]),
        cancel_requested=row["cancel_requested"],
        mode=MODES.get(row["delivery"], SAFE_MODE),
        begun=row["begun"],
        target=_target_of(row["target"]),
        task_type=row["task_type"],
        lane=LANES.get(row["lane"], ANY_LANE),
        flow=row["flow"],
        recurring=row["recurring"],
        origin=None if row["origin"] is None else origin_of(row["origin"]),
        silent_seconds=row["silent_seconds"],
        remote=row["remote"],
        early=row.get("early", False),
    )


def _target_of(text: str) -> Target:
    """Of a task that nobody runs any more: one that cannot be read must not keep it from that,
    nor all the others of its node."""
    try:
        return _target(text)
    except UNREADABLE:
        return NO_TARGET


def _policy_of(text: str | None) -> RetryPolicy:
    """As `_target_of`."""
    try:
        return _DEFAULT_POLICY if text is None else _policy(text)
    except UNREADABLE:
        return _DEFAULT_POLICY
