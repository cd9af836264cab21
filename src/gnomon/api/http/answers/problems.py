"""Errors as problem documents (RFC 9457): what is wrong, where, and what would be right."""

from typing import Any

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException

from gnomon.access.grant_errors import (
    KeyForbidden,
    LimitedKey,
    OperatorNeeded,
    TargetForbidden,
    TenantNeeded,
    TypeForbidden,
)
from gnomon.access.secret_errors import LastSecret, SecretEnded, SecretNotFound, TooManySecrets
from gnomon.api.http.bounds.pace import pace_headers
from gnomon.api.http.requests.paths import shown_path
from gnomon.model.bulk_errors import (
    BulkOperationNotFound,
    CountChanged,
    TooManyBulkOperations,
)
from gnomon.model.errors import (
    EventNotFound,
    EventsGone,
    GnomonError,
    IdempotencyConflict,
    IdempotencyPending,
    IllegalTransition,
    InvalidTask,
    LimiterNotFound,
    Overloaded,
    OverQuota,
    PayloadTooLarge,
    QuotaExceeded,
    RoleMissing,
    SchemasTooLarge,
    StoreUnavailable,
    TaskNotFound,
    TaskTypeNotFound,
    TenantExists,
    TenantInUse,
    TenantNotFound,
    TooManyLimiters,
    TooManyTaskTypes,
    Unauthenticated,
    Unstorable,
    ViewersFull,
    WaitersFull,
)
from gnomon.model.feed_errors import FeedNotFound, TooManyFeeds
from gnomon.model.fleet.crowding import LaneCrowded
from gnomon.model.fleet.room import DatabaseFull
from gnomon.model.insight.transition import TransitionsGone
from gnomon.model.job_errors import CronJobNotFound, DefinitionChanged, NameTaken, Overlapping
from gnomon.model.key_errors import KeyEnded, KeyNotFound, KeyRingFull, TooManyKeys
from gnomon.model.saved_view_errors import SavedViewNotFound, TooManySavedViews
from gnomon.model.session_errors import (
    GatewayUnready,
    TooManyWorkerSessions,
    WorkerSessionGone,
    WorkerSessionNotFound,
    WrongSessionSecret,
)
from gnomon.model.subscription_errors import (
    InvalidToken,
    NotConfirmed,
    NotificationNotFound,
    SubscriptionNotFound,
    TooManyConfirmations,
    TooManySubscriptions,
    TooManyTests,
)
from gnomon.model.workflow_errors import (
    BatchIsClosed,
    BatchIsFull,
    BatchNotFound,
    OutputNotFound,
    RunHasEnded,
    SignalDiffers,
    TooManyBatches,
    TooManySignals,
    TooManyWorkflows,
    WorkflowNotFound,
    WorkflowRunNotFound,
)

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = "1"
_WORKER_SESSIONS = "/api/v1/worker-sessions"
ROOM_SECONDS = "30"  # somebody has to make it

_log = structlog.get_logger(__name__)
_IN_THE_LOG = "see the log of the API process, by the X-Request-ID of this answer"

