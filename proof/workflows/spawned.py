"""Runs whose nodes spawn others when they succeed, also such as were spawned themselves."""

import asyncio
import random
from uuid import UUID

import msgspec
from proof.workflows.runs import AGAIN, DEAD_LETTER, ComparedRun, Different

from gnomon.clock import Clock, new_id
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import DEFAULT_TENANT, Submission, TaskKey
from gnomon.store.ports.dispatch import Settlement
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.workflows.node_limits import TenantLimits
from gnomon.store.postgres.workflows.spawning import SpawnRules
from gnomon.workflow.graph import Graph
from gnomon.workflow.progress import NodeState
from gnomon.workflow.spawning import level_of, spawned_id, spawned_name

MOST_SPAWNED = 5
_DEEPEST = 3


def spawn_rules(clock: Clock) -> SpawnRules:
    """Makes a task for each element of a list."""

    async def accept(tenant_id: str, spawns: str, origin: Origin | None) -> list[Submission]:
        del origin
        now = clock.now()
        return [
            Submission(
                tenant_id=tenant_id,
                id=new_id(now),
                task_type="step",
                target=PythonTarget("step"),
                execute_at=now,
                due_at=now,
            )
            for _ in msgspec.json.decode(spawns)
        ]

    return SpawnRules(accept, TenantLimits())


class SpawningRun(ComparedRun):
    """A run some of whose nodes spawn others."""

    nodes_below = 2**31 - 1  # spawned ones are compared as well

    def __init__(self, database: Database, graph: Graph, clock: Clock, incarnation: UUID) -> None:
        super().__init__(database, graph, clock, incarnation)
        self._dispatch = PostgresDispatch(database, 10.0, spawn_rules(clock))

    async def spawn(self, name: str, number: int, *, lost: bool) -> None:
        """It succeeds, and two settlers say so at once: one of them is heard. `lost`: after another
        execution of it was taken for lost, whose report comes as well, too late."""
        key = TaskKey(DEFAULT_TENANT, self.ids[name])
        settlement = await self._spawning(key, number)
        late = []
        if lost:
            again = msgspec.structs.replace(
                settlement, verdict=AGAIN, outcome=OutcomeKind.FAILED, error="lost", spawns=None
            )
            await self._dispatch.settle([again])
            late, settlement = [settlement], await self._spawning(key, number)
        reports = [*late, settlement, settlement]
        settled = await asyncio.gather(
            *(self._dispatch.settle_spawning(each, None) for each in reports)
        )
        if sum(map(len, settled)) != 1:
            raise Different(f"the spawns of {name} were settled {sum(map(len, settled))} times")
        for place in range(number):
            self.ids[spawned_name(name, place)] = spawned_id(key.id, place)
        self.model.succeed(name, number)

    async def _spawning(self, key: TaskKey, number: int) -> Settlement:
        """An execution of it, which has spawned so many."""
        claimed = self._taken.pop(key.id, None)
        if claimed is None:
            (claimed,) = (await self._dispatch.claim(self._incarnation, [key])).deliveries
        return Settlement(
            key=key,
            fence=claimed.fence,
            incarnation=self._incarnation,
            verdict=COMPLETE,
            outcome=OutcomeKind.SUCCEEDED,
            spawns=msgspec.json.encode([None] * number).decode(),
        )


async def play_spawning(
    run: SpawningRun, chance: random.Random, settlers: int, most_events: int = 400
) -> int:
    """Events by chance until the run is over; gives how many."""
    await run.begin()
    for number in range(most_events):
        if run.model.is_over:
            return number
        await _event(run, chance, settlers)
        await run.compare(f"event {number}")
    return most_events


async def _event(run: SpawningRun, chance: random.Random, settlers: int) -> None:
    due, dead = run.having(NodeState.DUE), run.having(NodeState.DEAD)
    if dead and (chance.random() < 0.3 or not due):
        name = chance.choice(dead)
        await (run.redrive(name) if chance.random() < 0.6 else run.resolve(name))
        return
    chosen = chance.sample(due, chance.randint(1, len(due)))
    if chance.random() < 0.06:
        await run.cancel(chosen[0], delete=chance.random() < 0.4)
        return
    spawning = [name for name in chosen if chance.random() < 0.3 and level_of(name) < _DEEPEST]
    verdicts = {
        name: chance.choices((COMPLETE, DEAD_LETTER), (7, 2))[0]
        for name in chosen
        if name not in spawning
    }
    await asyncio.gather(
        *(
            run.spawn(name, chance.randint(1, MOST_SPAWNED), lost=chance.random() < 0.3)
            for name in spawning
        ),
        *([run.settle(verdicts, settlers, chance)] if verdicts else []),
        run.take_steps(),
    )
