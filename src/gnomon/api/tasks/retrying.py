"""Whether a finished task has what a retry needs."""

from gnomon.model.errors import IllegalTransition
from gnomon.model.task import Task

_NO_PAYLOAD = (
    "its payload was not kept (keep_payload); submit a new task with the payload, or submit such "
    "tasks with keep_payload: failed or always"
)


def check_kept(task: Task) -> None:
    """Raises IllegalTransition where a finished task has lost what it would be called with."""
    if not task.payload_kept:
        raise IllegalTransition(task.task_id, task.status, "retried", _NO_PAYLOAD)
