"""Random workflows with nodes that wait for signals and nodes that are mapped over lists, on a real
PostgreSQL beside the model: for that, both are nodes whose turn comes and that end."""

import asyncio
import random
from collections.abc import Sequence
from uuid import UUID

import asyncpg
import msgspec
from proof.workflows.runs import DEAD_LETTER, ComparedRun, Different

from gnomon.model.outcomes.verdict import COMPLETE, Verdict
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT, Resolution
from gnomon.store.ports.work.workflows import NewNode, RunSignal
from gnomon.workflow.graph import Becomes, OnFailure
from gnomon.workflow.mapping import element_id
from gnomon.workflow.progress import NodeState
from gnomon.workflow.run import WorkflowNodeKind
from gnomon.workflow.turn import NodeTemplate
from gnomon.workflow.wait import NodeWait

MOST_ELEMENTS = 12
_FAILED = 2  # what became of an element
_ELEMENTS = """
    SELECT n.task_id, t.state, e.state AS became
    FROM gnomon.workflow_node AS n
    LEFT JOIN gnomon.task AS t ON t.tenant_id = n.tenant_id AND t.id = n.task_id
    LEFT JOIN gnomon.workflow_result AS e ON e.tenant_id = n.tenant_id AND e.task_id = n.task_id
    WHERE n.run_id = $1 AND n.task_id = ANY ($2::uuid[])
"""


class HeldRun(ComparedRun):
    """A run some of whose nodes wait for signals, and some are mapped."""

    def with_held(self, chance: random.Random) -> "HeldRun":
        self.waits, self.lists = set(), {}
        for name in self.model.graph:
            drawn = chance.random()
            if drawn < 0.25:
                self.waits.add(name)
            elif drawn < 0.5:
                self.lists[name] = chance.randint(1, MOST_ELEMENTS)
        self.early = {name for name in self.waits if chance.random() < 0.3}
        return self

    def new_node(self, node: NewNode) -> NewNode:
        name, kind = node.name, WorkflowNodeKind.TASK
        template = None
        if name in self.waits:
            kind, template = WorkflowNodeKind.WAIT, NodeTemplate(wait=NodeWait(signal=name))
        elif name in self.lists:
            kind = WorkflowNodeKind.MAPPED
            template = NodeTemplate(
                payload=msgspec.Raw(b'"{{item}}"'),
                map=msgspec.Raw(msgspec.json.encode([*range(self.lists[name])])),
                task=msgspec.Raw(msgspec.json.encode(node.task)),
            )
        stored = None if template is None else msgspec.json.encode(template)
        return msgspec.structs.replace(node, template=stored, kind=kind)

    def state_of(self, row: asyncpg.Record) -> tuple[NodeState, Becomes | None]:
        """One whose signal was sent early has ended as soon as its turn came; so the model is told
        of it here."""
        name = row["node"]
        if row["became"] is None and row["state"] == State.BLOCKED:
            if name in self.waits and row["step"] == -1:
                return NodeState.DUE, None
            if name in self.lists and row["elements"] is not None:
                return NodeState.DUE, None
        return super().state_of(row)

    async def begin_early(self) -> None:
        """Begin, with some signals that are sent before anybody waits for them."""
        sent = self.early
        self.early = set()
        await self.begin()
        for name in sent:
            await self.send(name)
        self.early = sent
        await self.compare("early signals")

    async def send(self, name: str) -> None:
        signal = RunSignal(name, b"1", self._clock.now(), None)
        async with self._tasks.change(DEFAULT_TENANT) as change:
            await change.workflows.signal(self.run_id, signal)

    async def compare(self, after: str) -> None:
        """Signals that were sent early end their nodes as soon as the turn of these has come."""
        again = True
        while again:
            again = False
            for name in self.early:
                if self.model.states[name] is NodeState.DUE:
                    self.model.succeed(name)
                    again = True
        await super().compare(after)

    async def take_steps(self) -> None:
        """Three at once, until none finds anything to do."""
        steps = 1
        while steps:
            taken = await asyncio.gather(*(self._steps.take() for _ in range(3)))
            steps = sum(each.steps for each in taken)

    async def elements(self, name: str) -> Sequence[asyncpg.Record]:
        ids = [element_id(self.ids[name], index) for index in range(self.lists[name])]
        async with self._database.connection() as connection:
            found = await connection.fetch(_ELEMENTS, self.run_id, ids)
        if len(found) != len(ids):
            raise Different(f"{len(found)} elements of {name}, and not {len(ids)}")
        return found

    async def end_elements(self, name: str, chance: random.Random, settlers: int) -> None:
        """Settle those that can be, retry or resolve those that died."""
        fails = self.model.graph[name].on_failure is OnFailure.FAIL
        found = await self.elements(name)
        verdicts: dict[UUID, Verdict] = {}
        for each in found:
            if each["state"] == State.DEAD and fails:
                async with self._tasks.change(DEFAULT_TENANT) as change:
                    if chance.random() < 0.7:
                        await change.redrive(each["task_id"])
                    else:
                        await change.resolve(each["task_id"], Resolution.DISCARDED, None, None)
            elif each["state"] == State.WAITING and chance.random() < 0.8:
                verdicts[each["task_id"]] = COMPLETE if chance.random() < 0.8 else DEAD_LETTER
        if verdicts:
            await asyncio.gather(
                self.settle_tasks(verdicts, settlers, chance), self.take_steps(), self.take_steps()
            )
        became = [each["became"] for each in await self.elements(name)]
        if None not in became:
            if _FAILED in became:
                self.model.resolve(name)
            else:
                self.model.succeed(name)

    async def cancel_map(self, name: str) -> None:
        """The node, and then its elements: it stands for these until they have ended. Not where one
        has failed: then the run has, too."""
        found = await self.elements(name)
        if any(each["state"] == State.DEAD or each["became"] == _FAILED for each in found):
            return
        await self.release()
        async with self._tasks.change(DEFAULT_TENANT) as change:
            await change.cancel(self.ids[name], interrupt=False)
        for each in await self.elements(name):
            async with self._tasks.change(DEFAULT_TENANT) as change:
                if each["state"] == State.WAITING:
                    await change.cancel(each["task_id"], interrupt=False)
        self.model.cancel(name)


