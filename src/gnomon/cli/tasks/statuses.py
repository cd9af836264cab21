"""The statuses of tasks in words: what each means, and what happens next. Pure."""

from datetime import datetime
from typing import TYPE_CHECKING

from gnomon.cli.shared.output import coarse

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json

LEGEND = """\b
Statuses:
  SCHEDULED      waits for its time
  READY          is due, and waits for a free slot: `tasks explain` says why
  RUNNING        is being executed
  FAILED         its last execution failed; it waits for its retry
  COMPLETED      has succeeded
  DEAD_LETTERED  has failed for good: `dead retry` runs it again
  CANCELLED      was cancelled
  EXPIRED        had not started when its expires_at was over
  PAUSED         waits for `tasks resume`
  BLOCKED        waits for the cron run before it, or for its workflow"""


def short(task: "Json", now: datetime) -> str:
    """The status for a row of a table. FAILED alone reads as if it were over."""
    status: str = task["status"]
    if status == "FAILED":
        return f"FAILED, retry {until(task.get('next_retry_at'), now)}"
    if status == "RUNNING" and task.get("cancel_requested"):
        return "RUNNING, being cancelled"
    if status == "DEAD_LETTERED" and task.get("resolution"):
        return f"DEAD_LETTERED, {str(task['resolution']).lower()}"
    return status


def sentence(task: "Json", now: datetime) -> str:
    """The status, and what it means for this task."""
    meaning = _meaning(task, now)
    return f"{task['status']}: {meaning}" if meaning else str(task["status"])


def until(at: str | None, now: datetime) -> str:
    """How long it is until a moment of the API: "in 12s", "in 5m", or "now" where it is past."""
    if at is None:
        return "later"
    seconds = (datetime.fromisoformat(at) - now).total_seconds()
    return f"in {coarse(seconds)}" if seconds >= 1 else "now"


def _meaning(task: "Json", now: datetime) -> str:
    match task["status"]:
        case "SCHEDULED":
            return f"waits for its time, {until(task.get('execute_at'), now)}"
        case "READY":
            return "is due and waits for a free slot; `gnomon tasks explain` says why"
        case "RUNNING":
            return "its cancelling was asked for" if task.get("cancel_requested") else ""
        case "FAILED":
            at = until(task.get("next_retry_at"), now)
            return f"its last execution failed; it is retried {at}"
        case "DEAD_LETTERED":
            return _dead(task)
        case "EXPIRED":
            return "it had not started in time"
        case "PAUSED":
            return "waits for `gnomon tasks resume`"
        case "BLOCKED":
            if task.get("workflow_run_id"):
                return "waits for other nodes of its workflow run"
            if task.get("batch_id"):
                return "waits for the tasks of its batch"
            return "waits until the run of its cron job before it has ended"
        case _:
            return ""


def _dead(task: "Json") -> str:
    if task.get("resolution"):
        return f"was {str(task['resolution']).lower()}"
    return "has failed for good; `gnomon dead retry` runs it again"
