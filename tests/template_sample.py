"""A task template with a value of its own in every field: whoever loses one on the way is found."""

from typing import Any

from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DeliveryMode, KeepPayload

EVERY_FIELD: dict[str, Any] = {
    "task_type": "mail",
    "target": HttpTarget("http://127.0.0.1:9/hook", "PUT"),
    "priority": Lane.LOW,
    "delivery": DeliveryMode.EXACTLY_ONCE,
    "retry_policy": RetryPolicy(max_retries=9, jitter=False),
    "timeout_seconds": 7.5,
    "tags": ("a", "b"),
    "queue": "slow",
    "preemptible": True,
    "keep_payload": KeepPayload.FAILED,
    "sla_seconds": 5.5,
    "warn_after_seconds": 60.25,
}
# Who may run a task, and under which promise, is decided once.
UNCHANGEABLE = ("task_type", "delivery")
