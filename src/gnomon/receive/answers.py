"""The answer that tells a node what is to become of a task."""

from typing import Any

import msgspec

from gnomon.receive.errors import BadPayload, NotGenuine, Repeated, Stale
from gnomon.sdk.signals import Reject, Retry, Snooze

# What a receiver may raise, and `answer_to` has an answer for. The rest is the framework's: a 500.
ANSWERED = (Snooze, Reject, Retry, Repeated, Stale, NotGenuine, BadPayload)


class WebhookAnswer(msgspec.Struct, frozen=True):
    """An answer, for whatever framework is to send it."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = {}

    @property
    def all_headers(self) -> dict[str, str]:
        return {"content-type": "application/json", **self.headers}


def success(value: Any = None) -> WebhookAnswer:
    """2xx completes the task. The node keeps the beginning of the body, as text."""
    return WebhookAnswer(200, msgspec.json.encode(value)) if value is not None else _NOTHING


def answer_to(raised: BaseException) -> WebhookAnswer:
    """The answer to what a receiver raised, if it is one of ANSWERED."""
    match raised:
        case Repeated():
            return _told(200, raised)
        case NotGenuine():
            return _told(401, raised)
        case BadPayload() | Reject():
            return _told(422, raised)  # a dead letter
        case Stale():
            return _told(409, raised)
        case Snooze():
            # 425 is retried and opens no breaker, also where a node does not know the second one.
            wait = _seconds(raised.seconds)
            return _told(425, raised, {"retry-after": wait, "gnomon-snooze": wait})
        case Retry(seconds=None):
            return _told(503, raised)
        case Retry():
            return _told(503, raised, {"retry-after": _seconds(raised.seconds or 0.0)})
    raise AssertionError(f"there is no answer to {type(raised).__name__}") from raised


_NOTHING = WebhookAnswer(200, b"null")


def _told(
    status: int, raised: BaseException, headers: dict[str, str] | None = None
) -> WebhookAnswer:
    return WebhookAnswer(status, msgspec.json.encode({"detail": str(raised)}), headers or {})


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
