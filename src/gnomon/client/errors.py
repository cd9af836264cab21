"""Errors of calls to the API.

ClientError             a GnomonError
├── ApiUnreachable      no answer
├── NotConnected        what to submit to cannot be used: no server installed, no database
├── WaitTimeout         the task has not ended in time (a TimeoutError too)
└── ApiProblem          the answer is an error
    ├── InvalidRequest  400, 413, 415, 422: `errors` has the places
    ├── Unauthorized    401
    ├── Forbidden       403
    ├── NotFound        404
    ├── Conflict        409
    ├── RateLimited     429
    ├── QuotaReached    a quota of the tenant: `quota`, `limit`, `used`
    └── Unavailable     500 and above: the server, its database or its disk
"""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from gnomon.model.errors import GnomonError
from gnomon.model.tasks.lifecycle import Status


class InvalidField(msgspec.Struct, frozen=True):
    """An invalid value in a request."""

    detail: str = ""
    pointer: str = ""


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The members of an RFC 9457 problem document that the client knows."""

    type: str = ""
    title: str = ""
    detail: str = ""
    errors: tuple[InvalidField, ...] = ()
    quota: str | None = None
    limit: float | None = None
    used: float | None = None


class ClientError(GnomonError):
    """The root of the client's errors."""


class ApiUnreachable(ClientError):
    """No answer: nothing listens there, or it did not answer in time. `advice` says what could be
    done about it."""

    def __init__(self, url: str, reason: str, advice: str | None = None) -> None:
        text = f"the API does not answer at {url} ({reason})"
        super().__init__(f"{text}; {advice}" if advice else text)
        self.url = url
        self.reason = reason
        self.advice = advice


class NotConnected(ClientError):
    """What an app is to submit to cannot be used, and what would be right."""


class WaitTimeout(ClientError, TimeoutError):
    """A task, or a run of a workflow, that had not ended when the time to wait for it was over. It
    goes on."""

    def __init__(
        self, task_id: UUID, status: Status | str, seconds: float, what: str = "task"
    ) -> None:
        super().__init__(f"{what} {task_id} is still {status} after {seconds:g} s, and goes on")
        self.task_id = task_id
        self.status = status
        self.seconds = seconds


class ApiProblem(ClientError):
    """An answer that is an RFC 9457 problem document, or not an answer of the API at all."""

    def __init__(
        self, status: int, problem: ProblemDocument, retry_after: float | None = None
    ) -> None:
        title, detail = problem.title, problem.detail
        lines = [f"{title}: {detail}" if detail else title]
        # A single invalid value is in the detail already.
        lines += [
            f"{e.pointer or '/'}: {e.detail}" for e in problem.errors if e.detail not in detail
        ]
        super().__init__("\n  ".join(lines))
        self.status = status
        self.problem = problem
        self.retry_after = retry_after  # seconds

    @property
    def type(self) -> str:
        """The problem's type, as `urn:gnomon:problem:not-found`; empty where a proxy answered."""
        return self.problem.type

    @property
    def title(self) -> str:
        return self.problem.title

    @property
    def detail(self) -> str:
        return self.problem.detail

    @property
    def errors(self) -> Sequence[InvalidField]:
        """The invalid values, each with its JSON pointer."""
        return self.problem.errors


class InvalidRequest(ApiProblem):
    """The request has a wrong or unknown field, or is too large."""


class Unauthorized(ApiProblem):
    """The server asks for a key, or does not know this one."""


class Forbidden(ApiProblem):
    """The key may not do this."""


class NotFound(ApiProblem):
    """There is none with this id or name."""


class Conflict(ApiProblem):
    """The state of the task, job or key does not allow it."""


class RateLimited(ApiProblem):
    """Too many requests; `retry_after` says when to try again."""


class QuotaReached(ApiProblem):
    """A quota of the tenant is used up. `retry_after` is None where waiting alone does not help."""

    @property
    def quota(self) -> str | None:
        return self.problem.quota

    @property
    def limit(self) -> float | None:
        return self.problem.limit

    @property
    def used(self) -> float | None:
        return self.problem.used


class Unavailable(ApiProblem):
    """The server cannot answer now: itself, its database or its disk."""


_QUOTA = "urn:gnomon:problem:quota-exceeded"
_KINDS: dict[int, type[ApiProblem]] = {
    **dict.fromkeys((400, 413, 415, 422), InvalidRequest),
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    429: RateLimited,
}


def problem_of(
    status: int, problem: ProblemDocument, retry_after: float | None = None
) -> ApiProblem:
    """The error for an answer, by the problem's type, else by the status."""
    if problem.type == _QUOTA:
        return QuotaReached(status, problem, retry_after)
    kind = _KINDS.get(status, Unavailable if status >= 500 else ApiProblem)
    return kind(status, problem, retry_after)
