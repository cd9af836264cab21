"""The headers that tell whoever is called about the task, and those by which it answers."""

import re
from collections.abc import Mapping
from datetime import datetime

from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.retry import LONGEST_WAIT
from gnomon.model.text import is_line
from gnomon.node.run.targets.signing import header_text
from gnomon.pipe.envelope import Delivery

NEVER_AGAIN = "it asked to be called again, which at_most_once never is"
_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")


def task_headers(delivery: Delivery, at: float) -> dict[str, str]:
    """The headers of a call at this moment, in seconds since the epoch. Raises ValueError for a key
    that no header can hold."""
    if not is_line(delivery.idempotency_key or ""):
        raise ValueError("its idempotency_key holds control characters, which no header can")
    task_id = str(delivery.key.id)
    headers = {
        "webhook-id": task_id,
        "webhook-timestamp": str(int(at)),
        "idempotency-key": delivery.idempotency_key or task_id,
        "gnomon-task-id": task_id,
        "gnomon-task-type": header_text(delivery.task_type),
        "gnomon-tenant": header_text(delivery.key.tenant_id),
        "gnomon-attempt": str(delivery.attempt),
        "gnomon-fence": str(delivery.fence),
        "gnomon-scheduled-for": rfc3339(delivery.execute_at),
    }
    if delivery.origin is not None:
        headers.update(_trace_headers(delivery.origin))
    return headers


def request_id(delivery: Delivery) -> str:
    """The value of `x-request-id`."""
    return str(delivery.key.id) if delivery.origin is None else delivery.correlation_id


def snooze_in(headers: Mapping[str, str]) -> float | None:
    """Seconds after which the receiver wants to be called again, without using up a retry."""
    text = headers.get("gnomon-snooze", "")
    return min(float(text), LONGEST_WAIT) if _SECONDS.fullmatch(text) else None


def rfc3339(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _trace_headers(origin: Origin) -> dict[str, str]:
    """The trace that what the receiver does belongs to, if it is sampled."""
    trace = origin.trace
    if trace is None:
        return {}
    state = {} if trace.state is None else {"tracestate": trace.state}
    return {"traceparent": trace.header, **state}
