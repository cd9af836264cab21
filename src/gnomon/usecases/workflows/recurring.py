"""Runs of cron jobs whose target is a workflow: each starts a run of it, and ends with that."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from uuid import UUID

import msgspec

from gnomon.access.principal import TENANT_ROLES, Principal
from gnomon.model.errors import InvalidTask
from gnomon.model.targets.target import WorkflowTarget
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import TaskKey
from gnomon.model.workflow_errors import WorkflowNotFound, WorkflowRunNotFound
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.store.postgres.workflows.workflow_store import PostgresWorkflows
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.workflows import definitions, runs
from gnomon.workflow.run import WorkflowRunStatus


class CannotStart(Exception):
    """The workflow is not there, or no run of it can be made of this input."""


class FireLost(Exception):
    """The node does not run the task any more: another may have started the run."""


class WorkflowFire(msgspec.Struct, frozen=True):
    """A run of a cron job that a node runs just now."""

    key: TaskKey
    fence: int
    incarnation: UUID
    target: WorkflowTarget
    input: bytes | None
    origin: Origin | None


class Followed(Enum):
    """What is to be made of the run of a cron job."""

    STARTED = "started"
    GOES_ON = "goes on"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"  # or rolled back


class WorkflowFires:
    """Starts runs of workflows for runs of cron jobs, one for each: it has the same id."""

    def __init__(
        self,
        tasks: PostgresTasks,
        workflows: PostgresWorkflows,
        rules: TenantRules,
        send: Callable[[], Awaitable[None]],
    ) -> None:
        self._send = send  # the hints of what was committed
        self._tasks = tasks
        self._workflows = workflows
        self._rules = rules

    async def follow(self, fire: WorkflowFire) -> tuple[Followed, WorkflowRunStatus | None]:
        """Starts the run, or says how it goes. Raises CannotStart, FireLost, QuotaExceeded."""
        try:
            found = await self._workflows.get_run(fire.key.tenant_id, fire.key.id)
        except WorkflowRunNotFound:
            await self._start(fire)
            return Followed.STARTED, None
        status = found.run.status
        if not found.run.state.is_final:
            return Followed.GOES_ON, status
        if status is WorkflowRunStatus.SUCCEEDED:
            return Followed.SUCCEEDED, status
        if status in (WorkflowRunStatus.CANCELLED, WorkflowRunStatus.ROLLED_BACK):
            async with self._tasks.change(fire.key.tenant_id) as change:
                await change.cancel(fire.key.id, interrupt=True)
            await self._send()
            return Followed.CANCELLED, status
        return Followed.FAILED, status

    async def _start(self, fire: WorkflowFire) -> None:
        tenant_id, target = fire.key.tenant_id, fire.target
        by = Principal(tenant_id=tenant_id, roles=TENANT_ROLES, name=None)
        given = msgspec.UNSET if fire.input is None else msgspec.Raw(fire.input)
        try:
            stored = await self._workflows.get(tenant_id, target.workflow, target.version)
            definition = await asyncio.to_thread(definitions.definition_of, stored)
            run = await asyncio.to_thread(
                runs.accept_run,
                self._rules,
                by,
                definition,
                given,
                fire.origin,
                stored.version,
                fire.key.id,
            )
        except (WorkflowNotFound, InvalidTask) as error:
            raise CannotStart(str(error)) from error
        async with self._tasks.change(tenant_id) as change:
            job = await change.workflows.hold_fire(fire.key.id, fire.fence, fire.incarnation)
            if job is None:
                raise FireLost
            await runs.start(change, msgspec.structs.replace(run, cron_job_id=job))
        await self._send()
