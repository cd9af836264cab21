"""A key that may change things and not read them is told no more than what it has sent, by every
operation that changes something."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from tests.conftest import serving
from tests.integration.api_calls import TASKS, call, put
from tests.integration.bulk_calls import BULK
from tests.integration.identity import bearer, make_key
from tests.integration.support import Connection
from tests.integration.test_api_roles import operations

from gnomon.access.principal import Role
from gnomon.model.targets.allow_list import AllowList
from gnomon.store.postgres.database import Database

DEAD, CRON = "/api/v1/dead-letters", "/api/v1/cron-jobs"
WORKFLOWS, RUNS = "/api/v1/workflows", "/api/v1/workflow-runs"
BATCHES = "/api/v1/batches"
CANARY = "canary-7f3a"
HOUR = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"}
TASK = {
    "task_type": f"{CANARY}-type",
    "name": f"{CANARY}-name",
    "target": {"type": "http", "url": f"http://127.0.0.1:9/{CANARY}", "method": "PUT",
               "headers": {"accept": CANARY, "authorization": CANARY}},
    "payload": {"secret": CANARY},
    "tags": [CANARY],
    "queue": CANARY,
    "delay_seconds": 3600,
}  # fmt: skip
JOB = {
    "interval_seconds": 3600,
    "payload_template": TASK["payload"],
    **{field: TASK[field] for field in ("task_type", "target", "tags", "queue")},
}
NODE = {
    "payload": {"secret": CANARY, "given": "{{run.input}}"},
    **{field: TASK[field] for field in ("task_type", "name", "target", "tags", "queue")},
}

_EVENT = """
INSERT INTO gnomon.event (tenant_id, id, kind, at, detail) VALUES ('default', $1, $2, now(), '{}')
"""
_END_RUN = "UPDATE gnomon.workflow_run SET state = 11, finished_at = gnomon.now() WHERE id = $1"
Api = aiohttp.ClientSession


@pytest.fixture
async def secured(database_dsn: str) -> AsyncIterator[Api]:
    async with serving(database_dsn, auth_enabled=True, targets_allow=("127.0.0.0/8",)) as client:
        yield client


class Told:
    """What a key without the role `read` is told, by operation."""

    def __init__(self, api: Api, headers: dict[str, str]) -> None:
        self._api = api
        self._headers = headers
        self.by_operation: dict[str, set[str]] = {}

    async def of(
        self, operation: str, method: str, path: str, status: int, body: Any = None, **more: str
    ) -> Any:
        headers = self._headers | {name.replace("_", "-"): value for name, value in more.items()}
        answer = await call(self._api, method, path, status, body, headers=headers)
        assert CANARY not in str(answer), (operation, answer)
        self.by_operation.setdefault(operation, set()).update(answer or ())
        return answer


async def test_no_change_shows_what_may_not_be_read(
    secured: Api, database: Database, connection: Connection
) -> None:
    _, owner = await make_key(database, name=f"{CANARY}-owner")
    _, blind = await make_key(database, name="blind", roles=[Role.SUBMIT, Role.OPERATE])
    full, told = bearer(owner), Told(secured, bearer(blind))

    async def task(assignments: str | None = None) -> str:
        made = await call(secured, "POST", TASKS, 202, TASK, headers=full)
        if assignments is not None:
            await put(connection, made["task_id"], assignments)
        return str(made["task_id"])

    waiting = f"{TASKS}/{await task()}"
    await told.of("patch_task", "PATCH", waiting, 200, {"priority": "LOW"})
    await told.of("patch_task", "PATCH", waiting, 200, {})
    await told.of("pause_task", "POST", f"{waiting}/pause", 200)
    await told.of("resume_task", "POST", f"{waiting}/resume", 200)
    await told.of("cancel_task", "POST", f"{waiting}/cancel", 200, Idempotency_Key="c")
    await told.of("cancel_task", "POST", f"{waiting}/cancel", 200, Idempotency_Key="c")
    await told.of("retry_task", "POST", f"{waiting}/retry", 202)  # as a new one
    failed = f"attempt = 1, last_error = '{CANARY}', due_at = gnomon.now() + interval '1 hour'"
    await told.of("retry_task", "POST", f"{TASKS}/{await task(failed)}/retry", 202)
    dead = f"state = 4, attempt = 4, last_error = '{CANARY}'"
    await told.of("retry_task", "POST", f"{TASKS}/{await task(dead)}/retry", 202)
    await told.of("retry_dead_letter", "POST", f"{DEAD}/{await task(dead)}/retry", 202)
    await told.of("archive_dead_letter", "POST", f"{DEAD}/{await task(dead)}/archive", 200)
    await told.of("discard_dead_letter", "POST", f"{DEAD}/{await task(dead)}/discard", 200)
    await told.of("delete_task", "DELETE", f"{TASKS}/{await task()}", 204)
    await task(dead)
    begun = await told.of("create_bulk_operation", "POST", BULK, 202, {"action": "retry"})
    await told.of("create_bulk_operation", "POST", BULK, 200, {"action": "retry", "dry_run": True})
    await told.of("stop_bulk_operation", "POST", f"{BULK}/{begun['operation_id']}/stop", 200)

    view = "/api/v1/saved-views/mine"
    await call(secured, "PUT", view, 201, {"filter": {"tag": CANARY}}, headers=full)
    await told.of("put_saved_view", "PUT", view, 200, {"filter": {"tag": "mine"}})
    await told.of("delete_saved_view", "DELETE", view, 204)
    for number in (1, 2):
        await connection.execute(_EVENT, UUID(int=number), CANARY)
    ids = {"event_ids": [str(UUID(int=1))]}
    await told.of("acknowledge_events", "POST", "/api/v1/events/acknowledge", 200, ids)
    one = f"/api/v1/events/{UUID(int=2)}/acknowledge"
    await told.of("acknowledge_event", "POST", one, 200, {})

    await call(secured, "POST", CRON, 201, JOB | {"name": "j"}, headers=full)
    await told.of("patch_cron_job", "PATCH", f"{CRON}/j", 200, {})
    await told.of("patch_cron_job", "PATCH", f"{CRON}/j", 200, {"paused": True})
    await told.of("pause_cron_job", "POST", f"{CRON}/j/pause", 200)
    await told.of("resume_cron_job", "POST", f"{CRON}/j/resume", 200)
    await told.of("trigger_cron_job", "POST", f"{CRON}/j/trigger", 202)
    await told.of("backfill_cron_job", "POST", f"{CRON}/j/backfill", 200, HOUR | {"dry_run": True})
    await told.of("backfill_cron_job", "POST", f"{CRON}/j/backfill", 202, HOUR)
    mine = {"interval_seconds": 60, "task_type": "t", "callback_url": "http://127.0.0.1:9/"}
    await told.of("put_cron_job", "PUT", f"{CRON}/j?dry_run=true", 200, mine)
    await told.of("put_cron_job", "PUT", f"{CRON}/j", 200, mine)
    await told.of("delete_cron_job", "DELETE", f"{CRON}/j", 204)

    # An answer that was kept when somebody else asked.
    await call(secured, "POST", CRON, 201, JOB | {"name": "k"}, headers=full)
    for method, path, body in (
        ("PATCH", f"{CRON}/k", {"tags": [CANARY, "more"]}),
        ("PUT", f"{CRON}/k", JOB),
    ):
        again = full | {"Idempotency-Key": path + method}
        await call(secured, method, path, 200, body, headers=again)
        name = "patch_cron_job" if method == "PATCH" else "put_cron_job"
        await told.of(name, method, path, 200, body, Idempotency_Key=path + method)

    flow = {"name": "w", "nodes": {"a": NODE, "b": {"after": ["a"], "target": NODE["target"]}}}
    await call(secured, "POST", WORKFLOWS, 201, flow, headers=full)
    await told.of("put_workflow", "POST", WORKFLOWS, 200, flow)
    await told.of("put_workflow", "POST", WORKFLOWS, 201, flow | {"fail_fast": True})
    begun = await told.of("start_workflow_run", "POST", f"{WORKFLOWS}/w/runs", 202, {"input": 1})
    ad_hoc = {"definition": {"nodes": flow["nodes"]}, "input": CANARY}
    for name, path, given in (
        ("start_workflow_run", f"{WORKFLOWS}/w/runs", {"input": CANARY}),
        ("start_ad_hoc_run", RUNS, ad_hoc),
    ):
        once = {"Idempotency-Key": name}
        await call(secured, "POST", path, 202, given, headers=full | once)
        await told.of(name, "POST", path, 202, given, Idempotency_Key=name)
        await told.of(name, "POST", path, 202, given)
    lacking = {"name": "lacking", "nodes": {"a": NODE | {"payload": f"{{{{run.input.{CANARY}}}}}"}}}
    await call(secured, "POST", WORKFLOWS, 201, lacking, headers=full)
    path = f"{WORKFLOWS}/lacking/runs"
    refused = await call(secured, "POST", path, 422, {"input": {}}, headers=bearer(blind))
    assert CANARY not in str(refused)
    run = f"{RUNS}/{begun['run_id']}"
    await told.of("signal_workflow_run", "POST", f"{run}/signals/go", 200, {"data": CANARY})
    for verb in ("pause", "resume", "cancel"):
        await told.of(f"{verb}_workflow_run", "POST", f"{run}/{verb}", 200)
    await told.of("roll_back_workflow_run", "POST", f"{run}/rollback", 200)
    ended = await call(secured, "POST", RUNS, 202, ad_hoc, headers=full)
    await connection.execute(_END_RUN, UUID(ended["run_id"]))
    path = f"{RUNS}/{ended['run_id']}/retry"
    await told.of("retry_workflow_run", "POST", path, 202, {"from": ["a"]})
    await told.of("delete_workflow", "DELETE", f"{WORKFLOWS}/w", 204)
    batch = await told.of("open_batch", "POST", BATCHES, 201, {"name": CANARY})
    for verb in ("close", "cancel"):
        opened = await call(secured, "POST", BATCHES, 201, {"name": CANARY}, headers=full)
        path = f"{BATCHES}/{opened['batch_id']}/{verb}"
        assert await told.of(f"{verb}_batch", "POST", path, 200) != batch

    document = await call(secured, "GET", "/api/v1/openapi.json", 200)
    changing = {
        name
        for name, method, _, role in operations(document)
        if method != "get" and role in (Role.SUBMIT, Role.OPERATE)
    }
    # These answer with what was sent; whose answer is given again, the next test says. Draining a
    # session answers with nothing.
    others = {"submit_task", "submit_batch", "create_cron_job", "drain_worker_session"}
    assert changing - others == {*told.by_operation}
    receipt = {"task_id", "status"}
    assert told.by_operation["patch_task"] == told.by_operation["retry_task"] == receipt
    assert told.by_operation["patch_cron_job"] == {"cron_job_id", "name", "status"}
    assert told.by_operation["put_cron_job"] == {"change", "cron_job"}
    assert told.by_operation["put_workflow"] == {"name", "version"}
    for verb in ("start", "pause", "resume", "cancel", "roll_back", "retry"):
        assert told.by_operation[f"{verb}_workflow_run"] == {"run_id", "status"}
    assert told.by_operation["start_ad_hoc_run"] == {"run_id", "status"}
    for verb in ("open", "close", "cancel"):
        assert told.by_operation[f"{verb}_batch"] == {"batch_id", "status"}


@pytest.mark.parametrize(
    "held", [{"task_types": ["mail"]}, {"allow": AllowList((), ("api.example.com",))}]
)
async def test_a_refusal_does_not_say_what_it_protects(
    secured: Api, database: Database, held: dict[str, Any]
) -> None:
    _, owner = await make_key(database, name="owner")
    _, blind = await make_key(database, name="blind", roles=[Role.SUBMIT, Role.OPERATE], **held)
    target = {"type": "http", "url": f"http://{CANARY}.example/"}
    kept = {"task_type": TASK["task_type"], "target": target}
    later = kept | {"delay_seconds": 3600}
    task = await call(secured, "POST", TASKS, 202, later, headers=bearer(owner))
    job = kept | {"name": "j", "interval_seconds": 3600}
    await call(secured, "POST", CRON, 201, job, headers=bearer(owner))
    flow = {"name": "w", "nodes": {CANARY: kept}}
    await call(secured, "POST", WORKFLOWS, 201, flow, headers=bearer(owner))
    path = f"{TASKS}/{task['task_id']}"
    for method, where, body in (
        ("PATCH", path, {}),
        *(("POST", f"{path}/{verb}", None) for verb in ("cancel", "pause", "resume", "retry")),
        ("DELETE", path, None),
        ("POST", f"{DEAD}/{task['task_id']}/discard", None),
        ("PATCH", f"{CRON}/j", {}),
        ("POST", f"{CRON}/j/trigger", None),
        ("POST", f"{CRON}/j/backfill", HOUR),
        ("DELETE", f"{CRON}/j", None),
        ("POST", f"{WORKFLOWS}/w/runs", {}),
        ("DELETE", f"{WORKFLOWS}/w", None),
    ):
        problem = await call(secured, method, where, 403, body, headers=bearer(blind))
        assert CANARY not in str(problem), (method, where)


async def test_what_was_sent_comes_back_but_not_who_else_sent_it(
    secured: Api, database: Database
) -> None:
    _, owner = await make_key(database, name="owner")
    _, blind = await make_key(database, name="blind", roles=[Role.SUBMIT])
    _, successor = await make_key(database, name="blind", roles=[Role.SUBMIT])
    job = JOB | {"name": "j"}
    for path, status, body in ((TASKS, 202, TASK), (CRON, 201, job)):
        headers = {"Idempotency-Key": f"first {path}"}
        first = await call(secured, "POST", path, status, body, headers=bearer(blind) | headers)
        assert first["created_by"] == "blind"
        assert first["tags"] == [CANARY]
        for key in (blind, successor, owner):
            again = await call(secured, "POST", path, status, body, headers=bearer(key) | headers)
            assert again == first
        other = {"Idempotency-Key": f"second {path}"}
        body = body | {"name": "other"}
        await call(secured, "POST", path, status, body, headers=bearer(owner) | other)
        again = await call(secured, "POST", path, status, body, headers=bearer(blind) | other)
        assert again.keys() <= {"task_id", "cron_job_id", "name", "status"}
        batch = {"tasks": [TASK | {"idempotency_key": "third"}]}
        await call(secured, "POST", f"{TASKS}/batch", 202, batch, headers=bearer(owner))
        again = await call(secured, "POST", f"{TASKS}/batch", 202, batch, headers=bearer(blind))
        assert again["tasks"][0].keys() == {"task_id", "status"}


async def test_those_who_may_read_are_told_all(secured: Api, database: Database) -> None:
    _, key = await make_key(database, roles=[Role.SUBMIT, Role.READ, Role.OPERATE])
    headers = bearer(key)
    task = await call(secured, "POST", TASKS, 202, TASK, headers=headers)
    paused = await call(secured, "POST", f"{TASKS}/{task['task_id']}/pause", 200, headers=headers)
    assert paused["payload"] == TASK["payload"]
    await call(secured, "POST", CRON, 201, JOB | {"name": "j"}, headers=headers)
    job = await call(secured, "PATCH", f"{CRON}/j", 200, {}, headers=headers)
    assert job["payload_template"] == TASK["payload"]
