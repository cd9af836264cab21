"""The steps of workflows that no settling statement takes: a chore takes them, in chunks."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.workflows.reading import entries_of
from gnomon.store.postgres.workflows.rollback import begin_rollback
from gnomon.store.postgres.workflows.turns import take_turn
from gnomon.workflow.run import WorkflowRunState

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

CHUNK = 500
_RUNS = 20  # that are followed in one round
_FIRST = UUID(int=0)
_SKIPPED = "skipped: its rule or its condition does not hold"
_READY, _SKIP = 1, 2
# What a node that has ended counts as for those that wait for it: the state of a task.
_COUNTS_AS = {1: State.COMPLETED, 2: State.EXPIRED, 3: State.CANCELLED, 4: State.CANCELLED}


class Taken(msgspec.Struct):
    """What a round of steps has done, and what nodes should hear of it."""

    steps: int = 0
    due: list[Entry] = []
    cancels: list[TaskKey] = []

    def add(self, rows: Iterable[asyncpg.Record]) -> None:
        """The children that became due, among the answers of a statement."""
        self.due += entries_of(row for row in rows if row["id"] is not None)


class PostgresWorkflowSteps:
    """Takes the steps of all tenants' workflows."""

    def __init__(self, database: Database, most_bytes: int = 1 << 20) -> None:
        self._database = database
        self._most_bytes = most_bytes  # of a payload
        self._followed = _FIRST

    async def take(self) -> Taken:
        """A chunk of what is left to do about nodes, and of what follows from changes of runs."""
        taken = Taken()
        await self._end_late()
        runs = await self._database.fetch("followed_runs", self._followed, _RUNS)
        self._followed = runs[-1]["id"] if len(runs) == _RUNS else _FIRST
        for run in runs:
            await self._follow(run, taken)
        rows = await self._database.fetch("workflow_steps", CHUNK)
        if nodes := [row for row in rows if row["node"]]:
            await self._take(nodes, taken)
        for run in rows:
            if not run["node"]:
                async with self._database.transaction() as connection:
                    begun = await begin_rollback(connection, run["tenant_id"], run["run_id"])
                taken.steps += begun
        return taken

    async def _end_late(self) -> None:
        await self._database.fetch("end_late_runs", CHUNK)

    async def _take(self, rows: Sequence[asyncpg.Record], taken: Taken) -> None:
        released = [row for row in rows if row["became"] is not None or row["task"] == State.DEAD]
        keys = {_key(row) for row in released}
        others = [row for row in rows if _key(row) not in keys]
        skipped = [row for row in others if row["step"] == _SKIP]
        ready = [row for row in others if row["step"] == _READY and _may_start(row)]
        stale = [row for row in others if row["task"] is None or row["task"] == State.RUNNING]
        async with self._database.transaction() as connection:
            ready = await self._turns(connection, ready, skipped, taken)
            if ready:
                moved = await connection.fetch(query("unblock_nodes"), *_columns(ready))
                taken.add(moved)
                taken.steps += len(moved)
            if skipped:
                await connection.execute(query("mark_skipped"), *_columns(skipped))
                taken.steps += await _end(connection, skipped, _SKIPPED, taken)
            if released:
                taken.add(
                    await connection.fetch(
                        query("release_nodes"),
                        *_columns(released),
                        [_counts_as(row) for row in _in_order(released)],
                    )
                )
                taken.steps += len(released)
            if stale:
                await connection.execute(query("settle_steps"), *_columns(stale))

    async def _turns(
        self,
        connection: "Connection",
        ready: Sequence[asyncpg.Record],
        skipped: list[asyncpg.Record],
        taken: Taken,
    ) -> list[asyncpg.Record]:
        """Those that may start. What a condition skips is added to `skipped`."""
        start = []
        for row in _in_order(ready):
            if row["template"] is None:
                start.append(row)
                continue
            turn = await take_turn(connection, row, self._most_bytes)
            if turn is None:
                continue
            if turn.buried:
                taken.steps += 1
            elif turn.skipped:
                skipped.append(row)
            else:
                start.append(row)
        return start

    async def _follow(self, run: asyncpg.Record, taken: Taken) -> None:
        tenant_id, run_id = run["tenant_id"], run["id"]
        if run["state"] == WorkflowRunState.RUNNING:
            if run["paused"]:
                await self._database.fetch("hold_run", tenant_id, run_id)
            else:
                taken.add(await self._database.fetch("free_run", tenant_id, run_id))
            taken.steps += 1
            return
        rows = await self._database.fetch("unended_nodes", tenant_id, run_id, CHUNK, False)
        if not rows:
            return
        running = [row["task_id"] for row in rows if row["state"] == State.RUNNING]
        dead = [row for row in rows if row["state"] == State.DEAD]
        others = [row for row in rows if row["state"] not in (State.RUNNING, State.DEAD)]
        async with self._database.transaction() as connection:
            if running:
                asked = await connection.fetch(query("ask_nodes_to_end"), tenant_id, running)
                taken.steps += len(asked)
                if run["interrupts"]:
                    taken.cancels += [TaskKey(tenant_id, row["id"]) for row in asked]
            if others:
                taken.steps += await _end(connection, others, f"its run: {run['reason']}", taken)
            if dead:
                states = [State.RESOLVED] * len(dead)
                taken.add(await connection.fetch(query("release_nodes"), *_columns(dead), states))
                taken.steps += len(dead)


async def _end(
    connection: "Connection", rows: Sequence[asyncpg.Record], reason: str, taken: Taken
) -> int:
    """Gives how many were ended. Their own steps stay: one that ended before its turn may have
    got a step by the end of its parent just now, and its edges are used when that is taken."""
    found = await connection.fetch(query("skip_nodes"), *_columns(rows), [reason] * len(rows))
    taken.add(row for row in found if not row["ended"])
    return sum(row["ended"] for row in found)


def _may_start(row: asyncpg.Record) -> bool:
    """In a run that is being rolled back, what undoes a node starts, and nothing else."""
    if row["compensates"] is not None:
        return bool(row["run"] == WorkflowRunState.ROLLING_BACK)
    return bool(row["run"] == WorkflowRunState.RUNNING)


def _counts_as(row: asyncpg.Record) -> int:
    return State.DEAD if row["became"] is None else _COUNTS_AS[row["became"]]


def _key(row: asyncpg.Record) -> tuple[str, UUID]:
    return row["tenant_id"], row["task_id"]


def _in_order(rows: Sequence[asyncpg.Record]) -> list[asyncpg.Record]:
    return sorted(rows, key=_key)


def _columns(rows: Sequence[asyncpg.Record]) -> tuple[list[str], list[UUID]]:
    ordered = _in_order(rows)
    return [row["tenant_id"] for row in ordered], [row["task_id"] for row in ordered]
