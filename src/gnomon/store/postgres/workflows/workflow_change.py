"""Runs of workflows within one transaction of a tenant."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from gnomon.clock import new_id
from gnomon.limits.limiter import Limiter
from gnomon.model.meaning import meaning_of
from gnomon.model.workflow_errors import (
    RunHasEnded,
    SignalDiffers,
    TooManySignals,
    WorkflowRunNotFound,
)
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.work.workflows import (
    FAILURE_CODES,
    RULE_CODES,
    NewWorkflowRun,
    ReadWorkflowRun,
    RunSignal,
)
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import stored_payload
from gnomon.store.postgres.workflows import reading
from gnomon.store.postgres.workflows.reading import entries_of, signal_of
from gnomon.store.postgres.workflows.rollback import keep_compensations
from gnomon.workflow.graph import When, last_nodes, used_at_death
from gnomon.workflow.run import WorkflowNodeKind, WorkflowRunState
from gnomon.workflow.wait import MOST_SIGNALS

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection


class PostgresWorkflowChange:
    """An open transaction of one tenant, as far as workflows go."""

    def __init__(
        self,
        connection: "Connection",
        tenant_id: str,
        due: list[Entry],
        limiters: Sequence[Limiter] = (),
    ) -> None:
        self._connection = connection
        self._limiters = limiters
        self._due = due  # hints to send once it is committed
        self.steps = False  # likewise: there are some for the chore of workflows
        self._tenant_id = tenant_id

    async def insert(self, run: NewWorkflowRun) -> None:
        """Store a run, and make its tasks, which this transaction has stored, its nodes."""
        await self.insert_alike([run])
        if run.borrowed:
            await self._borrow(run)
            self.steps = True
        await keep_compensations(self._connection, run, self._limiters)

    async def insert_alike(self, runs: Sequence[NewWorkflowRun]) -> None:
        """Store runs that differ in nothing but their ids and nodes, likewise."""
        run = runs[0]
        await self._connection.execute(
            query("insert_runs"),
            run.tenant_id,
            [each.id for each in runs],
            run.workflow,
            run.version,
            stored_payload(run.definition),
            run.fail_fast,
            stored_payload(run.input),
            run.deadline,
            run.created_at,
            run.created_by,
            run.retry_of,
            bool(run.compensations),
            run.cron_job_id,
            [len(each.nodes) + len(each.borrowed) for each in runs],
        )
        nodes = [row for each in runs for row in _node_rows(each)]
        edges = [row for each in runs for row in _edge_rows(each)]
        await self._connection.execute(
            query("bind_nodes"),
            run.tenant_id,
            *map(list, zip(*nodes, strict=True)),
            *map(list, zip(*edges, strict=True)),
        )
        self.steps = self.steps or any(
            each.is_blocked and not each.node.after for run in runs for each in run.nodes
        )

    async def _borrow(self, run: NewWorkflowRun) -> None:
        names = list(run.borrowed)
        await self._connection.execute(
            query("borrow_nodes"),
            run.tenant_id,
            run.id,
            run.retry_of,
            names,
            [new_id(run.created_at) for _ in names],
        )

    async def hold_fire(self, task_id: UUID, fence: int, incarnation: UUID) -> UUID | None:
        """Say that the run of a cron job, which this node runs, has a run of a workflow under its
        id; gives the job. None: the node runs it no more."""
        found: UUID | None = await self._connection.fetchval(
            query("hold_fire"), self._tenant_id, task_id, fence, incarnation
        )
        return found

    async def locked(self, run_id: UUID) -> ReadWorkflowRun:
        """A run that does not change until the transaction ends. Raises WorkflowRunNotFound."""
        await self._lock(run_id)
        return await self.read(run_id)

    async def cancel(self, run_id: UUID, reason: str, *, interrupt: bool) -> ReadWorkflowRun:
        """Cancel a run; its tasks follow. Raises WorkflowRunNotFound, RunHasEnded."""
        state = await self._lock(run_id)
        if state.is_final and state is not WorkflowRunState.CANCELLED:
            raise RunHasEnded(run_id, state.name, "cancelled", "it has ended")
        if state is WorkflowRunState.ROLLING_BACK:
            remedy = "a compensation that fails is a dead letter: retry or discard it"
            raise RunHasEnded(run_id, state.name, "cancelled", remedy)
        await self._connection.execute(
            query("cancel_run"), self._tenant_id, run_id, reason, interrupt
        )
        self.steps = True
        return await self.read(run_id)

    async def roll_back(self, run_id: UUID, reason: str, *, interrupt: bool) -> ReadWorkflowRun:
        """Roll a run back, also one that has ended; its tasks follow. Raises
        WorkflowRunNotFound."""
        await self._lock(run_id)
        await self._connection.execute(
            query("roll_back_run"), self._tenant_id, run_id, reason, interrupt
        )
        self.steps = True
        return await self.read(run_id)

    async def check_redrive(self, task_id: UUID, run_id: UUID) -> None:
        """Raises RunHasEnded for a dead letter of a run that is rolled back, unless it is one of
        the rollback itself."""
        rows = await self._connection.fetch(query("rolled_back_among"), self._tenant_id, [task_id])
        if rows:
            state = await self._connection.fetchval(query("lock_run"), self._tenant_id, run_id)
            remedy = f"its task {task_id} would do what is being undone; start a new run"
            raise RunHasEnded(run_id, WorkflowRunState(state).name, "gone on with", remedy)

    async def pause(self, run_id: UUID, *, paused: bool) -> ReadWorkflowRun:
        """Pause or resume a run. Raises WorkflowRunNotFound, RunHasEnded."""
        state = await self._lock(run_id)
        if state is not WorkflowRunState.RUNNING:
            raise RunHasEnded(run_id, state.name, "paused" if paused else "resumed")
        await self._connection.execute(query("pause_run"), self._tenant_id, run_id, paused)
        if paused:
            await self._connection.execute(query("hold_run"), self._tenant_id, run_id)
        else:
            rows = await self._connection.fetch(query("free_run"), self._tenant_id, run_id)
            self._due += entries_of(rows)
            self.steps = True
        return await self.read(run_id)

    async def signal(self, run_id: UUID, sent: RunSignal) -> RunSignal:
        """Send a signal to a run, once: the first of its name holds. Raises WorkflowRunNotFound,
        RunHasEnded, SignalDiffers, TooManySignals."""
        connection, tenant_id = self._connection, self._tenant_id
        row = await connection.fetchrow(query("get_run"), tenant_id, run_id)
        if row is None:
            raise WorkflowRunNotFound(run_id)
        await connection.fetchval(query("lock_signals"), run_id)
        found = await connection.fetchrow(query("get_signal"), tenant_id, run_id, sent.name)
        if found is None:
            state = WorkflowRunState(row["state"])
            if state is not WorkflowRunState.RUNNING:
                raise RunHasEnded(run_id, state.name, "sent a signal", "it goes on no more")
            data = stored_payload(sent.data)
            found = await connection.fetchrow(
                query("send_signal"), tenant_id, run_id, sent.name, data, sent.sent_at,
                sent.sent_by, MOST_SIGNALS,
            )  # fmt: skip
            if found is None:
                raise TooManySignals(run_id, MOST_SIGNALS)
            self.steps = True
        kept = signal_of(found)
        if meaning_of(kept.data or b"null") != meaning_of(sent.data or b"null"):
            raise SignalDiffers(run_id, sent.name)
        return kept

    async def turn_again(self, task_id: UUID) -> bool:
        """Let a dead letter whose template did not fit take its turn again; gives whether it is
        one."""
        again = await self._connection.fetchval(query("turn_again"), self._tenant_id, task_id)
        self.steps = self.steps or again is not None
        return again is not None

    async def read(self, run_id: UUID) -> ReadWorkflowRun:
        """Raises WorkflowRunNotFound."""
        return await reading.read(self._connection, self._tenant_id, run_id)

    async def _lock(self, run_id: UUID) -> WorkflowRunState:
        row = await self._connection.fetchrow(query("lock_run"), self._tenant_id, run_id)
        if row is None:
            raise WorkflowRunNotFound(run_id)
        return WorkflowRunState(row["state"])


def _node_rows(run: NewWorkflowRun) -> Iterator[tuple[object, ...]]:
    """Run, task, name, what it waits for, rule, on_failure, how many it waits for, template, kind
    and place of each node; at last the end of the run."""
    for place, each in enumerate(run.nodes, start=1):
        node = each.node
        yield (
            run.id,
            each.task.id,
            each.name,
            msgspec.json.encode(node.after).decode(),
            RULE_CODES[node.when],
            FAILURE_CODES[node.on_failure],
            len(node.after),
            stored_payload(each.template),
            each.kind,
            place,
        )
    rule, kind = RULE_CODES[When.ALL_SUCCEEDED], WorkflowNodeKind.TASK
    yield (run.id, run.id, "", "[]", rule, 0, len(_last(run)), None, kind, len(run.nodes) + 1)


def _edge_rows(run: NewWorkflowRun) -> Iterator[tuple[UUID, UUID, bool]]:
    """Parent, child, and whether a dead letter uses it, of each edge."""
    ids = {each.name: each.task.id for each in run.nodes}
    for each in run.nodes:
        for parent in each.node.after:
            if parent in ids:
                yield ids[parent], each.task.id, used_at_death(each.node.when)
    for name in _last(run):
        yield ids[name], run.id, False


def _last(run: NewWorkflowRun) -> list[str]:
    graph = {each.name: each.node for each in run.nodes}
    return [name for name in last_nodes({**run.borrowed, **graph}) if name in graph]
