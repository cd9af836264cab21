"""Refuses tasks for lanes in which too much waits already."""

from datetime import datetime, timedelta

from gnomon.model.fleet.crowding import SOON_SECONDS, LaneCrowded, LaneKey, spread
from gnomon.model.tasks.task import Submission
from gnomon.store.tenant_cache import TenantCache

_SOON = timedelta(seconds=SOON_SECONDS)


def check_crowd(directory: TenantCache, submission: Submission, now: datetime) -> None:
    """Raises LaneCrowded. What is due later makes no lane deeper now, and may be submitted."""
    if not directory.crowds:
        return
    lane = submission.priority
    crowd = directory.crowds.get(LaneKey(submission.tenant_id, lane))
    if crowd is not None and submission.due_at <= now + _SOON:
        raise LaneCrowded(lane, crowd, spread(crowd.wait, submission.id.int))
