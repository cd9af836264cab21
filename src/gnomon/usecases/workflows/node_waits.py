"""Requests for nodes that wait, for a signal or for a time, and what they mean."""

from typing import Annotated
from uuid import UUID

import msgspec

from gnomon.model.errors import InvalidTask
from gnomon.usecases.checks.request_fields import LONGEST_DELAY, Json, Strict
from gnomon.usecases.tasks.task_requests import SubmitTask
from gnomon.usecases.tasks.task_template import payload_of
from gnomon.workflow.template import CannotRender, Reference, TemplateValues, references
from gnomon.workflow.wait import MOST_SIGNAL_BYTES, NodeWait, moment_of

WAITING = "gnomon.wait"  # the function of their tasks; nobody calls it
SIGNAL_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.:-]*$"
SignalName = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=SIGNAL_PATTERN)]
WaitingSeconds = Annotated[float, msgspec.Meta(ge=0.001, le=LONGEST_DELAY)]
# Fields of tasks that mean something where nothing runs.
_MEANT = ("task_type", "name", "tags", "correlation_id")


class WaitFor(Strict):
    """What a node waits for: a signal (with a time-out, and the result that it then has), or some
    seconds, or until a moment."""

    signal: SignalName | None = None
    timeout_seconds: WaitingSeconds | None = None
    timeout_result: Json | msgspec.UnsetType = msgspec.UNSET
    seconds: WaitingSeconds | None = None
    until: Annotated[str, msgspec.Meta(min_length=1, max_length=500)] | None = None


class SendSignal(Strict):
    """A signal: its data, which is the result of the nodes that wait for it."""

    data: Json | msgspec.UnsetType = msgspec.UNSET


def wait_of(asked: WaitFor) -> NodeWait:
    """What a node waits for. Raises InvalidTask, with the place below the node."""
    given = [asked.signal, asked.seconds, asked.until]
    if given.count(None) != 2:
        raise InvalidTask("must have one of signal, seconds and until", "/wait_for")
    if asked.timeout_seconds is not None and asked.signal is None:
        raise InvalidTask("is for a signal", "/wait_for/timeout_seconds")
    if asked.timeout_result is not msgspec.UNSET and asked.timeout_seconds is None:
        raise InvalidTask(
            "needs timeout_seconds: it is the result once these are over",
            "/wait_for/timeout_result",
        )
    seconds = asked.seconds if asked.signal is None else asked.timeout_seconds
    payload_of(asked.timeout_result, MOST_SIGNAL_BYTES, "/wait_for/timeout_result")
    wait = NodeWait(asked.signal, seconds, asked.until, asked.timeout_result)
    if asked.until is not None and not until_references(wait):
        _check_moment(wait)
    return wait


def until_references(wait: NodeWait) -> list[Reference]:
    """The references in the moment of a wait. Raises InvalidTask, with the place."""
    if wait.until is None:
        return []
    return references(msgspec.json.encode(wait.until), "/wait_for/until")


def check_only_waits(body: SubmitTask) -> None:
    """Raises InvalidTask for what is said of a task that would run."""
    for field in msgspec.structs.fields(SubmitTask):
        if field.name not in _MEANT and getattr(body, field.name) != field.default:
            raise InvalidTask("is not for a node that waits: it runs nothing", f"/{field.name}")


def _check_moment(wait: NodeWait) -> None:
    try:
        moment_of(wait, TemplateValues(_NO_RUN, None))
    except CannotRender as error:
        raise InvalidTask(str(error).removeprefix("until: "), "/wait_for/until") from error


_NO_RUN = UUID(int=0)