async def play_held(
    run: HeldRun, chance: random.Random, settlers: int, most_events: int = 300
) -> int:
    """Events by chance until the run is over; gives how many."""
    await run.begin_early()
    for number in range(most_events):
        if run.model.is_over:
            return number
        await _event(run, chance, settlers)
        await run.compare(f"event {number}")
    return most_events


async def _event(run: HeldRun, chance: random.Random, settlers: int) -> None:
    due, dead = run.having(NodeState.DUE), run.having(NodeState.DEAD)
    plain = [name for name in due if name not in run.waits and name not in run.lists]
    held = [name for name in due if name not in plain]
    if dead and (chance.random() < 0.3 or not due):
        name = chance.choice(dead)
        await (run.redrive(name) if chance.random() < 0.6 else run.resolve(name))
    elif held and (chance.random() < 0.6 or not plain):
        name = chance.choice(held)
        if chance.random() < 0.1:
            await (run.cancel_map(name) if name in run.lists else run.cancel(name, delete=False))
        elif name in run.waits:
            await asyncio.gather(run.send(name), run.take_steps())
            run.model.succeed(name)
        else:
            await run.end_elements(name, chance, settlers)
    elif plain:
        chosen = chance.sample(plain, chance.randint(1, len(plain)))
        verdicts = {name: chance.choices((COMPLETE, DEAD_LETTER), (7, 2))[0] for name in chosen}
        await asyncio.gather(run.settle(verdicts, settlers, chance), run.take_steps())
