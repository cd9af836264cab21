"""Errors, each with its data.

    GnomonError
    ├── InvalidTask            a submission or change that makes no sense, with the place
    │   ├── InvalidSchedule    times that cannot be read, or never come
    │   ├── InvalidPayload     a payload that is not as its task type's schema says
    │   ├── InvalidSchema      a JSON Schema that cannot be used
    │   ├── PayloadTooLarge
    │   ├── TypeForbidden      a task type that the key may not submit (these: grant_errors.py)
    │   └── TargetForbidden    a function or a host that the key or the tenant may not call
    ├── TaskNotFound           unknown here, or another tenant's
    ├── CronJobNotFound        likewise (these: job_errors.py)
    ├── EventNotFound          no such event for this tenant
    ├── TaskTypeNotFound       likewise, of a task type that has an entry
    ├── LimiterNotFound        likewise, of a limiter
    ├── KeyNotFound            likewise, of an API key (these: key_errors.py)
    ├── SecretNotFound         likewise, of a webhook secret (these: secret_errors.py)
    ├── TenantNotFound         no tenant of this name
    ├── RoleNotFound           no role of this name in the database server
    ├── TenantExists           a tenant of this name is there already
    ├── TenantInUse            a tenant that cannot go while it has tasks or cron jobs
    ├── NameTaken              another cron job has this name
    ├── DefinitionChanged      somebody else has changed the cron job meanwhile
    ├── Overlapping            a run of the cron job has not ended
    ├── QuotaExceeded          the tenant may not have or do more of this
    ├── DatabaseFull           the database has too little room for new work
    ├── TooManyTaskTypes       as many task types have a schema or defaults as may
    ├── SchemasTooLarge        the schemas of a tenant together would be too large
    ├── TooManyLimiters        as many limiters as a tenant may have
    ├── IllegalTransition      the task is in a state that forbids this
    ├── IdempotencyConflict    a key used before, for something else
    ├── IdempotencyPending     a key whose first request is still under way
    ├── Overloaded             too many wait already for this process to do it
    ├── WaitersFull            likewise, of all tenants, for tasks to end
    ├── ViewersFull            as many streams are open as a process can have
    ├── Unauthenticated        unauthorized: no key or token that is known
    ├── RoleMissing            the requester may not do this
    ├── OperatorNeeded         it concerns the installation, and the requester is of a tenant
    ├── TenantNeeded           it is of a tenant, and the requester is an operator (grant_errors.py)
    ├── KeyForbidden           an API key that may do more than the requester (grant_errors.py)
    ├── LimitedKey             the requester is held to part of what this is about (likewise)
    ├── TooManyKeys            two keys of a name are live; a third would not be noticed
    ├── KeyRingFull            as many live keys as a tenant may have
    ├── KeyEnded               an API key that was revoked, or has expired
    ├── TooManySecrets         as many webhook secrets as a tenant may have, or a call may carry
    ├── SecretEnded            a webhook secret that was revoked or rotated
    ├── LastSecret             the webhook secret without which calls would not be signed
    ├── WorkerSessionNotFound  no such worker session for this tenant (these: session_errors.py)
    ├── WorkerSessionGone      a worker session that was left, or declared dead
    ├── WrongSessionSecret     the request does not prove that it comes from the session's worker
    ├── TooManyWorkerSessions  as many as the tenant or the key may have
    ├── GatewayUnready         the gateway of this process starts, stops, or has lost its lease
    ├── StoreError             PostgreSQL did not do what it was asked, with the SQLSTATE
    │   ├── StoreUnavailable   not now: it cannot be reached, or is full, or others were first
    │   │   ├── StoreExhausted   it has no connection, memory or time left
    │   │   └── TenantBusy     others hold what decides about a tenant's quotas
    │   ├── Unstorable         not this value: trying again cannot help
    │   └── StatementRefused   anything else; only a person can say what
    └── LeaseLost              this node was declared dead

And those of declaring and submitting handlers (sdk/errors.py, sdk/submitting/handle.py) and of
calls to the API (client/errors.py). Beside it, `BrokenInvariant`: what a process knows of its own
work cannot be true. An error names a condition; what to do about it is the catcher's business.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from gnomon.model.fleet.quota_words import refusal_of

if TYPE_CHECKING:
    from gnomon.model.fleet.tenant import Pace


class GnomonError(Exception):
    """The root of every error that Gnomon raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """With its text and its data, whatever its class is made with: so that it can be copied,
        and told by a process to another."""
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[GnomonError], args: tuple[Any, ...]) -> GnomonError:
    error = kind.__new__(kind)
    error.args = args
    return error


