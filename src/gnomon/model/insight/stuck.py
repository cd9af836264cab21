"""Stuck tasks: those that should have moved on by themselves, and that nothing known holds up.

A task is stuck where it
- runs, though its timeout, the grace after it and OVERRUN_GRACE have passed: somebody should have
  taken it over, and nobody did; or
- is READY for longer than `node.stuck_after_seconds` (a retry that is overdue among them), though a
  live node with a free slot serves it, nothing holds it (no limiter, quota, breaker, pause, run
  before it), and no due task is before it in its shard; or
- is READY for as long because nodes set it aside after an error about it.

What waits behind others, or for a slot, is late and not stuck. Pure.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from gnomon.model.insight.circumstances import Circumstances
from gnomon.model.insight.explanation import explain
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.task import Task

OVERRUN_GRACE = timedelta(seconds=60)


class StuckReason(StrEnum):
    """The way in which a task is stuck."""

    OVERRUN = "overrun"
    UNSTARTED = "unstarted"
    SET_ASIDE = "set_aside"


class Stuck(msgspec.Struct, frozen=True):
    """A task that is stuck, and since when it should have moved on."""

    reason: StuckReason
    since: datetime


STUCK_WORDS = {
    StuckReason.OVERRUN: "it should have ended, and nobody has taken it over",
    StuckReason.UNSTARTED: "nothing known holds it up, and it does not start",
    StuckReason.SET_ASIDE: "nodes have set it aside because of an error about it",
}


def stuck(
    task: Task, around: Circumstances, after: timedelta, with_free_slots: Collection[str]
) -> Stuck | None:
    """Whether a task is stuck. `with_free_slots`: the names of live nodes that could start one."""
    if task.status is Status.RUNNING:
        until = around.run_until
        if until is None or around.now < until + OVERRUN_GRACE:
            return None
        return Stuck(StuckReason.OVERRUN, until)
    due_at = around.due_at
    if task.status is not Status.READY or due_at is None or around.now < due_at + after:
        return None
    if any(each.subject == f"task {task.task_id}" for each in around.failing):
        return Stuck(StuckReason.SET_ASIDE, due_at)
    if around.server not in with_free_slots or around.ahead > 0:
        return None
    if explain(task, around).held_by:
        return None
    return Stuck(StuckReason.UNSTARTED, due_at)
