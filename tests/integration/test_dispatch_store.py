"""PostgresDispatch against a real PostgreSQL: claim by key, settle under the fence."""

import asyncio
import random
from datetime import timedelta
from itertools import permutations
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest
from tests.integration.support import (
    Connection,
    archived,
    blocked_by,
    database_now,
    executions,
    joined,
    key_of,
    live,
    settlement,
    store,
    submission,
    tries,
)
from tests.waiting import eventually

from gnomon.clock import new_id, new_incarnation
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE, EXPIRE, Verdict, VerdictKind
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.dispatch import Settlement
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.testing import turned_clock

GRACE = 10.0
RETRY = Verdict(VerdictKind.RETRY, delay=60.0, spends=True)
DEAD_LETTER = Verdict(VerdictKind.DEAD_LETTER)
RELEASE = Verdict(VerdictKind.RELEASE)
FAILED = OutcomeKind.FAILED


@pytest.fixture
def dispatch(database: Database) -> PostgresDispatch:
    return PostgresDispatch(database, GRACE)


@pytest.fixture
async def node(database: Database) -> UUID:
    return await joined(database)


class Claimed:
    """Stores tasks and claims them: what most of these tests begin with."""

    def __init__(
        self, database: Database, dispatch: PostgresDispatch, connection: Connection, node: UUID
    ) -> None:
        self._database = database
        self._dispatch = dispatch
        self._connection = connection
        self._node = node

    async def one(self, **values: Any) -> Delivery:
        return (await self.some(1, **values))[0]

    async def some(self, count: int, **values: Any) -> list[Delivery]:
        now = await database_now(self._connection)
        keys = await store(self._database, *(submission(now, **values) for _ in range(count)))
        claim = await self._dispatch.claim(self._node, keys)
        assert len(claim.deliveries) == count
        return claim.deliveries

    async def again(self, key: TaskKey) -> Delivery:
        """Claim what waits again, as if its time had come."""
        await self._connection.execute(
            "UPDATE gnomon.task SET due_at = clock_timestamp() WHERE tenant_id = $1 AND id = $2",
            key.tenant_id,
            key.id,
        )
        (delivery,) = (await self._dispatch.claim(self._node, [key])).deliveries
        return delivery


@pytest.fixture
def claimed(
    database: Database, dispatch: PostgresDispatch, connection: Connection, node: UUID
) -> Claimed:
    return Claimed(database, dispatch, connection, node)


async def cancel_requested(connection: Connection, key: TaskKey) -> None:
    await connection.execute(
        "UPDATE gnomon.task SET cancel_requested = true WHERE tenant_id = $1 AND id = $2",
        key.tenant_id,
        key.id,
    )


# Claiming


async def test_a_claim_carries_all_that_a_try_needs(
    database: Database, dispatch: PostgresDispatch, connection: Connection, node: UUID
) -> None:
    now = await database_now(connection)
    new = submission(
        now,
        tenant_id="acme",
        task_type="mail",
        target=HttpTarget("https://example.com/hook", "PUT", {"x-a": "1"}),
        payload=b'{"to":"\xc3\xbc"}',
        priority=Lane.HIGH,
        timeout_seconds=7.5,
        retry_policy=RetryPolicy(max_retries=9),
        idempotency_key="once",
        queue="bulk",
        preemptible=True,
        limit_keys='{"per-customer":"7"}',
    )
    await store(database, new)
    claim = await dispatch.claim(node, [key_of(new)])
    (delivery,) = claim.deliveries
    assert claim.now is not None
    assert claim.now >= now
    assert delivery == Delivery(
        key=TaskKey("acme", new.id),
        fence=1,
        incarnation=node,
        attempt=1,
        retries_left=9,
        losses=0,
        target=new.target,
        payload=new.payload,
        payload_size=None,
        timeout_seconds=7.5,
        retry_policy=new.retry_policy,
        task_type="mail",
        lane=Lane.HIGH,
        scheduled_for=new.execute_at.timestamp(),
        start_by=delivery.start_by,
        address=delivery.address,
        idempotency_key="once",
        expired=False,
        queue="bulk",
        preemptible=True,
        limit_keys='{"per-customer":"7"}',
        flow=delivery.flow,
        not_before=claim.now.timestamp(),
    )
    assert delivery.execute_at == new.execute_at
    assert delivery.start_by == claim.now.timestamp() + GRACE / 2
    row = await live(connection, key_of(new))
    assert row is not None
    assert (row["state"], row["node"], row["fence"], row["attempt"]) == (1, node, 1, 1)
    assert row["run_until"] == claim.now + timedelta(seconds=7.5 + GRACE)


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_in_a_batch_each_is_claimed_by_its_own_tenant_and_flow(
    database: Database, dispatch: PostgresDispatch, connection: Connection, node: UUID, number: int
) -> None:
    now = await database_now(connection)
    tenants = ("a", "b", "c")[:number]
    keys = await store(
        database, *(submission(now, tenant_id=each, task_type=f"of {each}") for each in tenants)
    )
    flows = [(await row_of(connection, key))["flow"] for key in keys]
    assert len(set(flows)) == number
    others = [TaskKey(key.tenant_id, other.id) for key, other in permutations(keys, 2)]
    assert not others or not (await dispatch.claim(node, others)).deliveries
    wrong = [*flows[:-1], max(flows) + 1]
    claims = [await dispatch.claim(node, keys, each) for each in (wrong, flows)]
    assert [[d.key for d in claim.deliveries] for claim in claims] == [keys[:-1], keys[-1:]]
    for claim in claims:
        assert all(d.task_type == f"of {d.key.tenant_id}" for d in claim.deliveries)


