"""Dispatch on PostgreSQL: finds, claims and settles tasks for a node."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.errors import BrokenInvariant, StoreError
from gnomon.model.fleet.pool import EVERYTHING, WHOLE, Pool, Territory, Work
from gnomon.model.fleet.shard import SHARDS
from gnomon.model.outcomes.fingerprint import fingerprint
from gnomon.model.outcomes.verdict import VerdictKind
from gnomon.model.targets.target import Target
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery, FencedKey
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
    TakenChildren,
    Taker,
    WaitingFlow,
)
from gnomon.store.ports.work.writer import Writer
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.columns import same_or_all
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.claimed_rows import (
    DEFAULT_POLICY,
    claim_of,
    decoded_policy,
    decoded_target,
    taken_row,
)
from gnomon.store.postgres.dispatch.pools import pool_columns, pools_of, territory_columns
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

_BEFORE_ALL = FlowKey("", Lane.CRITICAL, -(1 << 63))
_ANY_LOSSES = 32767  # more than a task survives
_NO_FINGERPRINT: tuple[None] = (None,)
_NO_ADDRESS: tuple[None] = (None,)
_NO_TAKER = (None,) * 5
_FEW = 10  # fingerprints, which are worked out at once
_ORDER = attrgetter("key.id.bytes")  # of settlements

# A row of an answer about no settlement: a child and its due time, or one that was claimed.
_Beside = tuple[datetime, str, str | None]


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
        return entries_of(await self._database.fetch("scan", *columns, until, each, *pool))

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
        return entries_of(rows)

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
        return entries_of((*row, by_handler[row["tenant_id"], row["flow"]]) for row in rows)

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
        return entries_of(rows)

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
        async with self._database.reserved() as connection:
            return await claim(
                connection, incarnation, keys, self._grace, flows, sessions, early=early
            )

    async def recalls(self) -> Recalls:
        row = await self._database.fetchrow("recalls")
        assert row is not None, "a sequence always gives a row"
        return Recalls(row["now"], row["number"])

    async def begin(self, claimed: Sequence[Delivery]) -> set[FencedKey]:
        columns = (
            same_or_all([d.incarnation for d in claimed]),
            [d.key.tenant_id for d in claimed],
            [d.key.id for d in claimed],
            [d.fence for d in claimed],
        )
        async with self._database.reserved() as connection:
            rows = await connection.fetch(query("begin"), *columns)
        return {(TaskKey(tenant_id, task_id), fence) for tenant_id, task_id, fence in rows}

    async def settle(
        self, settlements: Sequence[Settlement], taker: Taker | None = None
    ) -> list[Settled]:
        settled = await self._settle(settlements, taker, addressed=True)
        if len(settled) < len(settlements):
            # Stale, moved, or a cancellation was requested just then: only a second look, by their
            # keys, can tell.
            done = {s.key for s in settled}
            settled += await self._settle([s for s in settlements if s.key not in done])
        return settled

    async def settle_spawning(self, settlement: Settlement, origin: Origin | None) -> list[Settled]:
        assert self._spawning is not None, "whoever runs handlers says how they spawn"
        assert settlement.spawns is not None, "else it is settled with others"
        tenant_id, limits = settlement.key.tenant_id, self._spawning.limits
        tasks = await self._spawning.accept(tenant_id, settlement.spawns, origin)
        async with self._database.reserved() as connection, connection.transaction():
            entries = await spawn(connection, settlement, tasks, limits)
            if entries is None:
                return []
            settled = await self._settle([settlement], connection=connection)
            if not settled:
                raise BrokenInvariant(f"{settlement.key} is held, and cannot be settled")
        hints = CollectedHints(self._database)
        hints.due(entries)
        with suppress(StoreError):  # scans find them
            await hints.send()
        children = (*settled[0].children, *entries)
        return [msgspec.structs.replace(settled[0], children=children)]

    async def _settle(
        self,
        settlements: Sequence[Settlement],
        taker: Taker | None = None,
        connection: "Connection | None" = None,
        *,
        addressed: bool = False,
    ) -> list[Settled]:
        # One order for all, so that two batches that meet cannot wait for each other.
        batch = sorted(settlements, key=_ORDER)
        columns = (
            *await _settling_columns(batch, addressed=addressed),
            *(_NO_TAKER if taker is None else self._taker_columns(taker)),
        )
        if connection is None:
            async with self._database.reserved() as own:
                rows = await own.fetch(query("settle"), *columns)
        else:
            rows = await connection.fetch(query("settle"), *columns)
        settled: list[Settled] = []
        beside: list[_Beside] = []
        for places, state, due_at, cron_job_id, child, taken in rows:
            if not places:
                beside.append((due_at, child, taken))
                continue
            of = batch if len(places) == len(batch) else [batch[place - 1] for place in places]
            keys, fences = [s.key for s in of], [s.fence for s in of]
            alike = repeat(State(state)), repeat(due_at), repeat(cron_job_id)
            settled += map(Settled, keys, fences, *alike)
        if beside:
            settled[0] = self._with_children(settled[0], beside, taker)
        return settled

    def _taker_columns(self, taker: Taker) -> tuple[object, ...]:
        shards = None if len(taker.shards) == SHARDS else list(taker.shards)
        return taker.incarnation, self._grace, taker.most, shards, pools_of(taker.pool)

    def _with_children(
        self, settled: Settled, beside: Iterable[_Beside], taker: Taker | None
    ) -> Settled:
        """The same, with what became due beside it, and what was claimed of that."""
        children: dict[TaskKey, Entry] = {}
        steps, rows = False, []
        for due_at, child, taken in beside:
            if taken is not None:
                with suppress(*UNREADABLE):  # such a one is released, as what nobody here runs
                    rows.append(taken_row(taken))
                continue
            entry = _child(child, due_at)
            steps = steps or entry is None
            if entry is not None:
                children[entry.key] = entry
        found = None
        if taker is not None and rows:
            claim = claim_of([row.columns() for row in rows], taker.incarnation, self._grace)
            found = TakenChildren([children[d.key] for d in claim.deliveries], claim)
            for row in rows:
                del children[row.key]
        return msgspec.structs.replace(
            settled, children=tuple(children.values()), steps=steps, taken=found
        )

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
    return claim_of(rows, None if sessions else incarnation, grace, keys, early=early > 0)


async def _settling_columns(
    batch: Sequence[Settlement], *, addressed: bool
) -> tuple[Sequence[object], ...]:
    """The first parameters of settle.sql. `addressed`: with the places of rows that are known."""
    verdicts = same_or_all([s.verdict for s in batch])
    kinds = same_or_all([v.kind for v in verdicts])
    return (
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
        same_or_all([s.address for s in batch]) if addressed else _NO_ADDRESS,
    )


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


def _columns(cursors: Sequence[Cursor]) -> tuple[list[int], list[datetime], list[UUID]]:
    return [c.shard for c in cursors], [c.due_at for c in cursors], [c.id for c in cursors]


def entries_of(rows: Iterable[Iterable[Any]]) -> list[Entry]:
    """Of a lane that there is not, too: it must be claimed to become a dead letter that says so."""
    return [
        Entry(TaskKey(tenant, task), due_at, LANES.get(lane, ANY_LANE), losses, cron, flow, handler)
        for tenant, task, due_at, lane, losses, cron, flow, handler in rows
    ]


def _waiting_flow(
    tenant_id: str, lane: int, flow: int, due_at: datetime, *what: Any
) -> WaitingFlow:
    known = LANES.get(lane)
    if known is None:
        return WaitingFlow(FlowKey(tenant_id, lane, flow), None, due_at)
    return WaitingFlow(FlowKey(tenant_id, known, flow), Work(tenant_id, known, *what), due_at)


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
        return decoded_target(text)
    except UNREADABLE:
        return NO_TARGET


def _policy_of(text: str | None) -> RetryPolicy:
    """As `_target_of`."""
    try:
        return DEFAULT_POLICY if text is None else decoded_policy(text)
    except UNREADABLE:
        return DEFAULT_POLICY
