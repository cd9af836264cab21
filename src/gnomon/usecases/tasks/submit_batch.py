"""Accepts and stores many submissions at once: all or none."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from gnomon.access.principal import Principal
from gnomon.model.errors import InvalidTask
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import Submission
from gnomon.store.ports.work.tasks import MOST_CHECK_STEPS, NewTask, Receipt
from gnomon.store.ports.work.workflows import NewWorkflowRun
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.store.postgres.tasks.new_ids import new_task_ids
from gnomon.usecases.checks.crowd_check import check_crowd
from gnomon.usecases.checks.payload_check import check_schema_in_thread
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.tasks.last_accepted import LastAccepted
from gnomon.usecases.tasks.submit import allowed, check_own
from gnomon.usecases.tasks.task_requests import (
    MOST_TASKS_A_BATCH,
    SubmitTask,
    SubmitWithCallbacks,
)
from gnomon.usecases.workflows.callbacks import accept_callbacks, follow


class AcceptedTask(NamedTuple):
    """A task to store, and the run that it is with its callbacks, where it has some."""

    task: Submission
    run: NewWorkflowRun | None = None


def accept_all(
    rules: TenantRules,
    by: Principal,
    tasks: Sequence[SubmitWithCallbacks],
    known: Container[int] = (),
    origin: Origin | None = None,
) -> Iterator[AcceptedTask | None]:
    """The tasks to store, in order; None at the indexes in `known`, which were stored before.
    Raises InvalidTask, with the place, and LaneCrowded. Thousands of tasks take a while: run it in
    a thread."""
    work = more = 0
    now = rules.clock.now()  # one for all: they are submitted together
    ids, last = new_task_ids(now, len(tasks)), LastAccepted(rules, by, now)
    for index, asked in enumerate(tasks):
        if index in known:
            yield None
            continue
        try:
            submission = last.again(asked, ids[index])
            if submission is None:
                key = asked.idempotency_key
                submission = allowed(rules, by, asked, now, key, origin, ids[index])
                last.note(asked, submission)
            check_crowd(rules.directory, submission, now)
            work += check_schema_in_thread(rules, by.tenant_id, asked.task_type, submission.payload)
            run = None
            if asked.has_callbacks:
                run, checked = accept_callbacks(rules, by, asked, submission)
                work, more = work + checked, more + len(run.nodes) - 1
        except InvalidTask as error:
            raise error.within(f"/tasks/{index}") from error
        if work > MOST_CHECK_STEPS:
            detail = "takes too long to check with those before it; send fewer at once"
            raise InvalidTask(detail, f"/tasks/{index}/payload")
        if more + len(tasks) > MOST_TASKS_A_BATCH:
            detail = f"with callbacks these are more than {MOST_TASKS_A_BATCH}; send fewer at once"
            raise InvalidTask(detail, f"/tasks/{index}")
        yield AcceptedTask(submission, run)


def check_all_own(by: Principal, tasks: Sequence[SubmitTask]) -> None:
    """Raises TypeForbidden, TargetForbidden, with the place, where the principal may not submit one
    of them, whatever the rules are at the moment."""
    for index, asked in enumerate(tasks):
        try:
            check_own(by, asked)
        except InvalidTask as error:
            raise error.within(f"/tasks/{index}") from error


async def store_all(
    change: PostgresTaskChange,
    tasks: Sequence[NewTask | Receipt],
    runs: Mapping[UUID, NewWorkflowRun],
) -> list[Receipt]:
    """Stores the new tasks among these, those with callbacks as `runs`, by their ids; a receipt
    stands for one that was stored before. Raises InvalidTask, with the place, for a key that was
    used with a different task."""
    stored = iter(await change.insert([new for new in tasks if isinstance(new, NewTask)]))
    receipts = [next(stored) if isinstance(new, NewTask) else new for new in tasks]
    for index, receipt in enumerate(receipts):
        if receipt.conflict:
            raise InvalidTask(
                "this key was used before with a different task; nothing of the batch was stored",
                f"/tasks/{index}/idempotency_key",
            )
    new = [each.task_id for each in receipts if each.replay is None]
    begun = [runs[task_id] for task_id in new if task_id in runs]
    if begun:
        await follow(change, begun)
    return receipts
