"""Errors of calls to the API.

ClientError
├── ApiUnreachable    no answer
└── ApiProblem        the answer is an error
"""

from collections.abc import Sequence

import msgspec


class InvalidField(msgspec.Struct, frozen=True):
    """An invalid value in a request."""

    detail: str = ""
    pointer: str = ""


class ClientError(Exception):
    """The root of the client's errors."""


class ApiUnreachable(ClientError):
    """No answer: nothing listens there, or it did not answer in time."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"the API does not answer at {url} ({reason})")
        self.url = url
        self.reason = reason


class ApiProblem(ClientError):
    """An answer that is an RFC 9457 problem document, or not an answer of the API at all."""

    def __init__(
        self, status: int, title: str, detail: str = "", errors: Sequence[InvalidField] = ()
    ) -> None:
        lines = [f"{title}: {detail}" if detail else title]
        # A single invalid value is in the detail already.
        lines += [f"{e.pointer or '/'}: {e.detail}" for e in errors if e.detail not in detail]
        super().__init__("\n  ".join(lines))
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = tuple(errors)