async def row_of(connection: Connection, key: TaskKey) -> asyncpg.Record:
    row = await live(connection, key)
    assert row is not None
    return row


async def test_what_is_not_due_by_the_databases_clock_is_not_claimed(
    database: Database, dispatch: PostgresDispatch, connection: Connection, node: UUID
) -> None:
    await turned_clock.install(connection)
    now = await database_now(connection)
    (key,) = await store(database, submission(now, due_in=600.0))

    async def claim() -> list[Delivery]:
        return (await dispatch.claim(node, [key])).deliveries

    assert await claim() == []
    await turned_clock.turn(connection, 601.0)
    assert await claim()
    row = await live(connection, key)
    assert row is not None
    assert row["started_at"] >= row["due_at"]


@pytest.mark.parametrize("state", [s for s in State if s not in (State.WAITING, State.RUNNING)])
async def test_only_what_waits_is_claimed(
    database: Database, dispatch: PostgresDispatch, connection: Connection, node: UUID, state: State
) -> None:
    (key,) = await store(database, submission(await database_now(connection)))
    await connection.execute("UPDATE gnomon.task SET state = $1", int(state))
    assert (await dispatch.claim(node, [key])).deliveries == []


async def test_what_runs_is_not_claimed_again(claimed: Claimed, dispatch: PostgresDispatch) -> None:
    delivery = await claimed.one()
    assert (await dispatch.claim(delivery.incarnation, [delivery.key])).deliveries == []


async def test_keys_that_are_unknown_or_given_twice_do_no_harm(
    database: Database, dispatch: PostgresDispatch, connection: Connection, node: UUID
) -> None:
    now = await database_now(connection)
    (key,) = await store(database, submission(now, tenant_id="a"))
    strangers = [TaskKey("b", key.id), TaskKey("a", new_id(now))]
    claim = await dispatch.claim(node, [key, *strangers, key])
    assert [d.key for d in claim.deliveries] == [key]
    assert (await dispatch.claim(node, strangers)).deliveries == []


async def test_tasks_are_claimed_in_the_order_of_their_keys(
    database: Database, dispatch: PostgresDispatch, connection: Connection, node: UUID
) -> None:
    now = await database_now(connection)
    keys = await store(database, *(submission(now) for _ in range(20)))
    order = [*keys[10:], *reversed(keys[:10])]
    assert [d.key for d in (await dispatch.claim(node, order)).deliveries] == order


async def test_a_dead_or_unknown_node_claims_nothing(
    database: Database, dispatch: PostgresDispatch, connection: Connection, node: UUID
) -> None:
    (key,) = await store(database, submission(await database_now(connection)))
    assert (await dispatch.claim(new_incarnation(), [key])).deliveries == []
    await PostgresRoster(database).leave(node)
    assert (await dispatch.claim(node, [key])).deliveries == []


async def test_a_task_past_its_expiry_is_marked(claimed: Claimed, connection: Connection) -> None:
    now = await database_now(connection)
    assert (await claimed.one(expires_at=now)).expired
    assert not (await claimed.one(expires_at=now + timedelta(hours=1))).expired


