"""`/workflow-runs/{id}/signals`: signals that nodes of a run wait for."""

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import Answer, answer, changed
from gnomon.api.http.requests.reading import decoded, read_body
from gnomon.api.tasks.views import raw
from gnomon.api.workflows.runs import PATH, run_id_of
from gnomon.model.errors import InvalidTask
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.checks.request_fields import Json, Moment
from gnomon.usecases.workflows import signals
from gnomon.usecases.workflows.node_waits import SendSignal, SignalName
from gnomon.workflow.wait import MOST_SIGNAL_BYTES


class SignalView(msgspec.Struct, kw_only=True):
    """A signal as it was kept: the first of its name."""

    run_id: str
    signal: str
    data: Json
    sent_at: Moment
    sent_by: str | None


class SignalReceipt(msgspec.Struct):
    """The answer to those who may not read."""

    run_id: str
    signal: str


@Operation(
    "POST",
    "/{run_id:str}/signals/{name:str}",
    name="signal_workflow_run",
    role=Role.SUBMIT,
    summary="Send a signal to a run: nodes that wait for it, now or later, go on with its data",
    body=SendSignal,
    answers={200: SignalView},
    receipt=SignalReceipt,
    errors=(404, 409),
    grows=True,
    keyed=True,
)
async def signal_workflow_run(request: Request) -> ASGIResponse:
    run_id, by = run_id_of(request), principal_of(request)
    body = await read_body(request, MOST_SIGNAL_BYTES + OVERHEAD_BYTES)
    asked, now = decoded(body, SendSignal), context_of(request).clock.now()
    sent = signals.signal_in(by, signal_name_of(request), asked, now)

    async def act(change: PostgresTaskChange) -> Answer:
        kept = await signals.send(change, by, run_id, sent)
        view = SignalView(
            run_id=str(run_id),
            signal=kept.name,
            data=raw(kept.data),
            sent_at=kept.sent_at,
            sent_by=kept.sent_by,
        )
        return answer(200, view)

    return await changed(request, body, act)


def signal_name_of(request: Request) -> str:
    """The name in the path. Raises InvalidTask."""
    try:
        return msgspec.convert(request.path_params["name"], SignalName)
    except msgspec.ValidationError as error:
        raise InvalidTask(f"the name of a signal: {error}", "") from error


router = Router(PATH, route_handlers=[signal_workflow_run])
