"""Requests about batches."""

from typing import Annotated

import msgspec

from gnomon.usecases.checks.request_fields import Name, Strict
from gnomon.usecases.tasks.task_requests import SubmitTask
from gnomon.workflow.batch import DEFAULT_DEADLINE, LONGEST_DEADLINE

CloseWithin = Annotated[float, msgspec.Meta(ge=1, le=LONGEST_DEADLINE)]


class OpenBatch(Strict):
    """A batch to put tasks into, and the tasks that follow: `on_success` once all have succeeded,
    `on_complete` once all have ended, whatever became of them."""

    name: Name | None = None
    on_success: SubmitTask | None = None
    on_complete: SubmitTask | None = None
    close_within_seconds: CloseWithin = DEFAULT_DEADLINE


class CancelBatch(Strict):
    """Options of cancelling a batch."""

    interrupt: bool = False
