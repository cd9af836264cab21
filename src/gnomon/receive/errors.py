"""Conditions that end a webhook call before, or instead of, the receiver's work."""

from uuid import UUID


class WebhookRefused(Exception):
    """A call that is not to be worked on.

    ├── NotGenuine   not signed with one of the secrets, or not now
    ├── BadPayload   genuine, and not of the type that the receiver expects
    ├── Repeated     its task was completed by an earlier call
    └── Stale        a later execution of its task has arrived already
    """


class NotGenuine(WebhookRefused):
    """Nobody who knows a secret of the receiver's has signed this call, for now."""


class BadPayload(WebhookRefused):
    """The payload is not what the receiver takes; no retry can help."""


class Repeated(WebhookRefused):
    """The task is completed: the transaction of an earlier call was committed."""

    def __init__(self, task_id: UUID) -> None:
        super().__init__(f"task {task_id} was completed by an earlier call")
        self.task_id = task_id


class Stale(WebhookRefused):
    """A call of a later execution has arrived: whoever made this one has been given up."""

    def __init__(self, task_id: UUID, fence: int, latest: int) -> None:
        super().__init__(f"task {task_id} has arrived with fence {latest}; {fence} is stale")
        self.task_id = task_id
        self.fence = fence
        self.latest = latest
