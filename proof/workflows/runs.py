"""One run on a real PostgreSQL beside the model of it: both get the same events."""

import asyncio
import random
from collections.abc import Sequence
from uuid import UUID

import asyncpg

from gnomon.clock import Clock, new_id
from gnomon.model.errors import TaskNotFound
from gnomon.model.fleet.shard import SHARDS
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE, Verdict, VerdictKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT, Resolution, Submission, TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.dispatch import Settlement, Taker
from gnomon.store.ports.work.tasks import NewTask
from gnomon.store.ports.work.workflows import NewCompensation, NewNode, NewWorkflowRun
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.store.postgres.workflows.reading import BECOMES
from gnomon.store.postgres.workflows.workflow_steps import PostgresWorkflowSteps
from gnomon.workflow.graph import Becomes, Graph
from gnomon.workflow.progress import NodeState, RunProgress
from gnomon.workflow.run import WorkflowRunState

DEAD_LETTER = Verdict(VerdictKind.DEAD_LETTER)
AGAIN = Verdict(VerdictKind.RETRY, delay=0.0, spends=True)
RELEASE = Verdict(VerdictKind.RELEASE)
_EVERYWHERE = frozenset(range(SHARDS))
_NODES = """
    SELECT n.node, n.task_id, t.state, e.state AS became, n.step, n.elements
    FROM gnomon.workflow_node AS n
    LEFT JOIN gnomon.task AS t ON t.tenant_id = n.tenant_id AND t.id = n.task_id
    LEFT JOIN gnomon.workflow_result AS e ON e.tenant_id = n.tenant_id AND e.task_id = n.task_id
    WHERE n.run_id = $1 AND n.place < $2 AND n.node <> ''
"""


class Different(AssertionError):
    """PostgreSQL and the model do not agree."""


