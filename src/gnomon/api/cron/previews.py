"""`/cron-jobs/preview`: when a schedule would fire, before there is a job."""

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of
from gnomon.api.cron.schemas import PreviewView
from gnomon.api.cron.views import preview_view
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import decoded, read_body
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.cron import cron_preview
from gnomon.usecases.cron.cron_requests import PreviewSchedule


@Operation(
    "POST",
    "/preview",
    name="preview_cron_job",
    role=Role.READ,
    summary="Preview the fires of a schedule, with a description in words",
    body=PreviewSchedule,
    body_required=True,
    answers={200: PreviewView},
)
async def preview_cron_job(request: Request) -> ASGIResponse:
    clock = context_of(request).clock
    asked = decoded(await read_body(request, OVERHEAD_BYTES), PreviewSchedule)
    return respond(answer(200, preview_view(await cron_preview.preview(clock, asked))))
