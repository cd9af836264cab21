"""Transactional handlers: their writes and the end of their task are committed together, or neither
is."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import msgspec
import pytest
from structlog.testing import capture_logs
from tests.integration.completing import app, calls, gates, ready, runs
from tests.integration.cron_support import Unheard, created, ledger
from tests.integration.nodes import RunningNode, call_of, running_node
from tests.integration.own_roles import as_role, grant, login_role
from tests.integration.support import (
    Connection,
    database_now,
    end_of,
    executions,
    joined,
    key_of,
    live,
    store,
    tries,
)
from tests.waiting import eventually

from gnomon.cron.job import Overlap
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.retry import Backoff, RetryPolicy
from gnomon.model.tasks.task import DeliveryMode, TaskKey
from gnomon.sdk.errors import NoTransaction
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.tasks.task_store import PostgresTasks

AT_ONCE = RetryPolicy(max_retries=3, backoff=Backoff.FIXED, base_seconds=0.0)
FAILED, SUCCEEDED = OutcomeKind.FAILED, OutcomeKind.SUCCEEDED
SNOOZED, TIMED_OUT = OutcomeKind.SNOOZED, OutcomeKind.TIMED_OUT
STALE = "settlements were refused as stale"
APP = "tests.integration.completing:app"


@pytest.fixture
async def role(superuser: Connection) -> AsyncIterator[str]:
    async with login_role(superuser) as found:
        yield found


@pytest.fixture
async def node(
    database_dsn: str, role: str, stage: "Stage", monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningNode]:
    await grant(stage.connection, role)
    await stage.connection.execute(f"GRANT INSERT ON public.effect TO {role}")
    monkeypatch.setattr(app, "database", as_role(database_dsn, role))
    async with running_node(database_dsn, node_app=APP) as running:
        yield running


class Stage:
    """Tasks for the functions, and what became of them and of their effects."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database = database
        self.connection = connection

    async def submit(self, function: str, **values: Any) -> tuple[str, TaskKey]:
        payload = {"dsn": self.database.dsn, **values.pop("payload", {})}
        values.setdefault("delivery", DeliveryMode.EXACTLY_ONCE)
        values.setdefault("retry_policy", AT_ONCE)
        now = await database_now(self.connection)
        who, submission = call_of(now, function, payload=payload, **values)
        await store(self.database, submission)
        return who, key_of(submission)

    async def end(self, key: TaskKey) -> asyncpg.Record:
        """The archive row, or the dead letter."""
        return await end_of(self.connection, key)

    async def completed(self, key: TaskKey) -> asyncpg.Record:
        row = await self.end(key)
        assert row["state"] == State.COMPLETED, row["last_error"]
        return row

    async def effects(self, who: str) -> int:
        count: int = await self.connection.fetchval(
            "SELECT count(*) FROM public.effect WHERE who = $1", who
        )
        return count

    async def outcomes(self, key: TaskKey) -> list[OutcomeKind]:
        return [OutcomeKind(row["outcome"]) for row in await tries(self.connection, key)]

    async def errors(self, key: TaskKey) -> list[str]:
        return [row["error"] for row in await executions(self.connection, key)]


@pytest.fixture
async def stage(database: Database, connection: Connection) -> Stage:
    await connection.execute("CREATE TABLE public.effect (who text NOT NULL)")
    return Stage(database, connection)


# Committed


async def test_writes_and_completion_are_committed_together(
    node: RunningNode, stage: Stage
) -> None:
    with capture_logs() as lines:
        who, key = await stage.submit(
            "book", payload={"result": {"sum": [1, None, "é"]}}, idempotency_key="k"
        )
        row = await stage.completed(key)
        await node.stop()  # everything that was reported is written
    assert await stage.effects(who) == 1
    assert row["result"] == '{"sum":[1,null,"é"]}'
    assert (row["fence"], row["attempt"], row["last_error"]) == (1, 1, None)
    (succeeded,) = await tries(stage.connection, key)
    assert succeeded["outcome"] == SUCCEEDED
    assert succeeded["worker"]
    assert succeeded["started_at"] <= succeeded["finished_at"]
    assert await live(stage.connection, key) is None
    (run,) = runs[who]
    assert (run.tenant_id, run.task_id) == (key.tenant_id, key.id)
    assert (run.attempt, run.fence, run.idempotency_key) == (1, 1, "k")
    assert (run.mode, run.scheduled_for) == (DeliveryMode.EXACTLY_ONCE, row["execute_at"])
    assert isinstance(run.node, UUID)
    with pytest.raises(NoTransaction):
        _ = run.connection
    assert STALE not in [line["event"] for line in lines]


