"""Checks of what a principal with limits may change or start, whoever made it.

Starting something again is a new call, so the tenant must allow it as well. Cancelling, pausing and
removing need not be allowed to the tenant: what is no longer allowed can still be tidied up.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from gnomon.access.grant_errors import LimitedKey, TargetForbidden, TypeForbidden
from gnomon.access.principal import Principal, Role
from gnomon.cron.job import CronJob, Definition
from gnomon.model.errors import InvalidTask
from gnomon.model.targets.allow_list import AllowList, listed
from gnomon.model.tasks.task import Task
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.checks.target_check import check_allowed, check_own_target

_UNREADABLE = "is outside of the limits of your key or of the tenant, and your key may not read"


def check_type(by: Principal, task_type: str) -> None:
    """Raises TypeForbidden where the principal may not submit or change tasks of this type."""
    if not by.may_submit(task_type):
        allowed = listed(sorted(by.task_types or ()))
        detail = f"is {task_type!r}, but your key is only for: {allowed}"
        raise TypeForbidden(detail, "/task_type")


def check_work(by: Principal, work: Task | Definition) -> None:
    """Raises TypeForbidden, TargetForbidden where the principal may not change this work."""
    with _withheld(by):
        check_type(by, work.task_type)
        check_own_target(by, work.target)


def _check_start(by: Principal, tenant: AllowList, work: Task | Definition) -> None:
    check_work(by, work)
    with _withheld(by):
        check_allowed(tenant, by, work.target)


@contextmanager
def _withheld(by: Principal) -> Iterator[None]:
    """Keeps the type and target of work out of errors that go to somebody who may not read it."""
    try:
        yield
    except (TypeForbidden, TargetForbidden) as error:
        if by.may(Role.READ):
            raise
        raise type(error)(_UNREADABLE, error.pointer) from None


def withheld(by: Principal, error: InvalidTask, kept: str) -> InvalidTask:
    """The error of something that is kept at `kept`, and not of the request: for somebody who may
    not read it, without what it says and where."""
    if by.may(Role.READ):
        return error.within(kept)
    if isinstance(error, TypeForbidden | TargetForbidden):
        return type(error)(_UNREADABLE, kept)
    return InvalidTask("cannot be run as it is, and your key may not read it", kept, error.over)


async def check_held(change: PostgresTaskChange, by: Principal, task_id: UUID) -> None:
    """Raises TypeForbidden, TargetForbidden where the principal may not change the task."""
    if by.limited:
        check_work(by, await change.get(task_id))


async def check_startable(
    change: PostgresTaskChange, rules: TenantRules, by: Principal, task_id: UUID
) -> None:
    """Raises the same, also where the tenant may no longer call the task's target."""
    tenant = rules.allow_list(by.tenant_id)
    if by.limited or tenant.limits:
        _check_start(by, tenant, await change.get(task_id))


async def check_job_held(change: PostgresTaskChange, by: Principal, ref: str) -> None:
    """Raises TypeForbidden, TargetForbidden where the principal may not change the cron job."""
    if by.limited:
        check_work(by, (await locked(change, ref)).definition)


async def check_job_startable(
    change: PostgresTaskChange, rules: TenantRules, by: Principal, ref: str
) -> None:
    """Raises the same, also where the tenant may no longer call the job's target."""
    tenant = rules.allow_list(by.tenant_id)
    if by.limited or tenant.limits:
        _check_start(by, tenant, (await locked(change, ref)).definition)


async def locked(change: PostgresTaskChange, ref: str) -> CronJob:
    """The cron job, locked until the end of the transaction by an edit that changes nothing."""
    return await change.cron.patch(ref, lambda definition: definition)


def check_whole(by: Principal, task_type: str | None = None) -> None:
    """Raises LimitedKey, TypeForbidden where the principal is limited to part of the tenant's work
    and would change something that applies to more than that; with a type, to that type only."""
    if by.allow.limits:
        raise LimitedKey("this applies whatever is called, and your key is limited to some targets")
    if by.task_types is not None and (task_type is None or task_type not in by.task_types):
        detail = (
            f"must be one of those that your key is limited to: {listed(sorted(by.task_types))}"
        )
        raise TypeForbidden(detail, "/task_type")
