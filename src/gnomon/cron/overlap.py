"""Whether a run may start while another of its job has not ended. Pure.

The decision is asked for with the job's row locked, so it is about all of its runs at once.
"""

from datetime import datetime
from enum import Enum
from uuid import UUID

import msgspec

from gnomon.cron.job import Overlap
from gnomon.model.lifecycle import State


class Decision(Enum):
    """What becomes of a run that is about to start."""

    START = "start"
    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"  # cancel the one that is active, and start when it has ended


class Active(msgspec.Struct, frozen=True):
    """The task that a job names as its active one, as its row says."""

    task_id: UUID
    state: State
    attempt: int
    due_at: datetime
    cancel_requested: bool = False

    def holds(self, now: datetime) -> bool:
        """Whether it keeps others from starting: it has started and not ended, or is due. One
        that only waits for its time has no more than a reservation."""
        if self.state not in (State.WAITING, State.RUNNING, State.PAUSED):
            return False
        return self.attempt > 0 or (self.state is State.WAITING and self.due_at <= now)


def decide(policy: Overlap, *, active: bool, made_up: bool) -> Decision:
    """`active`: another run has not ended, or is queued before this one. `made_up`: the run makes
    up for a missed one. Those are queued, or one of them would shut out the rest."""
    if not active or policy is Overlap.ALLOW:
        return Decision.START
    if made_up or policy is Overlap.QUEUE:
        return Decision.QUEUE
    return Decision.REPLACE if policy is Overlap.CANCEL_RUNNING else Decision.SKIP