# Errors that say all there is to say, by their status.
_STATUSES: dict[type, int] = {
    **dict.fromkeys((RoleMissing, OperatorNeeded, TenantNeeded, KeyForbidden, LimitedKey), 403),
    **dict.fromkeys((TypeForbidden, TargetForbidden), 403),
    **dict.fromkeys((TaskNotFound, CronJobNotFound, TaskTypeNotFound), 404),
    **dict.fromkeys((LimiterNotFound, KeyNotFound, SecretNotFound, TenantNotFound), 404),
    **dict.fromkeys((IllegalTransition, Overlapping, KeyEnded, SecretEnded, LastSecret), 409),
    **dict.fromkeys((TooManyKeys, KeyRingFull, TooManySecrets, TooManyLimiters), 409),
    **dict.fromkeys((TooManyTaskTypes, SchemasTooLarge, TenantExists, TenantInUse), 409),
    **dict.fromkeys((SubscriptionNotFound, NotificationNotFound, InvalidToken), 404),
    **dict.fromkeys((TooManySubscriptions, NotConfirmed), 409),
    **dict.fromkeys((TooManyConfirmations, TooManyTests), 429),
    SavedViewNotFound: 404,
    FeedNotFound: 404,
    TooManyFeeds: 409,
    TooManySavedViews: 409,
    **dict.fromkeys((BulkOperationNotFound, EventNotFound), 404),
    **dict.fromkeys((TooManyBulkOperations, CountChanged, DefinitionChanged), 409),
    **dict.fromkeys((WorkflowNotFound, WorkflowRunNotFound, OutputNotFound), 404),
    **dict.fromkeys((RunHasEnded, TooManyWorkflows, SignalDiffers, TooManySignals), 409),
    BatchNotFound: 404,
    **dict.fromkeys((BatchIsClosed, BatchIsFull, TooManyBatches), 409),
    EventsGone: 410,
    TransitionsGone: 410,
    WorkerSessionGone: 410,
    WorkerSessionNotFound: 404,
    WrongSessionSecret: 403,
    TooManyWorkerSessions: 409,
    PayloadTooLarge: 413,
    **dict.fromkeys((Unstorable, IdempotencyConflict), 422),
}


class FieldError(msgspec.Struct, frozen=True):
    """One invalid value; `pointer` is its JSON pointer."""

    pointer: str
    detail: str


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A problem document."""

    type: str
    title: str
    status: int
    detail: str
    errors: tuple[FieldError, ...] = ()
    # Where a quota is exceeded: its name, its value, and what is used or was asked for.
    quota: str | None = None
    limit: float | None = None
    used: float | None = None


class RequestError(GnomonError):
    """A request that is refused with a status of HTTP."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class BodyLate(GnomonError):
    """A body that did not arrive in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            "the body did not arrive in time: a body, and of a large one each MiB, has to arrive "
            f"within {seconds:g} s"
        )


class Busy(GnomonError):
    """The process has as much in progress as it can hold."""


class NoRoom(Busy):
    """A body that waited too long for memory."""

    def __init__(self) -> None:
        super().__init__(
            "too many bytes of requests are in progress; try again, or send less at once"
        )


class TooManyBodies(Busy):
    """A body of a tenant that sends too many at once."""

    def __init__(self) -> None:
        super().__init__(
            "too many bodies of this tenant are arriving; send each of them at once and whole, or "
            "fewer at a time, and try again"
        )


class GaveWay(Busy):
    """A body that was ended to make room for another request."""

    def __init__(self) -> None:
        super().__init__(
            "too many bodies are arriving, and this one has taken longest; send it at once and "
            "whole, and try again"
        )


class RestartNeeded(GnomonError):
    """Authentication was turned on after this process was started."""

    def __init__(self) -> None:
        super().__init__(
            "authentication was turned on for this database, and this process was started before "
            "that; restart it"
        )


# The slug and title of each status, here and in the OpenAPI document.
TITLES = {
    400: ("malformed", "Malformed request"),
    401: ("unauthenticated", "Unauthorized"),
    403: ("forbidden", "Forbidden"),
    404: ("not-found", "Not found"),
    405: ("method-not-allowed", "Method not allowed"),
    408: ("timeout", "Request timeout"),
    409: ("conflict", "Conflict"),
    410: ("gone", "Gone"),
    413: ("too-large", "Request too large"),
    415: ("unsupported-media-type", "Unsupported media type"),
    422: ("invalid", "Invalid value"),
    429: ("too-many-requests", "Too many requests"),
    500: ("internal", "Internal error"),
    503: ("unavailable", "PostgreSQL is unavailable"),
    507: ("no-room", "No room for new work"),
}


def problem(status: int, detail: str, errors: tuple[FieldError, ...] = ()) -> Problem:
    slug, title = TITLES.get(status, ("http", "Request failed"))
    return Problem(
        type=f"urn:gnomon:problem:{slug}", title=title, status=status, detail=detail, errors=errors
    )


def answer_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The exception handler of the application."""
    found, headers = described(error)
    if found.status == 503 and request.scope["path"].startswith(_WORKER_SESSIONS):
        # The next call of the worker may then be led to another process.
        headers = {**headers, "Connection": "close"}
    if found.status == 500:
        _log.error(
            "request failed", method=request.method, path=shown_path(request.scope), exc_info=error
        )
    return Response(
        msgspec.json.encode(found),
        status_code=found.status,
        media_type=MEDIA_TYPE,
        headers=headers,
    )


