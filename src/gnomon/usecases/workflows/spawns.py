"""Spawns: makes tasks of what a handler has spawned, checked as a submission is."""

import asyncio
from collections.abc import Sequence

import msgspec

from gnomon.access.principal import TENANT_ROLES, Principal
from gnomon.model.errors import InvalidTask
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import Submission
from gnomon.model.workflow_errors import SpawnRefused
from gnomon.usecases.checks.payload_check import check_schema_in_thread
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.tasks.submit import allowed
from gnomon.usecases.tasks.task_requests import SubmitTask
from gnomon.usecases.workflows.node_tasks import check_no_times
from gnomon.workflow.spawning import MOST_SPAWN_BYTES, MOST_SPAWNS

_WHY = "they start when what has spawned them has succeeded"
_MANY = 20  # which take a while to check
_MOST_STEPS = 20_000_000  # of checking their payloads: settlements wait meanwhile


class WorkflowSpawns:
    """Accepts the spawns of a tenant's handlers."""

    def __init__(self, rules: TenantRules) -> None:
        self._rules = rules

    async def accept(
        self, tenant_id: str, spawns: str, origin: Origin | None
    ) -> Sequence[Submission]:
        """The tasks to store; `spawns`: a JSON list of them. Raises SpawnRefused."""
        if len(spawns) > MOST_SPAWN_BYTES:
            raise SpawnRefused(f"it has {len(spawns)} bytes; at most {MOST_SPAWN_BYTES} may be")
        try:
            asked = msgspec.json.decode(spawns, type=list[SubmitTask])
        except (msgspec.DecodeError, RecursionError) as error:
            raise SpawnRefused(str(error)) from error
        if len(asked) > MOST_SPAWNS:
            raise SpawnRefused(f"it is {len(asked)} tasks; at most {MOST_SPAWNS} may be")
        directory = self._rules.directory
        if len(asked) > _MANY or any(directory.schema(tenant_id, each.task_type) for each in asked):
            return await asyncio.to_thread(self._accepted, tenant_id, asked, origin)
        return self._accepted(tenant_id, asked, origin)

    def _accepted(
        self, tenant_id: str, asked: Sequence[SubmitTask], origin: Origin | None
    ) -> list[Submission]:
        by = Principal(tenant_id=tenant_id, roles=TENANT_ROLES, name=None)
        now, tasks, work = self._rules.clock.now(), [], 0
        for number, each in enumerate(asked):
            try:
                _check(each)
                task = allowed(self._rules, by, each, now, None, origin)
                tasks.append(task)
                work += check_schema_in_thread(self._rules, tenant_id, task.task_type, task.payload)
            except InvalidTask as error:
                raise SpawnRefused(f"/{number}{error.pointer}: {error.detail}") from error
            if work > _MOST_STEPS:
                raise SpawnRefused(f"{len(asked)} payloads take too long to check; spawn fewer")
        return tasks


def _check(asked: SubmitTask) -> None:
    """Raises InvalidTask. What is spawned runs by handlers: who may only work must not be able to
    have URLs called."""
    check_no_times(asked, "spawned tasks", _WHY)
    for field in ("target", "callback_url", "callback_method"):
        if getattr(asked, field) is not None:
            raise InvalidTask("is not for spawned tasks: a handler runs them", f"/{field}")
