"""The steps of workflows that no settling statement takes: a chore takes them, in chunks."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.errors import BrokenInvariant, StoreUnavailable
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.workflows.maps import look_at_map
from gnomon.store.postgres.workflows.node_limits import TenantLimits
from gnomon.store.postgres.workflows.reading import entries_of
from gnomon.store.postgres.workflows.rollback import begin_rollback
from gnomon.store.postgres.workflows.spawning import join
from gnomon.store.postgres.workflows.turns import Misfit, bury, take_turn
from gnomon.store.postgres.workflows.waits import look_at_wait
from gnomon.workflow.run import WorkflowNodeKind, WorkflowRunState

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

CHUNK = 500
_RUNS = 20  # that are followed in one round
_FIRST = UUID(int=0)
_SKIPPED = "skipped: its rule or its condition does not hold"
_READY, _SKIP = 1, 2
_SUCCEEDED = 1
# What a node that has ended counts as for those that wait for it: the state of a task.
_COUNTS_AS = {1: State.COMPLETED, 2: State.EXPIRED, 3: State.CANCELLED, 4: State.CANCELLED}


class FailedStep(msgspec.Struct, frozen=True):
    """What steps could not be taken about, while those about others could. Its key has the id of a
    task, a run or a batch."""

    key: TaskKey
    error: Exception
    of: Literal["task", "workflow run", "batch"] = "task"


class Taken(msgspec.Struct):
    """What a round of steps has done, and what nodes should hear of it."""

    steps: int = 0
    due: list[Entry] = []
    cancels: list[TaskKey] = []
    failed: list["FailedStep"] = []

    def add(self, rows: Iterable[asyncpg.Record]) -> None:
        """The children that became due, among the answers of a statement."""
        self.due += entries_of(row for row in rows if row["id"] is not None)


class PostgresWorkflowSteps:
    """Takes the steps of all tenants' workflows."""

    def __init__(self, database: Database, limits: TenantLimits | None = None) -> None:
        self._database = database
        self._limits = limits or TenantLimits()
        self._followed = _FIRST

    async def take(self, aside: Collection[UUID] = ()) -> Taken:
        """A chunk of what is left to do about nodes, and of what follows from changes of runs; but
        for those that are set aside. What fails for one of them fails for it alone. Raises
        StoreUnavailable."""
        taken = Taken()
        await self._database.fetch("end_late_runs", CHUNK)
        await self._database.fetch("wake_waits", CHUNK)
        runs = await self._database.fetch("followed_runs", self._followed, _RUNS, [*aside])
        self._followed = runs[-1]["id"] if len(runs) == _RUNS else _FIRST
        for run in runs:
            with alone(TaskKey(run["tenant_id"], run["id"]), taken, of="workflow run"):
                await self._follow(run, taken)
        rows = await self._database.fetch("workflow_steps", CHUNK, [*aside])
        if nodes := [row for row in rows if row["node"]]:
            await self._take(nodes, taken)
        for run in rows:
            if not run["node"]:
                with alone(TaskKey(*_key(run)), taken, of="workflow run"):
                    async with self._database.transaction() as connection:
                        begun = await begin_rollback(connection, run["tenant_id"], run["run_id"])
                    taken.steps += begun
        return taken

    async def _each(
        self,
        rows: Sequence[asyncpg.Record],
        work: Callable[[Sequence[asyncpg.Record]], Awaitable[None]],
        taken: Taken,
    ) -> None:
        """Do the work for all at once; where that fails, for one after the other."""
        if not rows:
            return
        if len(rows) == 1:
            with alone(TaskKey(*_key(rows[0])), taken):
                await work(rows)
            return
        try:
            await work(rows)
        except (StoreUnavailable, BrokenInvariant):
            raise
        except Exception:  # noqa: BLE001 - whatever it is: whom it concerns is told below
            for row in rows:
                await self._each([row], work, taken)

    async def _take(self, rows: Sequence[asyncpg.Record], taken: Taken) -> None:
        """Each statement is a transaction of its own: who counts must not hold other counters."""
        again = {_key(row) for row in rows if _is_again(row)}
        released = [
            row
            for row in rows
            if (row["became"] is not None or row["task"] == State.DEAD) and _key(row) not in again
        ]
        keys = {_key(row) for row in released}
        others = [row for row in rows if _key(row) not in keys]
        skipped = [row for row in others if row["step"] == _SKIP]
        ready = [row for row in others if row["step"] == _READY and _may_start(row)]
        stale = [row for row in others if row["task"] is None or row["task"] == State.RUNNING]
        ready = await self._turns(ready, skipped, taken)
        await self._each(ready, partial(self._start, taken), taken)
        await self._each(skipped, partial(self._skip, taken), taken)
        await self._each(released, partial(self._leave, taken), taken)
        await self._each(stale, self._settle, taken)

    async def _start(self, taken: Taken, rows: Sequence[asyncpg.Record]) -> None:
        moved = await self._database.fetch("unblock_nodes", *columns(rows))
        taken.add(moved)
        taken.steps += len(moved)

    async def _skip(self, taken: Taken, rows: Sequence[asyncpg.Record]) -> None:
        await self._database.fetch("mark_skipped", *columns(rows))
        await self._end(rows, _SKIPPED, taken)

    async def _leave(self, taken: Taken, rows: Sequence[asyncpg.Record]) -> None:
        for row in rows:
            if row["elements"] is not None and row["expanded"] < row["elements"]:
                await self._database.fetch("stop_map", *_key(row))
        counted = [await self._counts_as(row) for row in in_order(rows)]
        await self._release(rows, counted, taken)
        await self._database.fetch("leave_nodes", *columns(rows))

    async def _settle(self, rows: Sequence[asyncpg.Record]) -> None:
        await self._database.fetch("settle_steps", *columns(rows))

    async def _counts_as(self, row: asyncpg.Record) -> int:
        if row["became"] is None:
            return State.DEAD
        became = row["became"]
        if became == _SUCCEEDED and row["elements"] and row["kind"] != WorkflowNodeKind.MAPPED:
            async with self._database.connection() as connection:
                became = await join(connection, row) or became
        return _COUNTS_AS[became]

    async def _turns(
        self,
        ready: Sequence[asyncpg.Record],
        skipped: list[asyncpg.Record],
        taken: Taken,
    ) -> list[asyncpg.Record]:
        """Those that may start. What a condition skips is added to `skipped`."""
        start = [row for row in ready if row["template"] is None]
        rest = [row for row in in_order(ready) if row["template"] is not None]
        waiting = [row for row in rest if row["kind"] == WorkflowNodeKind.WAIT]
        mapped = [row for row in rest if row["kind"] == WorkflowNodeKind.MAPPED]
        filled = [row for row in rest if row["kind"] == WorkflowNodeKind.TASK]
        misfits: list[tuple[asyncpg.Record, str]] = []
        await self._each(filled, partial(self._fill, start, skipped, misfits), taken)
        for row in waiting:
            with alone(TaskKey(*_key(row)), taken):
                await self._wait(row, skipped, misfits, taken)
        for row in mapped:
            with alone(TaskKey(*_key(row)), taken):
                await self._map(row, skipped, misfits, taken)
        for row, reason in misfits:
            with alone(TaskKey(*_key(row)), taken):
                async with self._database.transaction() as connection:
                    taken.steps += await bury(connection, row, reason)
        return start

    async def _fill(
        self,
        start: list[asyncpg.Record],
        skipped: list[asyncpg.Record],
        misfits: list[tuple[asyncpg.Record, str]],
        rows: Sequence[asyncpg.Record],
    ) -> None:
        """Fill nodes in, together: nothing is said of them before that is committed."""
        found: list[tuple[asyncpg.Record, bool]] = []
        unfit: list[tuple[asyncpg.Record, str]] = []
        async with self._database.transaction() as connection:
            for row in rows:
                try:
                    turn = await take_turn(connection, row, self._limits)
                except Misfit as error:
                    unfit.append((row, str(error)))
                    continue
                if turn is not None:
                    found.append((row, turn.skipped))
        misfits += unfit
        for row, is_skipped in found:
            (skipped if is_skipped else start).append(row)

    async def _wait(
        self,
        row: asyncpg.Record,
        skipped: list[asyncpg.Record],
        misfits: list[tuple[asyncpg.Record, str]],
        taken: Taken,
    ) -> None:
        """Let a node wait, or end it where it has waited for long enough."""
        try:
            found = await look_at_wait(self._database, row)
        except Misfit as error:
            misfits.append((row, str(error)))
            return
        if found is None:
            return
        taken.steps += 1
        if found.skipped:
            skipped.append(row)
        elif found.failed is not None:
            misfits.append((row, found.failed))
        elif found.over:
            async with self._database.transaction() as connection:
                await self._complete(connection, row, found.result, taken)

    async def _map(
        self,
        row: asyncpg.Record,
        skipped: list[asyncpg.Record],
        misfits: list[tuple[asyncpg.Record, str]],
        taken: Taken,
    ) -> None:
        """Make elements of a mapped node, or end it where all of them have."""
        try:
            found = await look_at_map(self._database, row, self._limits)
        except Misfit as error:
            misfits.append((row, str(error)))
            return
        if found is None:
            return
        taken.steps += 1
        taken.due += found.made
        if found.skipped:
            skipped.append(row)
        elif found.state is not None:
            async with self._database.transaction() as connection:
                ended = await self._complete(
                    connection, row, found.result, taken, found.state, found.error
                )
                if ended and found.too_large:
                    await connection.execute(query("mark_too_large"), *_key(row))

    async def _complete(
        self,
        connection: "Connection",
        row: asyncpg.Record,
        result: str | None,
        taken: Taken,
        state: State = State.COMPLETED,
        error: str | None = None,
    ) -> bool:
        """End a node that runs no task; gives whether it has."""
        found = await connection.fetch(
            query("complete_nodes"), *columns([row]), [result], [state], [error]
        )
        taken.add(each for each in found if not each["ended"])
        return any(each["ended"] for each in found)

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
        if running:
            asked = await self._database.fetch("ask_nodes_to_end", tenant_id, running)
            taken.steps += len(asked)
            if run["interrupts"]:
                taken.cancels += [TaskKey(tenant_id, row["id"]) for row in asked]
        if others:
            await self._end(others, f"its run: {run['reason']}", taken)
        if dead:
            await self._release(dead, [State.RESOLVED] * len(dead), taken)

    async def _end(self, rows: Sequence[asyncpg.Record], reason: str, taken: Taken) -> None:
        """End nodes. Their own steps stay: one that ended before its turn may have got a step by
        the end of its parent just now, and its edges are used when that is taken."""
        found = await self._database.fetch("skip_nodes", *columns(rows), [reason] * len(rows))
        taken.add(row for row in found if not row["ended"])
        taken.steps += sum(row["ended"] for row in found)

    async def _release(
        self, rows: Sequence[asyncpg.Record], states: Sequence[int], taken: Taken
    ) -> None:
        taken.add(await self._database.fetch("release_nodes", *columns(rows), states))
        taken.steps += len(rows)


