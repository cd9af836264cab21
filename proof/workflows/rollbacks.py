"""Rollbacks of random workflows on a real PostgreSQL, at random moments: what was completed is
undone once, and after all that came after it."""

import asyncio
import random
from uuid import UUID

import msgspec
from proof.workflows.runs import DEAD_LETTER, ComparedRun, Different

from gnomon.clock import new_id
from gnomon.model.outcomes.verdict import COMPLETE, Verdict
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT, Resolution, Submission
from gnomon.store.ports.work.workflows import NewCompensation
from gnomon.workflow.progress import NodeState
from gnomon.workflow.run import WorkflowRunState

_AGAIN = TimeoutError  # cut off: the chore tries again
_COMPENSATIONS = """
    SELECT n.compensates, n.task_id, t.state, e.state AS became
    FROM gnomon.workflow_node AS n
    LEFT JOIN gnomon.task AS t ON t.tenant_id = n.tenant_id AND t.id = n.task_id
    LEFT JOIN gnomon.workflow_result AS e ON e.tenant_id = n.tenant_id AND e.task_id = n.task_id
    WHERE n.run_id = $1 AND n.compensates IS NOT NULL
"""


class RolledBackRun(ComparedRun):
    """A run some of whose nodes have compensations."""

    def with_compensations(self, chance: random.Random) -> "RolledBackRun":
        self.undoable = {name for name in self.model.graph if chance.random() < 0.7}
        return self

    def compensations(self, tasks: dict[str, Submission]) -> list[NewCompensation]:
        now = self._clock.now()
        return [
            NewCompensation(name, _other(tasks[name], new_id(now)))
            for name in tasks
            if name in self.undoable
        ]

    async def roll_back(self) -> None:
        await self.release()
        async with self._tasks.change(DEFAULT_TENANT) as change:
            await change.workflows.roll_back(self.run_id, "for a proof", interrupt=False)

    async def take_steps(self) -> None:
        """By several at once; some are cut off at a place that chance chooses."""
        if not self.rivals:
            await super().take_steps()
            return
        while True:
            done = await asyncio.gather(
                *(self._one_round(each) for each in range(3)), return_exceptions=True
            )
            for each in done:
                if isinstance(each, BaseException) and not isinstance(each, _AGAIN):
                    raise each
            if not any(isinstance(each, _AGAIN) or each for each in done):
                return

    rivals: random.Random | None = None

    async def _one_round(self, place: int) -> int:
        assert self.rivals is not None
        if place == 0 and self.rivals.random() < 0.5:
            async with asyncio.timeout(self.rivals.random() * 0.01):
                return (await self._steps.take()).steps
        return (await self._steps.take()).steps

    async def undone(self) -> dict[str, tuple[UUID, int | None, int | None]]:
        async with self._database.connection() as connection:
            rows = await connection.fetch(_COMPENSATIONS, self.run_id)
        found = {row["compensates"]: (row["task_id"], row["state"], row["became"]) for row in rows}
        if len(found) != len(rows):
            raise Different("a node is undone twice")
        return found

    async def state(self) -> WorkflowRunState:
        async with self._database.connection() as connection:
            found = await connection.fetchval(
                "SELECT state FROM gnomon.workflow_run WHERE id = $1", self.run_id
            )
        return WorkflowRunState(found)


def _other(task: Submission, task_id: UUID) -> Submission:
    return msgspec.structs.replace(task, id=task_id)


def below(run: RolledBackRun) -> dict[str, set[str]]:
    """All nodes that come after each, directly or not."""
    found: dict[str, set[str]] = {name: set() for name in run.model.graph}
    for name in reversed(list(run.model.graph)):  # those before it in the order of the graph
        for parent in run.model.graph[name].after:
            found[parent] |= {name, *found[name]}
    return found


async def play_rollback(run: RolledBackRun, chance: random.Random, settlers: int) -> int:
    """Some nodes succeed, then the run is rolled back; gives how many were undone."""
    await run.begin()
    run.rivals = chance
    completed: set[str] = set()
    for _ in range(chance.randint(0, 12)):
        due = run.having(NodeState.DUE)
        if not due or run.model.is_over:
            break
        verdicts = {
            name: chance.choices((COMPLETE, DEAD_LETTER), (8, 1))[0]
            for name in chance.sample(due, chance.randint(1, len(due)))
        }
        await run.settle(verdicts, settlers, chance)
        completed |= {name for name, verdict in verdicts.items() if verdict is COMPLETE}
        await run.compare("a settlement")
    await run.roll_back()
    await run.take_steps()
    expected = completed & run.undoable
    after = below(run)
    for _ in range(500):
        found = await run.undone()
        if found.keys() != expected:
            raise Different(f"{sorted(found)} are undone, and should be {sorted(expected)}")
        open_ = {name for name, (_, _, became) in found.items() if became is None}
        for name, (_, state, became) in found.items():
            started = became is None and state in (State.WAITING, State.RUNNING, State.DEAD)
            if started and after[name] & open_:
                raise Different(f"{name} is undone before {sorted(after[name] & open_)}")
        if not open_:
            break
        await _one_event(run, found, chance, settlers)
        await run.take_steps()
    if await run.state() is not WorkflowRunState.ROLLED_BACK:
        raise Different(f"the run is {(await run.state()).name}")
    return len(expected)


async def _one_event(
    run: RolledBackRun,
    found: dict[str, tuple[UUID, int | None, int | None]],
    chance: random.Random,
    settlers: int,
) -> None:
    due = [name for name, (_, state, _) in found.items() if state == State.WAITING]
    dead = [name for name, (_, state, _) in found.items() if state == State.DEAD]
    ids = {name: task_id for name, (task_id, _, _) in found.items()}
    blocked = [name for name, (_, state, _) in found.items() if state == State.BLOCKED]
    async with run._tasks.change(DEFAULT_TENANT) as change:
        if dead and (chance.random() < 0.5 or not due):
            name = chance.choice(dead)
            if chance.random() < 0.7:
                await change.redrive(ids[name])
            else:
                await change.resolve(ids[name], Resolution.DISCARDED, None, None)
            return
        if blocked and chance.random() < 0.1:  # by hand, before its turn
            await change.cancel(ids[chance.choice(blocked)], interrupt=False)
            return
    verdicts: dict[str, Verdict] = {
        name: chance.choices((COMPLETE, DEAD_LETTER), (4, 1))[0]
        for name in chance.sample(due, chance.randint(1, len(due)))
    }
    await run.settle_tasks(
        {ids[name]: verdict for name, verdict in verdicts.items()}, settlers, chance
    )