@pytest.mark.parametrize("mode", DeliveryMode)
async def test_every_mode_is_completed_so(
    mode: DeliveryMode, node: RunningNode, stage: Stage
) -> None:
    """A task may have been submitted with another mode than its handler has."""
    who, key = await stage.submit("book", delivery=mode)
    assert (await stage.completed(key))["result"] is None
    assert await stage.effects(who) == 1


async def test_a_large_payload_stays_readable_and_a_large_result_is_noted(
    node: RunningNode, stage: Stage
) -> None:
    payload = {"filling": "x" * 100_000, "result": "y" * 100_000}
    _, key = await stage.submit("book", payload=payload)
    assert "65536 are kept" in (await stage.completed(key))["result"]
    task = await PostgresTasks(stage.database, Unheard(), 60.0).get(key)
    assert task.payload is not None
    assert len(task.payload) > 200_000


async def test_a_savepoint_is_the_handlers_own(node: RunningNode, stage: Stage) -> None:
    who, key = await stage.submit("undo_a_part")
    await stage.completed(key)
    assert await stage.effects(who) == 1


async def test_success_wins_over_a_cancellation_that_was_asked_for(
    node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("wait_before_completing")
    await ready[who].wait()
    await stage.connection.execute(
        "UPDATE gnomon.task SET cancel_requested = true WHERE id = $1", key.id
    )
    gates[who].set()
    await stage.completed(key)
    assert await stage.effects(who) == 1


async def test_the_next_run_of_a_job_starts_when_one_was_completed_so(
    node: RunningNode, stage: Stage
) -> None:
    who = uuid4().hex
    job = await created(
        stage.database,
        target=PythonTarget("book_slowly"),
        payload_template=_raw({"who": who}),
        overlap_policy=Overlap.QUEUE,
        delivery=DeliveryMode.EXACTLY_ONCE,
        max_runs=3,
        missed_after_seconds=60.0,
    )

    async def all_over() -> bool:
        return await stage.effects(who) == 3

    await eventually(all_over)
    assert len(calls[who]) == 3
    assert {run.mode for run in runs[who]} == {DeliveryMode.EXACTLY_ONCE}
    assert [row["skipped"] for row in await ledger(stage.connection, job)] == [None] * 3


# Not committed


@pytest.mark.parametrize(("how", "outcome"), [("fail", FAILED), ("snooze", SNOOZED)])
async def test_what_is_raised_rolls_both_back_and_the_next_execution_makes_them(
    how: str, outcome: OutcomeKind, node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("fail_at_first", payload={"how": how})
    row = await stage.completed(key)
    assert (await stage.effects(who), row["attempt"]) == (1, 2)
    assert await stage.outcomes(key) == [outcome, SUCCEEDED]


async def test_a_connection_that_is_lost_is_a_failed_execution(
    node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("lose_the_connection_at_first")
    await stage.completed(key)
    assert (await stage.effects(who), len(calls[who])) == (1, 2)
    assert await stage.outcomes(key) == [FAILED, SUCCEEDED]


async def test_an_execution_whose_task_was_taken_over_writes_nothing(
    node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("wait_before_completing")
    await ready[who].wait()
    await _taken_over(stage, key)
    with capture_logs() as lines:
        gates[who].set()
        await node.stop()
    assert STALE in [line["event"] for line in lines]
    row = await live(stage.connection, key)
    assert row is not None
    assert (row["state"], row["fence"]) == (State.RUNNING, 3)
    assert (await stage.effects(who), await executions(stage.connection, key)) == (0, [])


async def test_an_execution_that_times_out_writes_nothing(node: RunningNode, stage: Stage) -> None:
    who, key = await stage.submit("hang_at_first", timeout_seconds=1.0)
    await stage.completed(key)
    *timed_out, last = await stage.outcomes(key)
    # A busy machine may need more than the time for a second one, too.
    assert (set(timed_out), last) == ({TIMED_OUT}, SUCCEEDED)
    assert (await stage.effects(who), len(calls[who])) == (1, len(timed_out) + 1)


@pytest.mark.parametrize("by", ["ROLLBACK", "COMMIT"])
async def test_a_handler_that_ends_its_transaction_has_failed(
    by: str, node: RunningNode, stage: Stage
) -> None:
    _, key = await stage.submit(
        "end_its_transaction", payload={"by": by}, retry_policy=RetryPolicy(max_retries=0)
    )
    row = await stage.end(key)
    assert row["state"] == State.DEAD
    assert row["last_error"].startswith("NoTransaction: this needs an open transaction")


async def test_a_handler_has_no_rights_over_the_tables(node: RunningNode, stage: Stage) -> None:
    _, key = await stage.submit(
        "look_around",
        payload={"statement": "DELETE FROM gnomon.task"},
        retry_policy=RetryPolicy(max_retries=0),
    )
    row = await stage.end(key)
    assert row["last_error"] == "InsufficientPrivilegeError: permission denied for table task"


async def test_only_transactional_handlers_have_a_connection(
    node: RunningNode, stage: Stage
) -> None:
    _, key = await stage.submit("use_no_transaction", retry_policy=RetryPolicy(max_retries=0))
    assert (await stage.end(key))["last_error"].startswith("NoTransaction: ")


# Stricter transactions


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_stricter_transactions_complete_too(
    isolation: str, node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("book", payload={"isolation": isolation})
    assert (await stage.completed(key))["attempt"] == 1
    assert await stage.effects(who) == 1


async def test_a_task_that_changed_since_the_snapshot_fails_the_execution(
    node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("wait_before_completing", payload={"isolation": "SERIALIZABLE"})
    await ready[who].wait()
    await stage.connection.execute("UPDATE gnomon.task SET lane = 1 WHERE id = $1", key.id)
    gates[who].set()
    await stage.completed(key)
    (error,) = await stage.errors(key)
    assert error.startswith("SerializationError: ")
    assert (await stage.effects(who), len(calls[who])) == (1, 2)


# Roles


async def test_a_role_completes_tasks_of_its_own_tenant(
    node: RunningNode, stage: Stage, role: str
) -> None:
    await stage.connection.execute("INSERT INTO gnomon.tenant (id) VALUES ('other')")
    await grant(stage.connection, role, "other")
    _, key = await stage.submit("book", retry_policy=RetryPolicy(max_retries=0))
    row = await stage.end(key)
    assert f"the role {role} may not complete tasks of the tenant default" in row["last_error"]
    assert f"gnomon tenants grant-role default {role}" in row["last_error"]


async def test_a_role_with_rights_over_the_tables_is_refused(
    node: RunningNode, stage: Stage, role: str
) -> None:
    await stage.connection.execute(f"GRANT SELECT ON gnomon.task TO {role}")
    _, key = await stage.submit("book", retry_policy=RetryPolicy(max_retries=0))
    assert "has rights over Gnomon's own tables" in (await stage.end(key))["last_error"]


async def test_without_an_address_an_execution_says_what_is_missing(
    stage: Stage, database_dsn: str
) -> None:
    async with running_node(database_dsn, node_app=APP):
        _, key = await stage.submit("book", retry_policy=RetryPolicy(max_retries=0))
        assert "set GNOMON_DATABASE_HANDLER_URL" in (await stage.end(key))["last_error"]


async def _taken_over(stage: Stage, key: TaskKey) -> UUID:
    """As by the sweep and the claim of another node."""
    other = await joined(stage.database)
    await stage.connection.execute(
        "UPDATE gnomon.task SET fence = fence + 2, attempt = attempt + 1, node = $2 WHERE id = $1",
        key.id,
        other,
    )
    return other


def _raw(value: Any) -> Any:
    return msgspec.Raw(msgspec.json.encode(value))