async def test_two_claimers_of_the_same_keys_share_them(
    database: Database, dispatch: PostgresDispatch, connection: Connection, node: UUID
) -> None:
    other = await joined(database)
    now = await database_now(connection)
    for _ in range(12):
        keys = await store(database, *(submission(now) for _ in range(150)))
        orders = [random.sample(keys, len(keys)) for _ in range(4)]
        claims = await asyncio.gather(
            *(dispatch.claim((node, other)[n % 2], order) for n, order in enumerate(orders))
        )
        taken = [d.key for claim in claims for d in claim.deliveries]
        assert len(taken) == len(set(taken)) <= len(keys)
        left = (await dispatch.claim(node, keys)).deliveries
        assert sorted([*taken, *(d.key for d in left)]) == sorted(keys)


async def test_claims_and_settlements_that_cross_do_not_deadlock(
    claimed: Claimed, dispatch: PostgresDispatch, node: UUID
) -> None:
    for _ in range(8):
        running = await claimed.some(100)
        keys = [d.key for d in running]
        give_back = [settlement(d, RELEASE, None) for d in running]

        async def settle(order: list[Settlement]) -> int:
            return len(await dispatch.settle(order))

        first, second, *_ = await asyncio.gather(
            settle(random.sample(give_back, 100)),
            settle(random.sample(give_back, 100)),
            dispatch.claim(node, random.sample(keys, 100)),
            dispatch.claim(node, random.sample(keys, 100)),
        )
        assert first + second == 100


# Settling


async def test_a_completed_task_moves_to_the_archive_with_everything(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection
) -> None:
    now = await database_now(connection)
    delivery = await claimed.one(
        tenant_id="acme",
        name="the name",
        task_type="mail",
        target=HttpTarget("https://example.com/"),
        payload=b'{"a":1}',
        priority=Lane.LOW,
        timeout_seconds=5,
        retry_policy=RetryPolicy(max_retries=7),
        expires_at=now + timedelta(hours=1),
        tags=("x", "y"),
        idempotency_key="once",
        created_by="someone",
        retry_of=new_id(now),
    )
    before = await live(connection, delivery.key)
    assert before is not None
    (settled,) = await dispatch.settle(
        [
            settlement(
                delivery,
                started_at=now.timestamp(),
                finished_at=now.timestamp() + 2,
                worker="w",
                response_status=201,
                response_body="ok",
                result='{"r":1}',
            )
        ]
    )
    assert (settled.key, settled.fence) == (delivery.key, delivery.fence)
    assert (settled.state, settled.due_at) == (State.COMPLETED, None)
    assert await live(connection, delivery.key) is None
    row = await archived(connection, delivery.key)
    assert row is not None
    moved = [
        "tenant_id", "id", "lane", "delivery", "execute_at", "expires_at", "fence", "attempt",
        "timeout_seconds", "payload_size", "task_type", "name", "target", "payload",
        "retry_policy", "tags", "idempotency_key", "created_by", "cron_job_id", "retry_of",
    ]  # fmt: skip
    assert {c: row[c] for c in moved} == {c: before[c] for c in moved}
    assert (row["state"], row["started_at"]) == (10, now)
    assert row["finished_at"] == now + timedelta(seconds=2)
    assert (row["worker"], row["response_status"], row["response_body"]) == ("w", 201, "ok")
    assert (row["result"], row["last_error"]) == ('{"r":1}', None)
    assert await executions(connection, delivery.key) == []


async def test_a_retry_waits_again_with_its_try_on_record(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection
) -> None:
    delivery = await claimed.one(retry_policy=RetryPolicy(max_retries=2))
    before = await database_now(connection)
    report = settlement(
        delivery,
        Verdict(VerdictKind.RETRY, delay=90.0, spends=True),
        FAILED,
        started_at=before.timestamp(),
        finished_at=before.timestamp(),
        worker="w",
        error="HTTP 503",
        response_status=503,
        response_body="busy",
    )
    (settled,) = await dispatch.settle([report])
    after = await database_now(connection)
    row = await live(connection, delivery.key)
    assert row is not None
    assert settled.due_at == row["due_at"]
    wait = timedelta(seconds=90)
    assert before + wait <= row["due_at"] <= after + wait
    assert (settled.state, row["state"], row["node"], row["run_until"]) == (0, 0, None, None)
    assert (row["fence"], row["attempt"], row["retries_left"]) == (2, 1, 1)
    assert (row["losses"], row["last_error"]) == (0, "HTTP 503")
    (tried,) = await executions(connection, delivery.key)
    assert (tried["fence"], tried["attempt"], tried["outcome"]) == (1, 1, FAILED)
    assert (tried["error"], tried["worker"]) == ("HTTP 503", "w")
    assert (tried["response_status"], tried["response_body"]) == (503, "busy")


