"""Statuses as filters of rows."""

import msgspec

from gnomon.model.tasks.lifecycle import State, Status


class _Shown(msgspec.Struct, frozen=True):
    """A status in terms of the row: which states, and whether it is due and was executed before."""

    states: tuple[State, ...]
    due: bool | None = None
    tried: bool | None = None


_SHOWN = {
    Status.SCHEDULED: _Shown((State.WAITING,), due=False, tried=False),
    Status.READY: _Shown((State.WAITING,), due=True),
    Status.FAILED: _Shown((State.WAITING,), due=False, tried=True),
    Status.RUNNING: _Shown((State.RUNNING,)),
    Status.PAUSED: _Shown((State.PAUSED,)),
    Status.BLOCKED: _Shown((State.BLOCKED,)),
    Status.COMPLETED: _Shown((State.COMPLETED,)),
    Status.CANCELLED: _Shown((State.CANCELLED,)),
    Status.EXPIRED: _Shown((State.EXPIRED,)),
    Status.DEAD_LETTERED: _Shown((State.DEAD, State.RESOLVED)),
}


def status_columns(
    status: Status | None,
) -> tuple[list[State] | None, bool | None, bool | None]:
    """The states of a status, whether it is due, and whether it was executed before; None is no
    filter."""
    if status is None:
        return None, None, None
    shown = _SHOWN[status]
    return list(shown.states), shown.due, shown.tried
