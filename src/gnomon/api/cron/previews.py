"""`/cron-jobs/preview`: when a schedule would fire, before there is a job."""

from datetime import datetime

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of
from gnomon.api.cron.definitions import previewed_of
from gnomon.api.cron.schemas import PreviewSchedule, PreviewView
from gnomon.api.cron.views import preview_view
from gnomon.api.http.idempotency import answer, respond
from gnomon.api.http.operation import Operation
from gnomon.api.http.reading import decoded, read_body
from gnomon.api.tasks.submissions import utc
from gnomon.clock import Clock
from gnomon.cron.job import schedule_of
from gnomon.cron.schedule import Fire, Schedule
from gnomon.settings import OVERHEAD_BYTES

_AT_ONCE = 20


@Operation(
    "POST",
    "/preview",
    name="preview_cron_job",
    role=Role.READ,
    summary="Say when a schedule fires, and in words what it means",
    body=PreviewSchedule,
    body_required=True,
    answers={200: PreviewView},
)
async def preview_cron_job(request: Request) -> ASGIResponse:
    clock = context_of(request).clock
    body = await read_body(request, OVERHEAD_BYTES)
    asked = decoded(body, PreviewSchedule)
    seed = "" if asked.cron_job_id is None else str(asked.cron_job_id)
    schedule = schedule_of(previewed_of(asked), seed)
    after = utc(asked.after, "/after") or clock.now()
    fires = await _fires(schedule, after, asked.count, clock)
    return respond(answer(200, preview_view(fires, schedule.describe())))


async def _fires(schedule: Schedule, after: datetime, count: int, clock: Clock) -> list[Fire]:
    """A thousand fires of a rare schedule take a while: others get their turn in between. (Not in
    a thread: schedules are shared, and keep where they are.)"""
    found: list[Fire] = []
    while more := schedule.preview(after, min(_AT_ONCE, count - len(found))):
        found += more
        after = more[-1].at
        await clock.sleep(0)
    return found
