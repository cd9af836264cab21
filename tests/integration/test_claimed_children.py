"""Settlements that claim what they make due: what is claimed, and what is left to others."""

import asyncio
from typing import Any
from uuid import UUID

import msgspec
import pytest
from proof.workflows.runs import DEAD_LETTER, ComparedRun
from tests.integration.support import Connection, joined

from gnomon.clock import SystemClock
from gnomon.model.fleet.pool import WEBHOOKS, Pool
from gnomon.model.fleet.shard import SHARDS, shard_of
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE, Verdict, VerdictKind
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.dispatch import Settled, Settlement, TakenChildren, Taker
from gnomon.store.ports.work.workflows import NewNode
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.workflow.graph import Graph, GraphNode, When
from gnomon.workflow.turn import NodeTemplate

RELEASE = Verdict(VerdictKind.RELEASE)
EVERYWHERE = frozenset(range(SHARDS))
FAN_OUT: Graph = {"a": GraphNode(), "b": GraphNode(("a",)), "c": GraphNode(("a",))}


class TakingRun(ComparedRun):
    """A run whose settlements may claim, by hand."""

    templated: frozenset[str] = frozenset()

    def new_node(self, node: NewNode) -> NewNode:
        if node.name not in self.templated:
            return node
        template = msgspec.json.encode(NodeTemplate(payload=msgspec.Raw(b'"{{run.id}}"')))
        return msgspec.structs.replace(node, template=template)

    def key(self, name: str) -> TaskKey:
        return TaskKey(DEFAULT_TENANT, self.ids[name])

    async def claimed(self, *names: str) -> list[Delivery]:
        return (await self._dispatch.claim(self._incarnation, [*map(self.key, names)])).deliveries

    async def end(
        self, deliveries: list[Delivery], taker: Taker | None, verdict: Verdict = COMPLETE
    ) -> list[Settled]:
        outcome = None if verdict is RELEASE else OutcomeKind.FAILED
        if verdict is COMPLETE:
            outcome = OutcomeKind.SUCCEEDED
        settlements = [
            Settlement(d.key, d.fence, d.incarnation, verdict, outcome) for d in deliveries
        ]
        return await self._dispatch.settle(settlements, taker)

    async def take(
        self, *names: str, taker: Taker, verdict: Verdict = COMPLETE
    ) -> TakenChildren | None:
        """End these; gives what was claimed with that."""
        settled = await self.end(await self.claimed(*names), taker, verdict)
        assert len(settled) == len(names)
        assert not any(each.taken for each in settled[1:]), "it is on the first of them"
        return settled[0].taken

    def names(self, taken: TakenChildren | None) -> set[str]:
        assert taken is not None
        names = {task_id: name for name, task_id in self.ids.items()}
        assert [entry.key for entry in taken.entries] == [d.key for d in taken.claim.deliveries]
        return {names[d.key.id] for d in taken.claim.deliveries}


@pytest.fixture
async def node(database: Database) -> UUID:
    return await joined(database)


@pytest.fixture
def taker(node: UUID) -> Taker:
    return Taker(node, 16, EVERYWHERE)


async def begun(
    database: Database, clock: SystemClock, node: UUID, graph: Graph, *templated: str
) -> TakingRun:
    run = TakingRun(database, graph, clock, node)
    run.templated = frozenset(templated)
    await run.begin()
    return run


async def row_of(connection: Connection, key: TaskKey) -> dict[str, Any]:
    row = await connection.fetchrow("SELECT * FROM gnomon.task WHERE id = $1", key.id)
    assert row is not None
    return dict(row)


async def test_what_becomes_due_is_claimed_as_a_claim_would(
    database: Database, clock: SystemClock, connection: Connection, node: UUID, taker: Taker
) -> None:
    run = await begun(database, clock, node, FAN_OUT)
    await connection.execute(
        """UPDATE gnomon.task SET payload = 'null', timeout_seconds = 0.5, idempotency_key = 'k"',
            origin = '{"correlation_id": "x"}', retry_policy = '{"max_retries": 7}', lane = 1,
            limit_keys = '{"a": "b"}', queue = 'q', preemptible = true, delivery = 1,
            expires_at = gnomon.now() WHERE state = 3"""
    )
    taken = await run.take("a", taker=msgspec.structs.replace(taker, most=1))
    (mine,) = taken.claim.deliveries if taken is not None else []
    (other,) = {"b", "c"} - run.names(taken)
    (theirs,) = await run.claimed(other)
    for field in set(Delivery.__struct_fields__) - {
        "key",
        "address",  # which a settlement does not tell
        "not_before",
        "start_by",
        "scheduled_for",
        "workflow_node",
    }:
        assert getattr(mine, field) == getattr(theirs, field), field
    assert theirs.payload == b"null"
    assert 0 <= theirs.start_by - mine.start_by < 60
    assert taken is not None
    assert taken.claim.now is not None
    assert taken.entries[0].due_at <= taken.claim.now, "nothing starts before it is due"
    first, second = await row_of(connection, mine.key), await row_of(connection, theirs.key)
    for column in ("state", "fence", "attempt", "node", "begun", "gated"):
        assert first[column] == second[column], column
    for row in (first, second):
        assert (row["run_until"] - row["started_at"]).total_seconds() == pytest.approx(10.5)
    assert len(await run.end([mine, theirs], None)) == 2
    run.model.succeed("a")
    run.model.succeed("b")
    run.model.succeed("c")
    await run.compare("the end")


