"""What can be wrong, as data.

    GnomonError
    ├── InvalidTask            a submission or change that makes no sense, with the place
    │   ├── InvalidSchedule    times that cannot be read, or never come
    │   └── PayloadTooLarge
    ├── TaskNotFound           unknown here, or another tenant's
    ├── CronJobNotFound        likewise
    ├── NameTaken              another cron job has this name
    ├── Overlapping            a run of the cron job has not ended
    ├── IllegalTransition      the task is in a state that forbids this
    ├── IdempotencyConflict    a key used before, for something else
    ├── IdempotencyPending     a key whose first request is still under way
    ├── Unstorable             a value that PostgreSQL cannot hold
    ├── StoreUnavailable       PostgreSQL cannot be reached; nothing was done
    ├── LeaseLost              this node was declared dead
    ├── RunLost                a try whose task was taken over, or is completed already
    └── NoTransaction          a try that was to be completed outside of a transaction

An error names a condition; what to do about it is the catcher's business.
"""

from uuid import UUID


class GnomonError(Exception):
    """The root of every error that Gnomon raises on purpose."""


class InvalidTask(GnomonError):
    """A value that cannot be used; `pointer` is the JSON pointer of the place."""

    def __init__(self, detail: str, pointer: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer


class InvalidSchedule(InvalidTask):
    """An expression, interval, zone or template that cannot be used, and what could be instead."""


class PayloadTooLarge(InvalidTask):
    """A payload over the limit."""


class TaskNotFound(GnomonError):
    """No such task for this tenant."""

    def __init__(self, task_id: UUID | str) -> None:
        super().__init__(f"there is no task {task_id}")
        self.task_id = task_id


class CronJobNotFound(GnomonError):
    """No such cron job for this tenant."""

    def __init__(self, ref: UUID | str) -> None:
        super().__init__(f"there is no cron job {ref}")
        self.ref = ref


class NameTaken(GnomonError):
    """Another cron job of the tenant has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a cron job named {name!r} already; change it, or replace it")
        self.name = name


class Overlapping(GnomonError):
    """The policy of the cron job forbids another run before this one has ended."""

    def __init__(self, name: str, task_id: UUID | None) -> None:
        super().__init__(
            f"cron job {name!r} skips runs that overlap, and its run {task_id} has not ended; "
            "wait for it, cancel it, or set overlap_policy to queue"
        )
        self.name = name
        self.task_id = task_id


class IllegalTransition(GnomonError):
    """The task's state forbids the action."""

    def __init__(self, task_id: UUID, status: str, action: str, remedy: str = "") -> None:
        detail = f"task {task_id} is {status}, so it cannot be {action}"
        super().__init__(f"{detail}; {remedy}" if remedy else detail)
        self.task_id = task_id
        self.status = status
        self.action = action


class IdempotencyConflict(GnomonError):
    """The key was used before with another request."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"idempotency key {key!r} was used before with a different request; "
            "send the same request again, or a new key"
        )
        self.key = key


class IdempotencyPending(GnomonError):
    """The first request with this key has not been answered yet."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the first request with idempotency key {key!r} is still under way")
        self.key = key


class Unstorable(GnomonError):
    """A value that the store cannot hold; trying again cannot help."""


class StoreUnavailable(GnomonError):
    """PostgreSQL cannot be reached or refused the work; nothing was acknowledged."""


class LeaseLost(GnomonError):
    """This incarnation of the node was declared dead and may write nothing more."""


class RunLost(GnomonError):
    """The task is no longer this try's to complete: what the try wrote must be rolled back."""

    def __init__(self, task_id: UUID) -> None:
        super().__init__(
            f"task {task_id} cannot be completed by this try: it was given to another one, or is "
            "completed already; roll back"
        )
        self.task_id = task_id


class NoTransaction(GnomonError):
    """Outside of a transaction nothing would hold the completion and the writes together."""

    def __init__(self, task_id: UUID) -> None:
        super().__init__(
            f"task {task_id} can only be completed within a transaction, together with what the "
            "function writes; begin one, and do not use autocommit"
        )
        self.task_id = task_id
