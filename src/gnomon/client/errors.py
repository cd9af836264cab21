"""What a call to the API can come to, other than its answer.

ClientError
├── ApiUnreachable    nothing there that answers
└── ApiProblem        it answered, with a problem
"""

from collections.abc import Sequence

import msgspec


class InvalidField(msgspec.Struct, frozen=True):
    """What is wrong with one value of a request."""

    detail: str = ""
    pointer: str = ""


class ClientError(Exception):
    """The root of the client's errors."""


class ApiUnreachable(ClientError):
    """No answer: nothing listens there, or it does not speak in time."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"the API does not answer at {url} ({reason})")
        self.url = url
        self.reason = reason


class ApiProblem(ClientError):
    """An answer that is an RFC 9457 problem document, or was no answer of the API at all."""

    def __init__(
        self, status: int, title: str, detail: str = "", errors: Sequence[InvalidField] = ()
    ) -> None:
        lines = [f"{title}: {detail}" if detail else title]
        # One mistake alone is told in the detail already.
        lines += [f"{e.pointer or '/'}: {e.detail}" for e in errors if e.detail not in detail]
        super().__init__("\n  ".join(lines))
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = tuple(errors)