async def test_a_payload_that_is_not_there_is_not_null(
    database: Database, clock: SystemClock, node: UUID, taker: Taker
) -> None:
    run = await begun(database, clock, node, FAN_OUT)
    taken = await run.take("a", taker=taker)
    assert taken is not None
    assert [d.payload for d in taken.claim.deliveries] == [None, None]


async def test_what_was_not_claimed_is_given_as_due(
    database: Database, clock: SystemClock, node: UUID, taker: Taker
) -> None:
    run = await begun(database, clock, node, FAN_OUT)
    (settled,) = await run.end(await run.claimed("a"), msgspec.structs.replace(taker, most=1))
    (claimed,) = run.names(settled.taken)
    assert [entry.key for entry in settled.children] == [run.key(({"b", "c"} - {claimed}).pop())]


async def test_the_most_urgent_are_claimed_first(
    database: Database, clock: SystemClock, connection: Connection, node: UUID, taker: Taker
) -> None:
    names = [f"n{number}" for number in range(6)]
    run = await begun(
        database, clock, node, {"a": GraphNode(), **{n: GraphNode(("a",)) for n in names}}
    )
    await connection.execute(
        "UPDATE gnomon.task SET lane = $1 WHERE id = ANY ($2)",
        Lane.CRITICAL, [run.ids["n5"], run.ids["n3"]],
    )  # fmt: skip
    taken = await run.take("a", taker=msgspec.structs.replace(taker, most=2))
    assert run.names(taken) == {"n3", "n5"}


async def test_only_what_the_node_serves_is_claimed(
    database: Database, clock: SystemClock, connection: Connection, node: UUID, taker: Taker
) -> None:
    for pool, claims in (
        (WEBHOOKS, False),
        (Pool(handlers=frozenset({"other"})), False),
        (Pool(webhooks=False, handlers=frozenset({"step", "other"})), True),
        (Pool(queues=frozenset({"q"})), False),
        (Pool(tenants=frozenset({"somebody"})), False),
        (Pool(lanes=frozenset({Lane.MEDIUM})), True),
    ):
        run = await begun(database, clock, node, FAN_OUT)
        taken = await run.take("a", taker=msgspec.structs.replace(taker, pool=pool))
        assert (taken is not None) is claims, pool
    run = await begun(database, clock, node, FAN_OUT)
    shards = {name: shard_of(run.ids[name]) for name in "bc"}
    elsewhere = EVERYWHERE - set(shards.values())
    taken = await run.take("a", taker=msgspec.structs.replace(taker, shards=elsewhere))
    assert taken is None
    run = await begun(database, clock, node, FAN_OUT)
    only = frozenset({shard_of(run.ids["b"])})
    served = {name for name in "bc" if shard_of(run.ids[name]) in only}
    taken = await run.take("a", taker=msgspec.structs.replace(taker, shards=only))
    assert run.names(taken) == served


async def test_nothing_is_claimed_before_its_turn(
    database: Database, clock: SystemClock, connection: Connection, node: UUID, taker: Taker
) -> None:
    graph = {
        "a": GraphNode(),
        "b": GraphNode(),
        "both": GraphNode(("a", "b")),
        "filled": GraphNode(("a",)),
        "failed": GraphNode(("a",), When.ANY_FAILED),
    }
    run = await begun(database, clock, node, graph, "filled")
    assert await run.take("a", taker=taker) is None
    run.model.succeed("a")
    await run.compare("a")  # the chore fills in a payload, and the task is due
    taken = await run.take("b", taker=taker)
    assert run.names(taken) == {"both"}


async def test_nothing_of_a_paused_run_is_claimed(
    database: Database, clock: SystemClock, connection: Connection, node: UUID, taker: Taker
) -> None:
    run = await begun(database, clock, node, FAN_OUT)
    ended = await run.claimed("a")
    await connection.execute("UPDATE gnomon.workflow_run SET paused = true")
    (settled,) = await run.end(ended, taker)
    assert (settled.taken, settled.children) == (None, ())