class ComparedRun:
    """A run, as PostgreSQL and the model have it."""

    nodes_below = 10_000_000  # in their places

    def __init__(self, database: Database, graph: Graph, clock: Clock, incarnation: UUID) -> None:
        self.model = RunProgress(graph)
        self.run_id = new_id(clock.now())
        self._database = database
        self._clock = clock
        self._incarnation = incarnation
        self._tasks = PostgresTasks(database, CollectedHints(database), 60.0)
        self._dispatch = PostgresDispatch(database, 10.0)
        self._steps = PostgresWorkflowSteps(database)
        self.ids: dict[str, UUID] = {}
        # Claimed with the settlements that made them due, and not settled yet.
        self._taken: dict[UUID, Delivery] = {}
        self._fences: dict[UUID, int] = {}  # of the last claims

    async def begin(self) -> None:
        now = self._clock.now()
        nodes = [
            self.new_node(
                NewNode(
                    name,
                    node,
                    Submission(
                        tenant_id=DEFAULT_TENANT,
                        id=new_id(now),
                        task_type="step",
                        target=PythonTarget("step"),
                        execute_at=now,
                        due_at=now,
                    ),
                )
            )
            for name, node in self.model.graph.items()
        ]
        self.ids = {each.name: each.task.id for each in nodes}
        run = NewWorkflowRun(
            tenant_id=DEFAULT_TENANT,
            id=self.run_id,
            nodes=nodes,
            input=None,
            created_at=now,
            created_by=None,
            compensations=self.compensations({each.name: each.task for each in nodes}),
        )
        async with self._tasks.change(DEFAULT_TENANT) as change:
            await change.insert([NewTask(each.task) for each in nodes])
            await change.workflows.insert(run)
        await self.compare("the start")

    def compensations(self, tasks: dict[str, Submission]) -> Sequence[NewCompensation]:
        """None, unless a run says otherwise."""
        del tasks
        return ()

    def new_node(self, node: NewNode) -> NewNode:
        """A node with a task, unless a run says otherwise."""
        return node

    def state_of(self, row: asyncpg.Record) -> tuple[NodeState, Becomes | None]:
        """Where a node is."""
        return _state(row["state"], row["became"])

    def having(self, *states: NodeState) -> list[str]:
        return [name for name, state in self.model.states.items() if state in states]

    async def settle(
        self, verdicts: dict[str, Verdict], settlers: int, chance: random.Random
    ) -> None:
        """Claim these and settle them, by several at once; each report is sent twice. Some of what
        becomes due with that is claimed by the same statements."""
        tasks = {self.ids[name]: verdict for name, verdict in verdicts.items()}
        await self.settle_tasks(tasks, settlers, chance, most=chance.choice((0, 1, 3, 16)))
        for name, verdict in verdicts.items():
            if verdict is COMPLETE:
                self.model.succeed(name)
            elif verdict is DEAD_LETTER:
                self.model.die(name)
        names = {task_id: name for name, task_id in self.ids.items()}
        for task_id in self._taken:
            name = names[task_id]
            if self.model.states[name] is not NodeState.DUE:
                raise Different(f"{name} was claimed, and is {self.model.states[name]}")
        if chance.random() < 0.5:
            await self.release()

    async def settle_tasks(
        self,
        verdicts: dict[UUID, Verdict],
        settlers: int,
        chance: random.Random,
        most: int = 0,
    ) -> None:
        """`most`: how many tasks each settlement may claim."""
        deliveries = [self._taken.pop(each) for each in verdicts if each in self._taken]
        known = {each.key.id for each in deliveries}
        keys = [TaskKey(DEFAULT_TENANT, each) for each in verdicts if each not in known]
        claim = await self._dispatch.claim(self._incarnation, keys)
        if len(claim.deliveries) != len(keys):
            raise Different(f"{len(claim.deliveries)} of {len(keys)} due nodes could be claimed")
        self._note(claim.deliveries)
        settlements = [
            Settlement(
                key=each.key,
                fence=each.fence,
                incarnation=self._incarnation,
                verdict=verdicts[each.key.id],
                outcome=OutcomeKind.SUCCEEDED
                if verdicts[each.key.id] is COMPLETE
                else OutcomeKind.FAILED,
                error=None if verdicts[each.key.id] is COMPLETE else "no",
            )
            for each in [*deliveries, *claim.deliveries]
        ]
        chance.shuffle(settlements)
        batches = [settlements[place::settlers] for place in range(settlers)]
        taker = Taker(self._incarnation, most, _EVERYWHERE) if most else None
        await asyncio.gather(*(self._settle_twice(batch, taker) for batch in batches if batch))

    async def _settle_twice(self, batch: Sequence[Settlement], taker: Taker | None) -> None:
        settled = await self._dispatch.settle(batch, taker)
        if len(settled) != len(batch):
            raise Different("a settlement was refused")
        if await self._dispatch.settle(batch, taker):
            raise Different("a settlement was accepted twice")
        taken = settled[0].taken
        if taken is None:
            return
        deliveries = taken.claim.deliveries
        if taker is None or len(deliveries) > taker.most:
            raise Different(f"{len(deliveries)} were claimed with a settlement: too many")
        if any(each.attempt != 1 for each in deliveries):
            raise Different("a node has spent an attempt before its turn")
        waiting = {entry.key for each in settled for entry in each.children}
        if waiting & {each.key for each in deliveries}:
            raise Different("a node was claimed, and is said to wait")
        self._note(deliveries)
        self._taken |= {each.key.id: each for each in deliveries}

    def _note(self, deliveries: Sequence[Delivery]) -> None:
        for each in deliveries:
            if each.fence <= self._fences.get(each.key.id, 0):
                raise Different(f"task {each.key.id} was claimed twice under fence {each.fence}")
            self._fences[each.key.id] = each.fence

    async def release(self) -> None:
        """Give up what settlements have claimed: it waits again, and has spent no attempt."""
        released = [
            Settlement(each.key, each.fence, self._incarnation, RELEASE)
            for each in self._taken.values()
        ]
        self._taken.clear()
        if released and len(await self._dispatch.settle(released)) != len(released):
            raise Different("what was claimed with a settlement is held by somebody else")

    async def redrive(self, name: str) -> None:
        await self.release()
        async with self._tasks.change(DEFAULT_TENANT) as change:
            await change.redrive(self.ids[name])
        self.model.redrive(name)

    async def resolve(self, name: str) -> None:
        await self.release()
        async with self._tasks.change(DEFAULT_TENANT) as change:
            await change.resolve(self.ids[name], Resolution.DISCARDED, None, None)
        self.model.resolve(name)

    async def cancel(self, name: str, *, delete: bool) -> None:
        await self.release()
        async with self._tasks.change(DEFAULT_TENANT) as change:
            try:
                if delete:
                    await change.delete(self.ids[name])
                else:
                    await change.cancel(self.ids[name], interrupt=False)
            except TaskNotFound as error:
                raise Different(f"the task of {name} is gone") from error
        self.model.cancel(name)

    async def take_steps(self) -> None:
        while (await self._steps.take()).steps:
            pass

    async def compare(self, after: str) -> None:
        """Raises Different where PostgreSQL has it otherwise than the model."""
        await self.take_steps()
        async with self._database.connection() as connection:
            rows = await connection.fetch(_NODES, self.run_id, self.nodes_below)
            state = await connection.fetchval(
                "SELECT state FROM gnomon.workflow_run WHERE id = $1", self.run_id
            )
        if len(rows) != len(self.model.states):
            raise Different(f"after {after}, {len(rows)} nodes, not {len(self.model.states)}")
        for row in rows:
            name = row["node"]
            found = self.state_of(row)
            wanted = self.model.states[name], self.model.became.get(name)
            if found != wanted:
                raise Different(f"after {after}, {name} is {found}, and should be {wanted}")
        over = WorkflowRunState(state).is_final
        if over is not self.model.is_over:
            raise Different(f"after {after}, the run is {WorkflowRunState(state).name}")
        if over and (state == WorkflowRunState.FAILED) is not self.model.has_failed:
            raise Different(f"the run ended as {WorkflowRunState(state).name}")


