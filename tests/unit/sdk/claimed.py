"""A claimed task and its context, for handlers that are run without a node."""

import asyncio
from collections.abc import Callable
from uuid import UUID

from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.app import Gnomon
from gnomon.sdk.executing.context import TaskContext

ID = UUID("01930000-0000-7000-8000-000000000001")


def delivery(task_type: str = "greet", attempt: int = 1) -> Delivery:
    return Delivery(
        key=TaskKey("default", ID),
        fence=7,
        incarnation=UUID(int=2),
        attempt=attempt,
        retries_left=3,
        losses=0,
        target=PythonTarget(task_type),
        payload=None,
        payload_size=None,
        timeout_seconds=30.0,
        retry_policy=RetryPolicy(),
        task_type=task_type,
        lane=Lane.MEDIUM,
        scheduled_for=1_800_000_000.0,
        start_by=1_800_000_010.0,
        idempotency_key="k-1",
        expired=False,
    )


def context(task_type: str = "greet") -> TaskContext:
    return TaskContext(delivery(task_type))


async def in_thread(call: Callable[[], object]) -> object:
    return await asyncio.to_thread(call)


async def executed(app: Gnomon, name: str, payload: bytes | None = None) -> object:
    """Run a handler once, as a node does."""
    return await app.execute(name, payload, context(name), in_thread)