async def test_the_wait_for_a_retry_begins_when_the_try_has_ended(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection
) -> None:
    """However long it took, and however long the outcome waited to be written."""
    delivery = await claimed.one()
    before = await database_now(connection)
    started, finished = before.timestamp() - 3600, before.timestamp() - 60
    report = settlement(delivery, RETRY, FAILED, started_at=started, finished_at=finished)
    await dispatch.settle([report])
    row = await live(connection, delivery.key)
    assert row is not None
    wait = timedelta(seconds=RETRY.delay)
    assert before + wait <= row["due_at"] <= await database_now(connection) + wait


async def test_losses_are_written_and_no_retry_is_spent_on_them(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection
) -> None:
    delivery = await claimed.one(retry_policy=RetryPolicy(max_retries=2))
    lost = Verdict(VerdictKind.RETRY, losses=2)
    await dispatch.settle([settlement(delivery, lost, OutcomeKind.LOST)])
    row = await live(connection, delivery.key)
    assert row is not None
    assert (row["losses"], row["retries_left"], row["attempt"]) == (2, 2, 1)
    again = await claimed.again(delivery.key)
    assert (again.losses, again.attempt, again.fence) == (2, 2, 3)


async def test_a_dead_letter_stays_with_its_tries(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection
) -> None:
    delivery = await claimed.one()
    for _ in range(2):
        await dispatch.settle([settlement(delivery, RETRY, FAILED, error="no")])
        delivery = await claimed.again(delivery.key)
    (settled,) = await dispatch.settle([settlement(delivery, DEAD_LETTER, FAILED, error="never")])
    assert (settled.state, settled.key) == (State.DEAD, delivery.key)
    row = await live(connection, delivery.key)
    assert row is not None
    assert (row["state"], row["last_error"], row["node"]) == (4, "never", None)
    assert row["fence"] == delivery.fence + 1
    assert await archived(connection, delivery.key) is None
    tried = await executions(connection, delivery.key)
    assert [(t["attempt"], t["error"]) for t in tried] == [(1, "no"), (2, "no"), (3, "never")]


async def test_what_is_given_back_has_made_no_try_and_waits_from_now_on(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection, node: UUID
) -> None:
    delivery = await claimed.one()
    before = await live(connection, delivery.key)
    (settled,) = await dispatch.settle([settlement(delivery, RELEASE, None)])
    row = await live(connection, delivery.key)
    assert before is not None
    assert row is not None
    assert (row["state"], row["node"], row["run_until"], row["started_at"]) == (0, None, None, None)
    assert (row["attempt"], row["retries_left"], row["fence"]) == (0, 3, 2)
    # Whoever serves its shard looks behind its cursor only for what became due lately.
    assert row["due_at"] == settled.due_at > before["due_at"]
    assert await executions(connection, delivery.key) == []
    (again,) = (await dispatch.claim(node, [delivery.key])).deliveries
    assert (again.attempt, again.fence) == (1, 3)


async def test_what_was_not_started_in_time_expires(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection
) -> None:
    delivery = await claimed.one(expires_at=await database_now(connection))
    (settled,) = await dispatch.settle([settlement(delivery, EXPIRE, None)])
    assert settled.state is State.EXPIRED
    row = await archived(connection, delivery.key)
    assert row is not None
    assert (row["state"], row["attempt"], row["started_at"]) == (12, 0, None)
    assert await live(connection, delivery.key) is None
    assert await tries(connection, delivery.key) == []


