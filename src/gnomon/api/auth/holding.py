"""What a key is held to, asked of work that is there: what is outside of that it may neither change
nor start, whoever has made it.

Starting something again is a new call: it must be allowed to the tenant as well. Cancelling,
pausing and removing need not be: what is not allowed any more can be tidied up.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from gnomon.access.grant_errors import LimitedKey, TargetForbidden, TypeForbidden
from gnomon.access.principal import Principal, Role
from gnomon.api.context import Request, context_of, principal_of
from gnomon.api.tasks.submissions import check_type
from gnomon.api.tasks.target_check import check_allowed, check_own_target
from gnomon.cron.job import CronJob, Definition
from gnomon.model.allow_list import AllowList, listed
from gnomon.model.task import Task
from gnomon.store.ports.tasks import TaskChange


def check_work(by: Principal, work: Task | Definition) -> None:
    """Raises TypeForbidden, TargetForbidden where it is not theirs to change."""
    with _untold(by):
        check_type(by, work.task_type)
        check_own_target(by, work.target)


def _check_start(by: Principal, tenant: AllowList, work: Task | Definition) -> None:
    """Likewise, or where it must not be called any more."""
    check_work(by, work)
    with _untold(by):
        check_allowed(tenant, by, work.target)


@contextmanager
def _untold(by: Principal) -> Iterator[None]:
    """Those who may not read are not told of what type something is, nor what it calls."""
    try:
        yield
    except (TypeForbidden, TargetForbidden) as error:
        if by.may(Role.READ):
            raise
        detail = (
            "is outside of what your key or the tenant is held to, and your key may not read it"
        )
        raise type(error)(detail, error.pointer) from None


async def check_held(request: Request, change: TaskChange, task_id: UUID) -> None:
    """Raises TypeForbidden, TargetForbidden where the task is not theirs to change."""
    by = principal_of(request)
    if by.limited:
        check_work(by, await change.get(task_id))


async def check_startable(request: Request, change: TaskChange, task_id: UUID) -> None:
    """Likewise, or where it must not be called any more."""
    by, tenant = principal_of(request), _tenant(request)
    if by.limited or tenant.limits:
        _check_start(by, tenant, await change.get(task_id))


async def check_job_held(request: Request, change: TaskChange, ref: str) -> None:
    """Raises TypeForbidden, TargetForbidden where its runs are not theirs to change."""
    by = principal_of(request)
    if by.limited:
        check_work(by, (await locked(change, ref)).definition)


async def check_job_startable(request: Request, change: TaskChange, ref: str) -> None:
    """Likewise, or where its runs must not be called any more."""
    by, tenant = principal_of(request), _tenant(request)
    if by.limited or tenant.limits:
        _check_start(by, tenant, (await locked(change, ref)).definition)


async def locked(change: TaskChange, ref: str) -> CronJob:
    """The job as it stands, until the end of the transaction: an edit that changes nothing."""
    return await change.cron.patch(ref, lambda definition: definition)


def check_whole(by: Principal, task_type: str | None = None) -> None:
    """Raises LimitedKey, TypeForbidden where they are held to part of the tenant's work, and what
    they would change holds for more than that; with a type, for tasks of that type."""
    if by.allow.limits:
        raise LimitedKey("this holds whatever is called, and your key is held to some targets")
    if by.task_types is not None and (task_type is None or task_type not in by.task_types):
        detail = f"must be one of those that your key is held to: {listed(sorted(by.task_types))}"
        raise TypeForbidden(detail, "/task_type")


def _tenant(request: Request) -> AllowList:
    return context_of(request).directory.tenant(principal_of(request).tenant_id).allow