class OverQuota(NamedTuple):
    """A quota, its limit, and the use that is or would be over it."""

    quota: str
    limit: float
    used: float


class Mistake(NamedTuple):
    """An error at one place of a document: the JSON pointer, and what is wrong there."""

    pointer: str
    detail: str


class InvalidTask(GnomonError):
    """A value that cannot be used; `pointer` is the JSON pointer of the place."""

    def __init__(self, detail: str, pointer: str = "", over: OverQuota | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer
        self.over = over

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """Every mistake that was found."""
        return (Mistake(self.pointer, self.detail),)

    def within(self, pointer: str) -> "InvalidTask":
        """The same error for a document in which the value lies below `pointer`."""
        return type(self)(self.detail, f"{pointer}{self.pointer}", self.over)


class InvalidSchedule(InvalidTask):
    """An expression, interval, zone or template that cannot be used, and what could be instead."""


class InvalidPayload(InvalidTask):
    """A payload that does not satisfy the schema of its task type, at one place or several."""

    def __init__(self, found: Sequence[Mistake]) -> None:
        super().__init__(found[0].detail, found[0].pointer)
        self._mistakes = tuple(found)

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        return self._mistakes

    def within(self, pointer: str) -> "InvalidPayload":
        return InvalidPayload([Mistake(f"{pointer}{m.pointer}", m.detail) for m in self._mistakes])


class InvalidSchema(InvalidTask):
    """A JSON Schema that cannot be used; the pointer is of a place in it."""


class PayloadTooLarge(InvalidTask):
    """A payload over the limit."""


class TaskNotFound(GnomonError):
    """No such task for this tenant."""

    def __init__(self, task_id: UUID | str) -> None:
        super().__init__(f"there is no task {task_id}")
        self.task_id = task_id


class TaskTypeNotFound(GnomonError):
    """No schema is kept for this task type of this tenant."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the task type {name} has neither a schema nor defaults")
        self.name = name


class TooManyTaskTypes(GnomonError):
    """A tenant has as many task types with a schema as are kept."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} task types have a schema or defaults, the most that may; remove one first"
        )
        self.most = most


class SchemasTooLarge(GnomonError):
    """The schemas of a tenant's task types would be larger than what is kept of one tenant."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(
            f"with this one the schemas of all task types have {size} bytes; at most {most} are "
            "kept. Remove some, or make them shorter"
        )
        self.size = size
        self.most = most


class LimiterNotFound(GnomonError):
    """No such limiter of this tenant."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no limiter {name}")
        self.name = name


class TooManyLimiters(GnomonError):
    """A tenant has as many limiters as it may have."""

    def __init__(self, most: int) -> None:
        super().__init__(f"there are {most} limiters, the most that may be; remove one first")
        self.most = most


class EventNotFound(GnomonError):
    """No such event for this tenant."""

    def __init__(self, event_id: UUID | str) -> None:
        super().__init__(f"there is no event {event_id}")
        self.event_id = event_id


class EventsGone(GnomonError):
    """Some of the events after a number were removed; or it is of a log that is no more, because
    the database was set back."""

    def __init__(self, after: int, forgotten: int, last: int) -> None:
        super().__init__(
            f"events after number {after} are not kept any more, or not known: "
            f"begin with a number from {forgotten} to {last}, or without one"
        )
        self.after = after
        self.forgotten = forgotten
        self.last = last


class TenantNotFound(GnomonError):
    """No such tenant."""

    def __init__(self, tenant_id: str) -> None:
        super().__init__(f"there is no tenant {tenant_id!r}")
        self.tenant_id = tenant_id