def described(error: Exception) -> tuple[Problem, dict[str, str]]:
    """The document for an error, and the headers that go with it."""
    again = {"Retry-After": RETRY_SECONDS}
    match error:
        case Unauthenticated():
            return problem(401, str(error)), {"WWW-Authenticate": _challenge(error)}
        case QuotaExceeded():
            return _over_quota(problem(429, str(error)), error.over), _in_time(error)
        case LaneCrowded():
            return _crowded(error), {"Retry-After": str(error.wait)}
        case InvalidTask():
            return _invalid(_status_of(error, 422), error), {}
        case NameTaken():
            return problem(409, f"{error} with PUT"), {}
        case IdempotencyPending():
            return problem(409, f"{error}; repeat this request to get its answer"), again
        case Overloaded():
            return problem(429, str(error)), again
        case DatabaseFull():
            return problem(507, str(error)), {"Retry-After": ROOM_SECONDS}
        case StoreUnavailable():
            return problem(503, _unavailable()), again
        case BodyLate():
            return problem(408, str(error)), {"Connection": "close"}
        case Busy() | WaitersFull() | ViewersFull() | GatewayUnready():
            return busy(str(error)), again
        case RestartNeeded():
            return _restart_needed(str(error)), {}
        case RecursionError():
            return problem(422, "the body is nested too deeply"), {}
        case RequestError():
            return problem(error.status, error.detail), {}
        case HTTPException():
            return _routing(error), dict(error.headers or {})
    status = _status_of(error, 500)
    # The text of an unexpected error may hold anything; the log has it.
    return problem(status, str(error) if status != 500 else _IN_THE_LOG), {}


def _status_of(error: Exception, default: int) -> int:
    return next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), default)


def busy(detail: str) -> Problem:
    """503 not because of PostgreSQL, but of this process: another one may have room."""
    return msgspec.structs.replace(
        problem(503, detail),
        type="urn:gnomon:problem:busy",
        title="Too many requests in progress",
    )


def _restart_needed(detail: str) -> Problem:
    return msgspec.structs.replace(
        problem(503, detail),
        type="urn:gnomon:problem:restart-needed",
        title="Restart needed",
    )


def _challenge(error: Unauthenticated) -> str:
    return 'Bearer error="invalid_token"' if error.given else "Bearer"


def _invalid(status: int, error: InvalidTask) -> Problem:
    where = f"{error.pointer}: " if error.pointer else ""
    errors = tuple(FieldError(*mistake) for mistake in error.mistakes)
    found = problem(status, f"{where}{error.detail}", errors)
    return found if error.over is None else _over_quota(found, error.over)


def _over_quota(found: Problem, over: OverQuota) -> Problem:
    return msgspec.structs.replace(
        found,
        type="urn:gnomon:problem:quota-exceeded",
        title="Quota exceeded",
        **over._asdict(),
    )


def _crowded(error: LaneCrowded) -> Problem:
    found = problem(429, str(error))
    if error.over is not None:
        return _over_quota(found, error.over)
    return msgspec.structs.replace(
        found, type="urn:gnomon:problem:crowded", title="Too many tasks wait"
    )


def _in_time(error: QuotaExceeded) -> dict[str, str]:
    again = {} if error.wait is None else {"Retry-After": str(error.wait)}
    return again | pace_headers(error.pace)


def _unavailable() -> str:
    # The text of the driver names hosts and users: it goes to the log, not to the caller.
    return (
        "nothing was acknowledged; try again. A request that changes something may have taken "
        "effect: repeat it under the same Idempotency-Key to be sure that it does once"
    )


def _routing(error: HTTPException) -> Problem:
    details = {
        404: "nothing is served under this path; see /api/v1/docs",
        405: "see the header Allow for the methods of this path",
    }
    return problem(error.status_code, details.get(error.status_code, error.detail))