def _state(task: int | None, became: int | None) -> tuple[NodeState, Becomes | None]:
    if became is not None:
        return NodeState.ENDED, BECOMES[became]
    match task:
        case State.BLOCKED:
            return NodeState.BLOCKED, None
        case State.DEAD:
            return NodeState.DEAD, None
        case None:
            raise Different("a task is gone, and nothing became of its node")
        case _:
            return NodeState.DUE, None


async def play(
    run: ComparedRun, chance: random.Random, settlers: int, most_events: int = 200
) -> int:
    """Events by chance until the run is over, or nothing more can happen by itself; gives how many.
    Most nodes succeed."""
    await run.begin()
    for number in range(most_events):
        if run.model.is_over:
            return number
        await _event(run, chance, settlers)
        await run.compare(f"event {number}")
    return most_events


async def _event(run: ComparedRun, chance: random.Random, settlers: int) -> None:
    due, dead = run.having(NodeState.DUE), run.having(NodeState.DEAD)
    blocked = run.having(NodeState.BLOCKED)
    drawn = chance.random()
    if dead and (drawn < 0.3 or not due):
        name = chance.choice(dead)
        if chance.random() < 0.6:
            await run.redrive(name)
        else:
            await run.resolve(name)
    elif drawn < 0.36 and (due or blocked):
        name = chance.choice([*due, *blocked])
        await run.cancel(name, delete=chance.random() < 0.4)
    elif due:
        chosen = chance.sample(due, chance.randint(1, len(due)))
        weights = (7, 2, 1)
        verdicts = {
            name: chance.choices((COMPLETE, DEAD_LETTER, AGAIN), weights)[0] for name in chosen
        }
        await run.settle(verdicts, settlers, chance)