class RoleNotFound(GnomonError):
    """The database server has no such role."""

    def __init__(self, role: str) -> None:
        super().__init__(f"the database server has no role {role!r}; make it with CREATE ROLE")
        self.role = role


class TenantExists(GnomonError):
    """A tenant of this name is there already."""

    def __init__(self, tenant_id: str) -> None:
        super().__init__(f"there is a tenant {tenant_id!r} already; change it instead")
        self.tenant_id = tenant_id


class TenantInUse(GnomonError):
    """A tenant that cannot be removed as it stands."""


class QuotaExceeded(GnomonError):
    """The tenant has as much as its quota allows, or `number` more would be too much."""

    def __init__(
        self,
        quota: str,
        limit: int,
        used: int,
        number: int = 1,
        *,
        pace: "Pace | None" = None,
        wait: int | None = None,
    ) -> None:
        super().__init__(refusal_of(quota, limit, used, number))
        self.over = OverQuota(quota, limit, used)
        self.pace = pace  # of submissions, where they are bounded
        # Seconds after which it can pass, where that is known, and it ever can.
        self.wait = None if number > limit else wait


class IllegalTransition(GnomonError):
    """The task's state forbids the action."""

    def __init__(self, task_id: UUID, status: str, action: str, remedy: str = "") -> None:
        detail = f"task {task_id} is {status}, so it cannot be {action}"
        super().__init__(f"{detail}; {remedy}" if remedy else detail)
        self.task_id = task_id
        self.status = status
        self.action = action


class IdempotencyConflict(GnomonError):
    """The key was used before with another request."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"idempotency key {key!r} was used before with a different request; "
            "send the same request again, or a new key"
        )
        self.key = key


class IdempotencyPending(GnomonError):
    """The first request with this key has not been answered yet."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the first request with idempotency key {key!r} is still under way")
        self.key = key


class Overloaded(GnomonError):
    """Too many callers wait for the same thing in this process."""


class WaitersFull(GnomonError):
    """As many callers as this process can have wait for tasks to end."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} requests wait for tasks to end already; ask without `wait`, or later"
        )
        self.most = most


class ViewersFull(GnomonError):
    """As many streams are open as this process can have, or it is about to stop."""

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} streams are open already, or this process stops; try again")
        self.most = most


class Unauthenticated(GnomonError):
    """No key or token, or none that is known, or not any more: which of these is not told."""

    def __init__(self, *, given: bool) -> None:
        super().__init__(
            "this key or token is not valid; it may be mistyped, expired or revoked"
            if given
            else "send an API key or a token: `Authorization: Bearer <key>`"
        )
        self.given = given


class RoleMissing(GnomonError):
    """The requester has other roles, but not the one that this needs."""

    def __init__(self, role: str, roles: Iterable[str]) -> None:
        had = ", ".join(sorted(roles)) or "none"
        super().__init__(f"this needs the role '{role}'; your key or token has: {had}")
        self.role = role


QUERY_CANCELED = "57014"  # the SQLSTATE of a statement that took too long


class StoreError(GnomonError):
    """PostgreSQL did not do what it was asked; `sqlstate` says why, where it has answered."""

    def __init__(self, detail: str, sqlstate: str | None = None) -> None:
        super().__init__(detail)
        self.sqlstate = sqlstate


class StoreUnavailable(StoreError):
    """PostgreSQL cannot be reached or cannot do this now; nothing was acknowledged."""


class StoreExhausted(StoreUnavailable):
    """PostgreSQL is there, but has no connection, memory or time left for this."""


class Unstorable(StoreError):
    """A value that the store cannot hold; trying again cannot help."""


class StatementRefused(StoreError):
    """PostgreSQL refused a statement for another reason: a missing privilege, say, or a trigger."""


class TenantBusy(StoreUnavailable):
    """Others take so long to store tasks of the same tenant that it was not waited for."""


class LeaseLost(GnomonError):
    """This incarnation of the node was declared dead and may write nothing more."""


class BrokenInvariant(AssertionError):
    """The process contradicts itself about its own work: it ends, and others take over."""