@contextmanager
def alone(
    key: TaskKey, taken: Taken, of: Literal["task", "workflow run", "batch"] = "task"
) -> Iterator[None]:
    """What fails here concerns this node, run or batch alone."""
    try:
        yield
    except (StoreUnavailable, BrokenInvariant):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is: it is noted, and tried again
        taken.failed.append(FailedStep(key, error, of))


def _is_again(row: asyncpg.Record) -> bool:
    """Whether it is a dead letter that has counted before its template fitted, and was retried."""
    return bool(
        row["became"] is not None
        and row["task"] == State.BLOCKED
        and row["step"] == _READY
        and row["template"] is not None
    )


def _may_start(row: asyncpg.Record) -> bool:
    """In a run that is being rolled back, what undoes a node starts, and nothing else. A dead
    letter that is retried after its run has ended without it runs, as any other does."""
    if row["compensates"] is not None:
        return bool(row["run"] == WorkflowRunState.ROLLING_BACK)
    if row["run"] == WorkflowRunState.RUNNING:
        return True
    ended = WorkflowRunState(row["run"]).is_final
    return ended and row["run"] != WorkflowRunState.ROLLED_BACK and _is_again(row)


def _key(row: asyncpg.Record) -> tuple[str, UUID]:
    return row["tenant_id"], row["task_id"]


def in_order(rows: Sequence[asyncpg.Record]) -> list[asyncpg.Record]:
    """By their keys, as all who lock them do."""
    return sorted(rows, key=_key)


def columns(rows: Sequence[asyncpg.Record]) -> tuple[list[str], list[UUID]]:
    """The keys, in order, as two parameters."""
    ordered = in_order(rows)
    return [row["tenant_id"] for row in ordered], [row["task_id"] for row in ordered]