@pytest.mark.parametrize("verdict", [COMPLETE, RETRY, DEAD_LETTER, RELEASE, EXPIRE])
@pytest.mark.parametrize("stale", ["fence", "incarnation"])
@pytest.mark.parametrize("cancelling", [False, True])
async def test_a_stale_settlement_is_refused(
    claimed: Claimed,
    dispatch: PostgresDispatch,
    connection: Connection,
    verdict: Verdict,
    stale: str,
    cancelling: bool,
) -> None:
    delivery = await claimed.one()
    if cancelling:
        await cancel_requested(connection, delivery.key)
    before = await live(connection, delivery.key)
    outcome = None if verdict in (RELEASE, EXPIRE) else FAILED
    report = settlement(delivery, verdict, outcome)
    if stale == "fence":
        report = msgspec.structs.replace(report, fence=delivery.fence + 1)
    else:
        report = msgspec.structs.replace(report, incarnation=new_incarnation())
    assert await dispatch.settle([report]) == []
    assert await live(connection, delivery.key) == before
    assert await executions(connection, delivery.key) == []


@pytest.mark.parametrize("verdict", [COMPLETE, RETRY, DEAD_LETTER, RELEASE])
async def test_settling_twice_counts_once(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection, verdict: Verdict
) -> None:
    delivery = await claimed.one()
    report = settlement(delivery, verdict, None if verdict is RELEASE else FAILED)
    assert len(await dispatch.settle([report])) == 1
    before = await live(connection, delivery.key)
    assert await dispatch.settle([report]) == []
    assert await live(connection, delivery.key) == before
    assert len(await executions(connection, delivery.key)) == (verdict in (RETRY, DEAD_LETTER))


async def test_a_worker_that_comes_back_from_the_dead_changes_nothing(
    database: Database, claimed: Claimed, dispatch: PostgresDispatch, connection: Connection
) -> None:
    ghost = await claimed.one()
    lost = Verdict(VerdictKind.RETRY, losses=1)
    await dispatch.settle([settlement(ghost, lost, OutcomeKind.LOST)])
    other = await joined(database)
    (heir,) = (await dispatch.claim(other, [ghost.key])).deliveries
    assert await dispatch.settle([settlement(ghost)]) == []
    assert len(await dispatch.settle([settlement(heir)])) == 1
    tried = await tries(connection, ghost.key)
    assert [(t["attempt"], t["outcome"]) for t in tried] == [(1, 3), (2, 0)]


# Cancelling what runs


async def test_success_wins_over_a_requested_cancellation(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection
) -> None:
    delivery = await claimed.one()
    await cancel_requested(connection, delivery.key)
    (settled,) = await dispatch.settle([settlement(delivery)])
    assert settled.state is State.COMPLETED


@pytest.mark.parametrize("verdict", [RETRY, DEAD_LETTER])
async def test_a_try_that_ended_badly_after_a_cancellation_is_cancelled(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection, verdict: Verdict
) -> None:
    delivery = await claimed.one()
    await cancel_requested(connection, delivery.key)
    (settled,) = await dispatch.settle([settlement(delivery, verdict, FAILED, error="cut")])
    assert (settled.state, settled.due_at) == (State.CANCELLED, None)
    row = await archived(connection, delivery.key)
    assert row is not None
    assert (row["state"], row["attempt"], row["last_error"]) == (11, 1, "cut")
    (tried,) = await tries(connection, delivery.key)
    assert (tried["outcome"], tried["error"]) == (OutcomeKind.CANCELLED, "cut")


@pytest.mark.parametrize("verdict", [RELEASE, EXPIRE])
async def test_a_cancelled_task_that_was_not_started_has_no_try(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection, verdict: Verdict
) -> None:
    delivery = await claimed.one()
    await cancel_requested(connection, delivery.key)
    (settled,) = await dispatch.settle([settlement(delivery, verdict, None)])
    assert settled.state is State.CANCELLED
    row = await archived(connection, delivery.key)
    assert row is not None
    assert (row["attempt"], row["started_at"]) == (0, None)
    assert await tries(connection, delivery.key) == []


