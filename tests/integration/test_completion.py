"""Functions that complete their run in a transaction of their own: their writes and the end of the
task are committed together, or neither is."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import msgspec
import pytest
from structlog.testing import capture_logs
from tests.integration.completing import calls, gates, raised, ready, runs, thread_gates
from tests.integration.cron_support import Unheard, created, ledger
from tests.integration.nodes import RunningNode, call_of, running_node
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
from gnomon.model.lifecycle import State
from gnomon.model.outcome import OutcomeKind
from gnomon.model.retry import Backoff, RetryPolicy
from gnomon.model.target import PythonTarget
from gnomon.model.task import DeliveryMode, TaskKey
from gnomon.sdk.errors import ExecutionLost
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.tasks.task_store import PostgresTasks

AT_ONCE = RetryPolicy(max_retries=3, backoff=Backoff.FIXED, base_seconds=0.0)
UNCOMMITTED = "the handler completed its task in a transaction that was not committed"
FAILED, SUCCEEDED, TIMED_OUT = OutcomeKind.FAILED, OutcomeKind.SUCCEEDED, OutcomeKind.TIMED_OUT
STALE = "settlements were refused as stale"
APP = "tests.integration.completing:app"


@pytest.fixture
async def node(database_dsn: str) -> AsyncIterator[RunningNode]:
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
    assert STALE not in [line["event"] for line in lines]


@pytest.mark.parametrize("mode", DeliveryMode)
async def test_every_mode_can_be_completed_so(
    mode: DeliveryMode, node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("book_from_a_pool", delivery=mode)
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


@pytest.mark.parametrize("how", ["snooze", "reject", "fail"])
async def test_what_is_raised_after_the_commit_changes_nothing(
    how: str, node: RunningNode, stage: Stage
) -> None:
    """A commit whose answer was lost looks the same: the function only knows of an error."""
    with capture_logs() as lines:
        who, key = await stage.submit("end_otherwise", payload={"how": how})
        await stage.completed(key)
        await node.stop()
    assert await stage.outcomes(key) == [SUCCEEDED]
    assert (await stage.effects(who), len(calls[who])) == (1, 1)
    assert STALE not in [line["event"] for line in lines]


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
        payload_template=_raw({"who": who, "dsn": stage.database.dsn}),
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


async def test_a_failure_rolls_both_back_and_the_next_try_makes_them(
    node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("fail_at_first")
    row = await stage.completed(key)
    assert (await stage.effects(who), row["attempt"]) == (1, 2)
    assert await stage.outcomes(key) == [FAILED, SUCCEEDED]
    assert await stage.errors(key) == ["ValueError: thought better of it"]


async def test_a_rollback_that_the_function_keeps_quiet_about_is_a_failed_try(
    node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("roll_back_at_first")
    await stage.completed(key)
    assert (await stage.effects(who), len(calls[who])) == (1, 2)
    assert await stage.errors(key) == [UNCOMMITTED]


async def test_a_rollback_of_a_task_that_has_one_call_is_a_dead_letter(
    node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("roll_back_at_first", delivery=DeliveryMode.AT_MOST_ONCE)
    row = await stage.end(key)
    assert (row["state"], row["last_error"]) == (State.DEAD, UNCOMMITTED)
    assert (await stage.effects(who), len(calls[who])) == (0, 1)


async def test_a_connection_that_is_lost_at_the_commit_is_a_failed_try(
    node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("lose_the_connection_at_commit")
    await stage.completed(key)
    assert (await stage.effects(who), len(calls[who])) == (1, 2)
    assert await stage.outcomes(key) == [FAILED, SUCCEEDED]


async def test_a_try_whose_task_was_taken_over_writes_nothing(
    node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("wait_before_completing")
    await ready[who].wait()
    await _taken_over(stage, key)
    with capture_logs() as lines:
        gates[who].set()
        await eventually(lambda: _any(raised[who]))
        assert isinstance(raised[who][0], ExecutionLost)
        await node.stop()
    assert STALE in [line["event"] for line in lines]
    row = await live(stage.connection, key)
    assert row is not None
    assert (row["state"], row["fence"]) == (State.RUNNING, 3)
    assert (await stage.effects(who), await executions(stage.connection, key)) == (0, [])


async def test_outside_of_a_transaction_it_is_refused(node: RunningNode, stage: Stage) -> None:
    for function in ("complete_without_a_transaction", "complete_by_autocommit"):
        _, key = await stage.submit(function, retry_policy=RetryPolicy(max_retries=0))
        row = await stage.end(key)
        assert row["state"] == State.DEAD
        assert "only be completed within a transaction" in row["last_error"]


async def test_a_second_completion_is_refused_and_its_writes_with_it(
    node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("complete_in_two_transactions")
    await stage.completed(key)
    assert (await stage.effects(who), len(calls[who])) == (1, 1)

    who, key = await stage.submit(
        "complete_twice_in_one_transaction", retry_policy=RetryPolicy(max_retries=0)
    )
    row = await stage.end(key)
    assert (row["state"], await stage.effects(who)) == (State.DEAD, 0)
    assert row["last_error"].startswith("ExecutionLost: ")


# Stricter transactions


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_stricter_transactions_complete_too(
    isolation: str, node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("book", payload={"isolation": isolation})
    assert (await stage.completed(key))["attempt"] == 1
    assert await stage.effects(who) == 1


async def test_a_task_that_changed_since_the_snapshot_fails_the_try(
    node: RunningNode, stage: Stage
) -> None:
    who, key = await stage.submit("wait_before_completing", payload={"isolation": "serializable"})
    await ready[who].wait()
    await stage.connection.execute("UPDATE gnomon.task SET lane = 1 WHERE id = $1", key.id)
    gates[who].set()
    await stage.completed(key)
    assert isinstance(raised[who][0], asyncpg.SerializationError)
    assert (await stage.effects(who), len(calls[who])) == (1, 2)


# In threads, by another driver


@pytest.mark.parametrize("by", ["connection", "cursor"])
async def test_a_function_in_a_thread_completes_by_psycopg(
    by: str, node: RunningNode, stage: Stage
) -> None:
    payload = {"by": by, "result": [1], "fails": True}
    who, key = await stage.submit("book_by_psycopg", payload=payload)
    row = await stage.completed(key)
    assert (row["result"], row["attempt"], await stage.effects(who)) == ("[1]", 2, 1)
    assert await stage.errors(key) == ["ValueError: thought better of it"]


async def test_a_transaction_within_autocommit_is_one(node: RunningNode, stage: Stage) -> None:
    who, key = await stage.submit("complete_by_autocommit", payload={"explicit": True})
    await stage.completed(key)
    assert await stage.effects(who) == 1


async def test_psycopg_hears_of_a_lost_run_too(node: RunningNode, stage: Stage) -> None:
    who, _ = await stage.submit("complete_by_what_was_lost")
    await eventually(lambda: _any(raised[who]))
    assert await stage.effects(who) == 0


async def test_a_user_with_the_rights_that_the_docs_name_can_complete(
    node: RunningNode, stage: Stage, superuser: Connection
) -> None:
    role = f"app_{uuid4().hex}"
    for statement in (
        f"CREATE ROLE {role} LOGIN",
        f"GRANT INSERT ON public.effect TO {role}",
        f"GRANT USAGE ON SCHEMA gnomon TO {role}",
        f"GRANT SELECT, DELETE ON gnomon.task TO {role}",
        f"GRANT SELECT ON gnomon.node TO {role}",
        f"GRANT INSERT ON gnomon.task_archive TO {role}",
        f"GRANT SELECT, INSERT, UPDATE ON gnomon.usage TO {role}",
    ):
        await superuser.execute(statement)
    try:
        dsn = stage.database.dsn.replace("user=gnomon", f"user={role}")
        who, key = await stage.submit("book", payload={"dsn": dsn})
        await stage.completed(key)
        assert await stage.effects(who) == 1
    finally:
        await superuser.execute(f"DROP OWNED BY {role}")
        await superuser.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize(
    "function", ["hang_with_an_open_transaction", "be_busy_with_an_open_transaction"]
)
async def test_a_transaction_that_is_left_open_is_ended(
    function: str, node: RunningNode, stage: Stage
) -> None:
    """The row of its task is locked, and with it whoever would settle it beside others."""
    who, key = await stage.submit(function, timeout_seconds=0.3)
    await eventually(lambda: _any(runs[who]))
    for _ in range(10):
        _, other = await stage.submit("echo")
        await stage.completed(other)
    await stage.completed(key)
    assert (await stage.outcomes(key), len(calls[who])) == ([TIMED_OUT, SUCCEEDED], 2)
    thread_gates[who].set()


async def _taken_over(stage: Stage, key: TaskKey) -> UUID:
    """As by the sweep and the claim of another node."""
    other = await joined(stage.database)
    await stage.connection.execute(
        "UPDATE gnomon.task SET fence = fence + 2, attempt = attempt + 1, node = $2 WHERE id = $1",
        key.id,
        other,
    )
    return other


async def _any(found: list[Any]) -> bool:
    return bool(found)


def _raw(value: Any) -> Any:
    return msgspec.Raw(msgspec.json.encode(value))
