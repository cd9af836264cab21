"""The use cases as a caller without HTTP uses them, on a real PostgreSQL."""

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

import pytest
from tests.integration.support import Connection

from gnomon.access.grant_errors import TargetForbidden, TypeForbidden
from gnomon.access.principal import TENANT_ROLES, Principal
from gnomon.clock import SystemClock
from gnomon.model.errors import IllegalTransition, InvalidTask, TaskNotFound
from gnomon.model.targets.allow_list import AllowList
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State, Status
from gnomon.model.tasks.task import DEFAULT_TENANT, Resolution, Submission, Task, TaskKey
from gnomon.store.guards import Guards
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.work.cron import Put
from gnomon.store.ports.work.tasks import NewTask, Once
from gnomon.store.postgres.cron.jobs import PostgresCronJobs
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.store.tenant_cache import TenantCache
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.cron import cron_jobs
from gnomon.usecases.cron.cron_requests import PatchCronJob, PutCronJob
from gnomon.usecases.tasks import change_task, dead_letters
from gnomon.usecases.tasks.submit import AnsweredBefore, accept
from gnomon.usecases.tasks.task_requests import PatchTask, SubmitTask

ADMIN = Principal(tenant_id=DEFAULT_TENANT, name="admin", roles=TENANT_ROLES)
MAILER = Principal(
    tenant_id=DEFAULT_TENANT, name="mailer", roles=TENANT_ROLES, task_types=frozenset({"mail"})
)
CALLER = Principal(
    tenant_id=DEFAULT_TENANT, name="caller", roles=TENANT_ROLES, allow=AllowList(("other",), None)
)
TARGET = PythonTarget("send")
JOB = PutCronJob(task_type="mail", target=TARGET, cron_expression="0 9 * * *")


class _NoHints:
    def due(self, entries: Iterable[Entry]) -> None:
        """Nobody waits for it."""

    def cancel(self, key: TaskKey) -> None:
        """Nobody runs it."""

    def steps(self) -> None:
        """Nobody takes them."""


@pytest.fixture
def store(database: Database) -> PostgresTasks:
    return PostgresTasks(database, _NoHints(), 3600.0)


@pytest.fixture
async def rules(database: Database) -> TenantRules:
    clock = SystemClock()
    directory = TenantCache(PostgresTenantReader(database), clock, {})
    await directory.load()
    return TenantRules(clock, directory, Guards(directory, ()), 1000)


async def _submitted(store: PostgresTasks, rules: TenantRules, task_type: str = "mail") -> UUID:
    asked = SubmitTask(task_type=task_type, target=TARGET, delay_seconds=60.0)
    submission = await accept(store, rules, ADMIN, asked, rules.clock.now())
    assert isinstance(submission, Submission)
    await store.insert([NewTask(submission)])
    return submission.id


async def _dead(connection: Connection, task_id: UUID) -> None:
    await connection.execute(
        "UPDATE gnomon.task SET state = $2, attempt = 1 WHERE id = $1", task_id, State.DEAD
    )


async def test_a_retry_is_a_new_task_a_redrive_or_an_earlier_start(
    store: PostgresTasks, rules: TenantRules, connection: Connection
) -> None:
    finished, dead, waiting, new = [await _submitted(store, rules) for _ in range(4)]
    await _dead(connection, dead)
    await connection.execute("UPDATE gnomon.task SET attempt = 1 WHERE id = $1", waiting)
    async with store.change(DEFAULT_TENANT) as change:
        await change_task.cancel(change, ADMIN, finished, interrupt=False)
        again = await change_task.retry(change, rules, ADMIN, finished)
        redriven = await change_task.retry(change, rules, ADMIN, dead)
        hastened = await change_task.retry(change, rules, ADMIN, waiting)
        with pytest.raises(IllegalTransition, match="has not run yet"):
            await change_task.retry(change, rules, ADMIN, new)
    assert isinstance(again, Submission)
    assert again.retry_of == finished
    assert (await store.get(TaskKey(DEFAULT_TENANT, again.id))).retry_of == finished
    assert isinstance(redriven, Task)
    assert (redriven.task_id, redriven.status) == (dead, Status.READY)
    assert isinstance(hastened, Task)
    assert hastened.task_id == waiting
    assert hastened.next_retry_at is not None
    assert hastened.next_retry_at < rules.clock.now() + timedelta(seconds=30)