async def test_a_dead_letter_may_let_a_node_start(
    database: Database, clock: SystemClock, node: UUID, taker: Taker
) -> None:
    graph = {"a": GraphNode(), "b": GraphNode(("a",), When.ANY_FAILED), "c": GraphNode(("a",))}
    run = await begun(database, clock, node, graph)
    assert run.names(await run.take("a", taker=taker, verdict=DEAD_LETTER)) == {"b"}


async def test_suspects_are_left_to_the_agenda(
    database: Database, clock: SystemClock, connection: Connection, node: UUID, taker: Taker
) -> None:
    run = await begun(database, clock, node, FAN_OUT)
    await connection.execute("UPDATE gnomon.task SET losses = 1 WHERE id = $1", run.ids["b"])
    assert run.names(await run.take("a", taker=taker)) == {"c"}


async def test_a_settlement_that_is_sent_again_claims_nothing(
    database: Database, clock: SystemClock, connection: Connection, node: UUID, taker: Taker
) -> None:
    run = await begun(database, clock, node, FAN_OUT)
    ended = await run.claimed("a")
    (settled,) = await run.end(ended, taker)
    assert run.names(settled.taken) == {"b", "c"}
    fences = [(await row_of(connection, run.key(name)))["fence"] for name in "bc"]
    assert await run.end(ended, taker) == []
    assert [(await row_of(connection, run.key(name)))["fence"] for name in "bc"] == fences


async def test_what_is_released_has_spent_no_attempt(
    database: Database, clock: SystemClock, connection: Connection, node: UUID, taker: Taker
) -> None:
    run = await begun(database, clock, node, FAN_OUT)
    taken = await run.take("a", taker=taker)
    assert taken is not None
    assert {d.attempt for d in taken.claim.deliveries} == {1}
    assert len(await run.end(taken.claim.deliveries, taker, RELEASE)) == 2
    for name in "bc":
        row = await row_of(connection, run.key(name))
        assert (row["state"], row["attempt"], row["node"], row["fence"]) == (0, 0, None, 2)


async def test_a_dead_node_claims_nothing(
    database: Database, clock: SystemClock, connection: Connection, node: UUID, taker: Taker
) -> None:
    run = await begun(database, clock, node, FAN_OUT)
    ended = await run.claimed("a")
    await connection.execute("UPDATE gnomon.node SET dead = true")
    (settled,) = await run.end(ended, taker)
    assert settled.taken is None
    assert len(settled.children) == 2


async def test_nobody_who_holds_the_row_of_the_node_is_waited_for(
    database: Database, clock: SystemClock, connection: Connection, node: UUID, taker: Taker
) -> None:
    """A settlement holds the rows of tasks: whoever holds that of the node may wait for one."""
    run = await begun(database, clock, node, FAN_OUT)
    ended = await run.claimed("a")
    async with connection.transaction():
        await connection.execute("SELECT FROM gnomon.node FOR UPDATE")
        async with asyncio.timeout(10):
            (settled,) = await run.end(ended, taker)
    assert settled.taken is None
    assert len(settled.children) == 2


async def test_of_two_that_end_the_last_parents_one_claims_the_child(
    database: Database, clock: SystemClock, node: UUID, taker: Taker
) -> None:
    for _ in range(20):
        graph = {"a": GraphNode(), "b": GraphNode(), "c": GraphNode(("a", "b"))}
        run = await begun(database, clock, node, graph)
        a, b = await run.claimed("a", "b")
        both = await asyncio.gather(run.end([a], taker), run.end([b], taker))
        taken = [settled.taken for (settled,) in both if settled.taken is not None]
        assert [run.names(each) for each in taken] == [{"c"}]


async def test_its_turn_and_its_claim_are_both_in_the_log_of_transitions(
    database: Database, clock: SystemClock, connection: Connection, node: UUID, taker: Taker
) -> None:
    run = await begun(database, clock, node, FAN_OUT)
    await connection.execute("UPDATE gnomon.task SET log_transitions = true")
    await run.take("a", taker=taker)
    rows = await connection.fetch(
        "SELECT from_state, to_state FROM gnomon.transition WHERE task_id = $1 ORDER BY number",
        run.ids["b"],
    )
    assert [tuple(row) for row in rows] == [(3, 0), (0, 1)]


async def test_a_row_that_cannot_be_read_keeps_no_other_back(
    database: Database, clock: SystemClock, connection: Connection, node: UUID, taker: Taker
) -> None:
    run = await begun(database, clock, node, FAN_OUT)
    await connection.execute(
        "UPDATE gnomon.task SET target = '{\"type\": 1}' WHERE id = $1", run.ids["b"]
    )
    taken = await run.take("a", taker=taker)
    assert taken is not None
    assert run.names(taken) == {"c"}
    assert [burial.key for burial in taken.claim.unreadable] == [run.key("b")]
    rows = await PostgresDispatch(database, 10.0).running_on(node)
    assert {row.key for row in rows} == {run.key("b"), run.key("c")}, "the reconciler finds it"
