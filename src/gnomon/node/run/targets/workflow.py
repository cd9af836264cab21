"""Workflows of cron jobs: a run of the job starts a run of the workflow, and waits for its end
without a slot."""

from collections.abc import Awaitable
from typing import Protocol

import msgspec

from gnomon.model.errors import QuotaExceeded
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.target import Target, WorkflowTarget
from gnomon.node.run.targets import Place
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.usecases.workflows.recurring import CannotStart, FireLost, Followed, WorkflowFire
from gnomon.workflow.run import WorkflowRunStatus

# When to look at a run again. The end of a run makes that now, but for one that ends just while it
# is looked at.
_FIRST_LOOK, _SECOND_LOOK, _LATER_LOOKS = 1.0, 10.0, 600.0


class Fires(Protocol):
    """Starts and follows runs of workflows."""

    async def follow(self, fire: WorkflowFire) -> tuple[Followed, WorkflowRunStatus | None]: ...


class WorkflowCaller:
    """`Caller` for workflows."""

    def __init__(self, fires: Fires) -> None:
        self._fires = fires

    @property
    def least_room(self) -> float:
        return float("inf")

    def place(self, target: Target) -> Place | None:
        assert isinstance(target, WorkflowTarget)
        return None

    def ready(self, delivery: Delivery) -> Awaitable[object] | None:
        """Nothing is prepared."""

    async def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Outcome | None:
        del run  # nobody is told anything
        assert isinstance(delivery.target, WorkflowTarget)
        fire = WorkflowFire(
            delivery.key,
            delivery.fence,
            delivery.incarnation,
            delivery.target,
            payload,
            delivery.origin,
        )
        try:
            followed, status = await self._fires.follow(fire)
        except FireLost:
            return None
        except CannotStart as error:
            return _failed(f"no run of {delivery.target.workflow} can be started: {error}")
        except QuotaExceeded as error:
            return Outcome(OutcomeKind.FAILED, error=str(error), uncalled=True)
        return _outcome(followed, status, delivery)


def _outcome(followed: Followed, status: WorkflowRunStatus | None, delivery: Delivery) -> Outcome:
    match followed:
        case Followed.STARTED:
            return Outcome(OutcomeKind.SNOOZED, retry_after=_FIRST_LOOK)
        case Followed.GOES_ON:
            later = _SECOND_LOOK if delivery.attempt <= 2 else _LATER_LOOKS
            return Outcome(OutcomeKind.SNOOZED, retry_after=later)
        case Followed.SUCCEEDED:
            told = msgspec.json.encode({"workflow_run_id": delivery.key.id, "status": status})
            return Outcome(OutcomeKind.SUCCEEDED, result=told.decode())
        case Followed.CANCELLED:
            return Outcome(OutcomeKind.CANCELLED, error=f"its workflow run is {status}")
        case Followed.FAILED:
            return _failed(f"its workflow run {delivery.key.id} is {status}")


def _failed(error: str) -> Outcome:
    return Outcome(OutcomeKind.FAILED, error=error, retryable=False, uncalled=True)
