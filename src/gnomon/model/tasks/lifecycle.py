"""The life of a task as one table: which event leads from which state to which.

Everything that changes a task's state goes through `after`, or is a statement whose comment names
the row of this table that it carries out. `docs/state-machine.md` is drawn from it.
"""

from datetime import datetime
from enum import Enum, IntEnum, StrEnum


class State(IntEnum):
    """The state as it is stored: live below `COMPLETED`, in the archive from there on."""

    WAITING = 0
    RUNNING = 1
    PAUSED = 2
    BLOCKED = 3
    DEAD = 4
    COMPLETED = 10
    CANCELLED = 11
    EXPIRED = 12
    RESOLVED = 13  # a dead letter that was archived or discarded

    @property
    def is_final(self) -> bool:
        return self >= State.COMPLETED


class Status(StrEnum):
    """The status as the API shows it. A WAITING task is SCHEDULED, READY or FAILED."""

    SCHEDULED = "SCHEDULED"
    READY = "READY"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    COMPLETED = "COMPLETED"
    DEAD_LETTERED = "DEAD_LETTERED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    PAUSED = "PAUSED"
    BLOCKED = "BLOCKED"

    @property
    def is_over(self) -> bool:
        """Whether nothing will happen to the task any more."""
        return self in (Status.COMPLETED, Status.CANCELLED, Status.EXPIRED)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more happens by itself: it is over, or a dead letter."""
        return self.is_over or self is Status.DEAD_LETTERED


class Event(Enum):
    """Events in the life of a task. The value is the participle, for messages."""

    CLAIM = "claimed"
    SUCCEED = "completed"
    RETRY = "retried later"
    GIVE_UP = "dead-lettered"
    RELEASE = "released"
    EXPIRE = "expired"
    CANCEL = "cancelled"
    INTERRUPT = "interrupted"
    PAUSE = "paused"
    RESUME = "resumed"
    CHANGE = "changed"
    REDRIVE = "retried"
    RESOLVE = "resolved"
    BLOCK = "blocked"
    UNBLOCK = "unblocked"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.WAITING, Event.CLAIM): State.RUNNING,
    (State.WAITING, Event.CANCEL): State.CANCELLED,
    (State.WAITING, Event.PAUSE): State.PAUSED,
    (State.WAITING, Event.CHANGE): State.WAITING,
    (State.WAITING, Event.BLOCK): State.BLOCKED,
    (State.RUNNING, Event.SUCCEED): State.COMPLETED,
    (State.RUNNING, Event.RETRY): State.WAITING,
    (State.RUNNING, Event.GIVE_UP): State.DEAD,
    (State.RUNNING, Event.RELEASE): State.WAITING,
    (State.RUNNING, Event.EXPIRE): State.EXPIRED,
    (State.RUNNING, Event.INTERRUPT): State.CANCELLED,
    (State.PAUSED, Event.RESUME): State.WAITING,
    (State.PAUSED, Event.CANCEL): State.CANCELLED,
    (State.PAUSED, Event.CHANGE): State.PAUSED,
    (State.BLOCKED, Event.UNBLOCK): State.WAITING,
    (State.BLOCKED, Event.CANCEL): State.CANCELLED,
    (State.BLOCKED, Event.GIVE_UP): State.DEAD,  # a node of a workflow whose template does not fit
    (State.BLOCKED, Event.SUCCEED): State.COMPLETED,  # one that only waits, or is mapped
    (State.BLOCKED, Event.CHANGE): State.BLOCKED,
    (State.DEAD, Event.REDRIVE): State.WAITING,
    (State.DEAD, Event.RESOLVE): State.RESOLVED,
}


def after(state: State, event: Event) -> State | None:
    """The state that `event` leads to, or None where it cannot happen."""
    return TRANSITIONS.get((state, event))


def status_of(state: State, due_at: datetime, attempt: int, now: datetime) -> Status:
    """The status that users see."""
    if state is State.WAITING:
        if due_at <= now:
            return Status.READY
        return Status.FAILED if attempt > 0 else Status.SCHEDULED
    return _SHOWN[state]


_SHOWN = {
    State.RUNNING: Status.RUNNING,
    State.PAUSED: Status.PAUSED,
    State.BLOCKED: Status.BLOCKED,
    State.DEAD: Status.DEAD_LETTERED,
    State.COMPLETED: Status.COMPLETED,
    State.CANCELLED: Status.CANCELLED,
    State.EXPIRED: Status.EXPIRED,
    State.RESOLVED: Status.DEAD_LETTERED,
}
