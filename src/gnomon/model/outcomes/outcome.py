"""The outcome of one execution of a task."""

from enum import Enum, IntEnum, auto

import msgspec


class OutcomeKind(IntEnum):
    """How an execution ended; stored as the number, shown as the name in lower case."""

    SUCCEEDED = 0
    FAILED = 1
    TIMED_OUT = 2
    LOST = 3  # the process that ran it died before it could tell
    SNOOZED = 4  # the handler asked to be called again later
    CANCELLED = 5
    PREEMPTED = 6  # ended to make room for a CRITICAL task

    @property
    def label(self) -> str:
        return self.name.lower()


class Loss(Enum):
    """The process that was lost with a task that is LOST."""

    NODE = auto()  # the node that ran it, or would not wait for it
    IN_GROUP = auto()  # the process that ran it in quarantine, with others
    ALONE = auto()  # that process, which had run nothing else


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts of an execution that ended. The verdict decides what follows from them."""

    kind: OutcomeKind
    error: str | None = None
    retryable: bool = True
    retry_after: float | None = None  # seconds that the receiver (or a snooze) asked for
    overrides_policy: bool = False  # that holds instead of the policy's wait, be it shorter
    response_status: int | None = None
    response_body: str | None = None
    result: str | None = None  # JSON
    loss: Loss = Loss.NODE  # of one that is LOST
    unreachable: bool = False  # a webhook's host did not answer: no connection, or no whole answer
    # Nobody was called: the fault lies with the task, or with this node. No breaker counts it.
    uncalled: bool = False
    internal: bool = False  # something within Gnomon has failed
    # The function completed the task in a transaction of its own. If that was committed the task
    # is settled; so this is what happened if it was not.
    completed_by_handler: bool = False
    traceback: str | None = None  # where a handler was when it failed, or was told to stop
    spawns: str | None = None  # JSON: tasks that it adds to its workflow run, if it is a success

    @property
    def is_own_failure(self) -> bool:
        """Whether Gnomon is to blame, and not the target: also for what was lost, unless the task
        was alone in the process that died of it."""
        return self.internal or (self.kind is OutcomeKind.LOST and self.loss is not Loss.ALONE)


SUCCESS = Outcome(OutcomeKind.SUCCEEDED)
