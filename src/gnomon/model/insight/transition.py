"""A transition: one change of a task's state, as it is read back."""

from datetime import datetime

import msgspec

from gnomon.model.tasks.lifecycle import State


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a task's state, appended in the transaction that made it."""

    number: int  # of its task, from 1 on
    at: datetime
    from_state: State | None  # None: the task was stored
    to_state: State | None  # None: the task was deleted
    attempt: int
    fence: int
    node: str | None  # that ran it, or runs it from then on
