"""A transition: one change of a task's state, as it is read back and streamed."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from gnomon.model.errors import GnomonError
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


class TransitionPlace(NamedTuple):
    """A place in the order of the stream: a transaction, and a place among what it appended."""

    xact: int
    place: int = 0

    def __str__(self) -> str:
        return f"{self.xact}.{self.place}"


class TransitionsGone(GnomonError):
    """Some of the transitions after a place were removed; or it is of a database that was set
    back."""

    def __init__(self, after: TransitionPlace) -> None:
        super().__init__(
            f"transitions after {after} are not kept any more, or not known: begin without a place,"
            " or with 0 for all that are kept"
        )
        self.after = after


class StreamedTransition(msgspec.Struct, frozen=True, kw_only=True):
    """A transition with its place in the order of the stream."""

    tenant_id: str
    task_id: UUID
    task_type: str
    position: TransitionPlace
    transition: Transition
