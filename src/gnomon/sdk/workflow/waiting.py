"""Steps that wait, for a signal or for a time. They take no slot."""

from datetime import datetime
from typing import Any, TypeVar, cast

import msgspec

from gnomon.client.types.workflows import WaitSpec
from gnomon.model.duration import Duration, seconds_of
from gnomon.sdk.errors import InvalidWorkflow
from gnomon.sdk.values import encode_other
from gnomon.sdk.workflow.references import RunValue
from gnomon.sdk.workflow.steps import Step, StepTask

T = TypeVar("T")


def wait_for_signal(
    name: str,
    of: type[T] = cast("type[Any]", object),  # noqa: B008 - a signal of any type
    *,
    timeout: Duration | None = None,
    otherwise: T | msgspec.UnsetType = msgspec.UNSET,
) -> Step[T]:
    """A step that waits until somebody sends this signal to the run, and whose output is its data:
    a value of the type `of`. After `timeout` its output is `otherwise`; without that it has
    failed. Raises InvalidWorkflow."""
    del of  # for type checkers
    if otherwise is not msgspec.UNSET and timeout is None:
        raise InvalidWorkflow(f"the signal {name}: otherwise= needs a timeout=")
    wait = WaitSpec(signal=name)
    if timeout is not None:
        wait = msgspec.structs.replace(wait, timeout_seconds=seconds_of(timeout))
    if otherwise is not msgspec.UNSET:
        known = msgspec.json.decode(_encoder.encode(otherwise))
        wait = msgspec.structs.replace(wait, timeout_result=known)
    return Step(name, StepTask({"wait_for": wait}, None))


def wait_for_time(
    delay: Duration | None = None, *, until: datetime | str | None = None
) -> Step[None]:
    """A step that waits for so long once its turn has come, or until a moment, which may be a part
    of an output. Raises InvalidWorkflow."""
    if (delay is None) == (until is None):
        raise InvalidWorkflow("wait_for_time: give how long, or until=")
    if delay is not None:
        return Step("wait", StepTask({"wait_for": WaitSpec(seconds=seconds_of(delay))}, None))
    return Step("wait", StepTask({"wait_for": WaitSpec(until=_moment(until))}, None))


def _moment(until: object) -> str:
    if isinstance(until, datetime):
        if until.tzinfo is None:
            raise InvalidWorkflow(f"wait_for_time: {until.isoformat()} has no zone")
        return until.isoformat()
    if isinstance(until, str | RunValue):
        return str(until)
    raise InvalidWorkflow(f"wait_for_time: {until!r} is no moment")


_encoder = msgspec.json.Encoder(enc_hook=encode_other)