async def test_a_key_with_limits_changes_no_other_work(
    store: PostgresTasks, rules: TenantRules
) -> None:
    task_id = await _submitted(store, rules, task_type="bill")
    for by, refusal in ((MAILER, TypeForbidden), (CALLER, TargetForbidden)):
        for use_case in (change_task.pause, change_task.resume, change_task.delete):
            with pytest.raises(refusal):
                async with store.change(DEFAULT_TENANT) as change:
                    await use_case(change, by, task_id)
        with pytest.raises(refusal):
            async with store.change(DEFAULT_TENANT) as change:
                await change_task.patch(change, rules, by, task_id, PatchTask(name="x"))
    assert (await store.get(TaskKey(DEFAULT_TENANT, task_id))).status is Status.SCHEDULED


async def test_a_dead_letter_is_found_until_it_runs_again(
    store: PostgresTasks, rules: TenantRules, connection: Connection
) -> None:
    resolved, retried = [await _submitted(store, rules) for _ in range(2)]
    for task_id in (resolved, retried):
        with pytest.raises(TaskNotFound):
            await dead_letters.read(store, TaskKey(DEFAULT_TENANT, task_id))
        await _dead(connection, task_id)
    async with store.change(DEFAULT_TENANT) as change:
        await dead_letters.resolve(change, MAILER, resolved, Resolution.ARCHIVED)
        await dead_letters.retry(change, rules, MAILER, retried)
    read = await dead_letters.read(store, TaskKey(DEFAULT_TENANT, resolved))
    assert read.resolution is Resolution.ARCHIVED
    with pytest.raises(TaskNotFound):
        await dead_letters.read(store, TaskKey(DEFAULT_TENANT, retried))


async def test_a_repeated_submission_is_answered_though_the_rules_have_changed(
    store: PostgresTasks, rules: TenantRules
) -> None:
    now, once = rules.clock.now(), Once("k", b"fingerprint")
    soon = now + timedelta(seconds=60)
    asked = SubmitTask(task_type="mail", target=TARGET, expires_at=soon)
    submission = await accept(store, rules, ADMIN, asked, now, once)
    assert isinstance(submission, Submission)
    await store.insert([NewTask(submission, once, b'"first"')])
    later = soon + timedelta(seconds=1)  # what it asks for has expired
    assert await accept(store, rules, ADMIN, asked, later, once) == AnsweredBefore(b'"first"')
    with pytest.raises(InvalidTask):
        await accept(store, rules, ADMIN, asked, later, Once("other", b"fingerprint"))
    with pytest.raises(TargetForbidden):
        await accept(store, rules, CALLER, asked, later, once)


async def test_a_job_is_put_as_it_was_foreseen(
    database: Database, store: PostgresTasks, rules: TenantRules
) -> None:
    jobs = PostgresCronJobs(database)
    definition = await cron_jobs.accept(rules, ADMIN, JOB, "report")
    assert (await cron_jobs.foresee_put(jobs, rules, ADMIN, definition))[0] is None
    async with store.change(DEFAULT_TENANT) as change:
        assert (await cron_jobs.put(change, ADMIN, definition)).done is Put.CREATED
        assert (await cron_jobs.put(change, ADMIN, definition)).done is Put.UNCHANGED
    before, after = await cron_jobs.foresee_put(jobs, rules, ADMIN, definition)
    assert before is not None
    assert before.definition == after
    with pytest.raises(TargetForbidden):
        await cron_jobs.foresee_put(jobs, rules, CALLER, definition)
    with pytest.raises(TargetForbidden):
        async with store.change(DEFAULT_TENANT) as change:
            await cron_jobs.put(change, CALLER, definition)


async def test_a_patch_renames_and_pauses_a_job(
    database: Database, store: PostgresTasks, rules: TenantRules
) -> None:
    definition = await cron_jobs.accept(rules, ADMIN, JOB, "report")
    asked = PatchCronJob(name="summary", paused=True, pause_reason="holiday")
    edit = cron_jobs.accept_patch(rules, ADMIN, asked)
    async with store.change(DEFAULT_TENANT) as change:
        await cron_jobs.create(change, ADMIN, definition)
        await cron_jobs.patch(change, rules, ADMIN, "report", asked, edit)
    job = await PostgresCronJobs(database).get(DEFAULT_TENANT, "summary")
    assert (job.pause_reason, job.created_by) == ("holiday", "admin")
    with pytest.raises(TargetForbidden):
        async with store.change(DEFAULT_TENANT) as change:
            await cron_jobs.trigger(change, rules, CALLER, "summary")
