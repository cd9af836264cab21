"""Takes the steps of workflows and batches that no settling statement takes.

Nodes whose turn needs more than counting, nodes that are skipped and what follows from that, runs
that are cancelled, paused, or past their deadline: in chunks, each a short transaction. Any number
of nodes may do so at once.
"""

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from gnomon.chores import Troubles, about_step
from gnomon.clock import Clock
from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.batches.batch_steps import PostgresBatchSteps
from gnomon.store.postgres.workflows.workflow_steps import PostgresWorkflowSteps

CHORE = "workflow-steps"
EVERY_SECONDS = 1.0
_PASS_SECONDS = 10.0
_REMEDY = "its workflow run or batch waits for it; it is tried again by itself"


class Announcing(Protocol):
    """Tells all nodes, after the commit."""

    def due(self, entries: list[Entry]) -> None: ...
    def cancel(self, key: TaskKey) -> None: ...
    async def send(self) -> None: ...


class WorkflowStepper:
    """Takes steps until none are left."""

    def __init__(
        self,
        store: PostgresWorkflowSteps,
        batches: PostgresBatchSteps,
        hints: Announcing,
        hear: Callable[[list[Entry]], None],
        clock: Clock,
        troubles: Troubles,
    ) -> None:
        self._store = store
        self._batches = batches
        self._hints = hints
        self._hear = hear
        self._clock = clock
        self._troubles = troubles

    async def run_once(self) -> int:
        """Gives how many steps were taken. What fails for one node, run or batch is set aside,
        and tried again later."""
        began = self._clock.monotonic()
        deadline = self._clock.monotonic() + _PASS_SECONDS
        steps = 0
        while self._clock.monotonic() < deadline:
            aside = [UUID(about.subject[-36:]) for about in self._troubles.aside(CHORE)]
            taken = await self._store.take(aside)
            await self._batches.take(taken, aside)
            for each in taken.failed:
                about = about_step(each.of, each.key)
                self._troubles.note(CHORE, each.error, about, _REMEDY)
            if taken.due:
                self._hear(taken.due)
                self._hints.due(taken.due)
            for key in taken.cancels:
                self._hints.cancel(key)
            await self._hints.send()
            if not taken.steps:
                break
            steps += taken.steps
        self._troubles.over_since(CHORE, began)
        return steps
