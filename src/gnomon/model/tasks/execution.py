"""An execution: one call of a task's target, as it is read back."""

from datetime import datetime

import msgspec


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a task's target; `attempt` is its number."""

    attempt: int
    outcome: str  # an OutcomeKind's label, or "running"
    worker: str | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    response_status: int | None
    response_body: str | None
    result: bytes | None  # JSON
    traceback: str | None  # of one that failed in a handler