@pytest.mark.parametrize(
    ("verdict", "outcome", "state"),
    [
        (COMPLETE, OutcomeKind.SUCCEEDED, State.COMPLETED),
        (RETRY, FAILED, State.CANCELLED),
        (RELEASE, None, State.CANCELLED),
    ],
)
async def test_a_settlement_that_waited_for_a_cancellation_sees_it(
    claimed: Claimed,
    dispatch: PostgresDispatch,
    connection: Connection,
    verdict: Verdict,
    outcome: OutcomeKind | None,
    state: State,
) -> None:
    """The row changes between the statement's snapshot and its lock."""
    delivery = await claimed.one()
    async with asyncio.TaskGroup() as group, connection.transaction():
        await cancel_requested(connection, delivery.key)
        settling = group.create_task(
            dispatch.settle([settlement(delivery, verdict, outcome, error="cut")])
        )
        await eventually(lambda: blocked_by(connection))
    (settled,) = settling.result()
    assert settled.state is state
    assert await live(connection, delivery.key) is None
    row = await archived(connection, delivery.key)
    assert row is not None
    assert row["state"] == state


async def test_settlements_race_with_cancellations_and_none_is_lost(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection
) -> None:
    running = await claimed.some(300)
    reports = [
        settlement(d, *random.choice([(COMPLETE, OutcomeKind.SUCCEEDED), (RETRY, FAILED)]))
        for d in running
    ]

    async def cancel() -> None:
        for delivery in random.sample(running, len(running)):
            await cancel_requested(connection, delivery.key)

    settled, _ = await asyncio.gather(
        asyncio.gather(*(dispatch.settle(reports[n : n + 30]) for n in range(0, 300, 30))),
        cancel(),
    )
    states = {s.key: s.state for batch in settled for s in batch}
    assert len(states) == 300
    for report in reports:
        wanted = (State.COMPLETED,) if report.verdict is COMPLETE else (0, State.CANCELLED)
        assert states[report.key] in wanted


# Batches


async def test_a_mixed_batch_of_a_thousand(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection
) -> None:
    running = [
        *(await claimed.some(500, tenant_id="a", retry_policy=RetryPolicy(max_retries=5))),
        *(await claimed.some(500, tenant_id="b")),
    ]
    random.shuffle(running)
    kinds: list[tuple[Verdict, OutcomeKind | None, State]] = [
        (COMPLETE, OutcomeKind.SUCCEEDED, State.COMPLETED),
        (RETRY, FAILED, State.WAITING),
        (Verdict(VerdictKind.RETRY, delay=5, losses=1), OutcomeKind.LOST, State.WAITING),
        (DEAD_LETTER, OutcomeKind.TIMED_OUT, State.DEAD),
        (RELEASE, None, State.WAITING),
        (EXPIRE, None, State.EXPIRED),
    ]
    wanted, reports = {}, []
    for number, delivery in enumerate(running):
        verdict, outcome, state = kinds[number % len(kinds)]
        wanted[delivery.key] = state
        error = None if outcome is None else f"error {number}"
        reports.append(settlement(delivery, verdict, outcome, error=error, result=f"{number}"))
    settled = await dispatch.settle(reports)
    assert {s.key: s.state for s in settled} == wanted
    assert all((s.due_at is None) == (s.state >= State.COMPLETED) for s in settled)
    for report in reports:
        row = await (live if wanted[report.key] < State.COMPLETED else archived)(
            connection, report.key
        )
        assert row is not None
        assert row["state"] == wanted[report.key]
        assert row["last_error"] == report.error
        assert row["attempt"] == (report.outcome is not None)
        if wanted[report.key] < State.COMPLETED:
            assert row["losses"] == report.verdict.losses
        else:
            assert row["result"] == report.result
    counted = await connection.fetchval("SELECT count(*) FROM gnomon.execution")
    assert counted == sum(
        r.outcome is not None and wanted[r.key] is not State.COMPLETED for r in reports
    )


async def test_an_empty_batch_is_nothing(dispatch: PostgresDispatch, node: UUID) -> None:
    assert await dispatch.settle([]) == []
    assert (await dispatch.claim(node, [])).deliveries == []


async def test_a_large_payload_is_never_moved(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection
) -> None:
    payload = b'"' + b"x" * 100_000 + b'"'
    delivery = await claimed.one(payload=payload)
    assert (delivery.payload, delivery.payload_size) == (None, len(payload))
    assert await dispatch.payload(delivery.key) == payload
    place = await connection.fetchval("SELECT (tableoid, ctid)::text FROM gnomon.task_payload")
    await dispatch.settle([settlement(delivery, RETRY, FAILED)])
    await dispatch.settle([settlement(await claimed.again(delivery.key))])
    row = await archived(connection, delivery.key)
    assert row is not None
    assert (row["payload"], row["payload_size"]) == (None, len(payload))
    assert await dispatch.payload(delivery.key) == payload
    assert place == await connection.fetchval(
        "SELECT (tableoid, ctid)::text FROM gnomon.task_payload"
    )
    assert await dispatch.payload(TaskKey("stranger", delivery.key.id)) is None


# What runs, and should not


async def test_running_tasks_are_found_by_their_node(
    database: Database, dispatch: PostgresDispatch, claimed: Claimed, connection: Connection
) -> None:
    delivery = await claimed.one(retry_policy=RetryPolicy(max_retries=6))
    waiting = submission(await database_now(connection))
    await store(database, waiting)
    (running,) = await dispatch.running_on(delivery.incarnation)
    assert (running.key, running.fence) == (delivery.key, delivery.fence)
    assert (running.incarnation, running.worker) == (delivery.incarnation, "node")
    assert (running.attempt, running.retries_left, running.losses) == (1, 6, 0)
    assert running.retry_policy.max_retries == 6
    assert not running.cancel_requested
    assert await dispatch.running_on(await joined(database)) == []


async def test_the_tasks_of_dead_nodes_are_orphans(
    database: Database, dispatch: PostgresDispatch, claimed: Claimed
) -> None:
    running = await claimed.some(5)
    assert await dispatch.orphans(10, overdue=False) == []
    await PostgresRoster(database).leave(running[0].incarnation)
    found = await dispatch.orphans(10, overdue=False)
    assert {f.key for f in found} == {d.key for d in running}
    assert len(await dispatch.orphans(3, overdue=False)) == 3
    # Only the row's fence counts: whoever sweeps may settle in the dead node's name.
    lost = Verdict(VerdictKind.RETRY, losses=1)
    assert len(await dispatch.settle([settlement(running[0], lost, OutcomeKind.LOST)])) == 1
    assert len(await dispatch.orphans(10, overdue=False)) == 4


async def test_tasks_past_their_time_and_grace_are_overdue(
    dispatch: PostgresDispatch, claimed: Claimed, connection: Connection
) -> None:
    running = await claimed.some(3)
    assert await dispatch.orphans(10, overdue=True) == []
    late = running[0].key
    await connection.execute(
        "UPDATE gnomon.task SET run_until = clock_timestamp() WHERE id = $1", late.id
    )
    assert [f.key for f in await dispatch.orphans(10, overdue=True)] == [late]


async def test_the_view_shows_all_tries_in_order(
    claimed: Claimed, dispatch: PostgresDispatch, connection: Connection
) -> None:
    delivery = await claimed.one()

    async def seen() -> list[tuple[int, int | None, str | None]]:
        rows = await tries(connection, delivery.key)
        return [(row["attempt"], row["outcome"], row["worker"]) for row in rows]

    assert await seen() == [(1, None, "node")]
    await dispatch.settle([settlement(delivery, RETRY, OutcomeKind.TIMED_OUT, worker="w1")])
    assert await seen() == [(1, 2, "w1")]
    delivery = await claimed.again(delivery.key)
    await dispatch.settle([settlement(delivery, RELEASE, None)])
    delivery = await claimed.again(delivery.key)
    assert await seen() == [(1, 2, "w1"), (2, None, "node")]
    await dispatch.settle([settlement(delivery, result='"r"', worker="w2")])
    assert await seen() == [(1, 2, "w1"), (2, 0, "w2")]
    assert (await tries(connection, delivery.key))[-1]["result"] == '"r"'


async def test_an_id_from_before_the_first_partition_can_be_settled(
    database: Database, claimed: Claimed, dispatch: PostgresDispatch, connection: Connection
) -> None:
    """Rows of plain SQL may bring an id that was made long ago."""
    now = await database_now(connection)
    delivery = await claimed.one(id=new_id(now - timedelta(days=400)))
    await dispatch.settle([settlement(delivery, RETRY, FAILED)])
    await dispatch.settle([settlement(await claimed.again(delivery.key))])
    assert await archived(connection, delivery.key) is not None


async def test_a_random_id_is_refused_at_once(connection: Connection) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="id_is_a_uuidv7"):
        await connection.execute(
            "INSERT INTO gnomon.task (tenant_id, id, task_type, target) "
            "VALUES ('default', gen_random_uuid(), 'x', '{}')"
        )
