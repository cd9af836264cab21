"""`make chaos-cron`: nodes are killed and frozen while jobs fire every second, and come back.

Half of the jobs make up for what was missed: each of their fires must lead to exactly one run.
The other half skips: each fire to one run at the most, and none only around a kill. Whoever was
killed, and when, follows from the seed. A run whose faults did not take effect proves nothing,
and is called invalid.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from proof.cron_chaos.checker import Job, Judgement, Window, judge, recovery
from proof.cron_chaos.world import CronReceiver, create, definition, storing, unsettled
from tests.system.harness import LEASE, Process, Truth, eventually

from gnomon.cron.job import Definition, Missed, Overlap

NODES = 3
BETWEEN_KILLS = (5.0, 8.0)  # seconds
DOWN = (0.5, 3.0)  # seconds from a kill to the next start
SECOND_VICTIM = 0.2  # how likely a kill takes two nodes, or all of them
ALL_VICTIMS = 0.1
FROZEN = 0.2  # how likely they are not killed but stopped, until others have taken over
RUN = 0.1  # seconds that a run takes, so that kills meet some
# Seconds after the lease has run out, and the node is back, until all must be in time again.
RECOVERY = 5.0
_STEP = 0.1
_SETTLED_WITHIN = 120.0  # seconds, or as long as the faults lasted

Show = Callable[[str], None]


class Plan(msgspec.Struct, frozen=True):
    """What a run is asked to do."""

    seconds: float
    jobs: int
    seed: int
    between_kills: tuple[float, float] = BETWEEN_KILLS
    down: tuple[float, float] = DOWN
    missed_after: float = 1.0  # seconds, of the jobs that skip


class Fault(NamedTuple):
    """Some nodes die or freeze, and come back. Seconds since the beginning."""

    at: float
    nodes: tuple[int, ...]
    back_at: float
    freezes: bool


class Report(msgspec.Struct, frozen=True):
    """What a run showed."""

    plan: Plan
    kills: int  # of nodes that were serving
    freezes: int  # the same
    declared_dead: int  # by their peers
    deaths: list[str]  # the last words of nodes that nobody killed
    windows: list[Window]
    recovery: float  # seconds after the end of a window that a fire was still skipped
    covered: float  # how much of the time lies in windows with that recovery
    unsettled: int  # jobs and runs that were not done when the patience ended
    dead_letters: int  # runs that were lost too often
    judgement: Judgement
    last_try: float  # seconds from the last fire to its run

    @property
    def valid(self) -> bool:
        """Whether enough went wrong for the rest to mean something."""
        wanted = sum(not fault.freezes for fault in faults(self.plan))
        return self.kills >= max(1, wanted // 2) and self.declared_dead > 0

    @property
    def holds(self) -> bool:
        return self.valid and not self.deaths and not self.judgement.wrong

    @property
    def bound(self) -> float:
        """With 95 % confidence, fewer than this share of all fires go wrong: 3/n."""
        return 3 / max(1, self.judgement.fires)


def faults(plan: Plan) -> list[Fault]:
    """The same for the same seed."""
    chance = random.Random(plan.seed)
    found: list[Fault] = []
    at = chance.uniform(*plan.between_kills)
    while at < plan.seconds:
        kind = chance.random()
        victims = NODES if kind < ALL_VICTIMS else 2 if kind < ALL_VICTIMS + SECOND_VICTIM else 1
        nodes = tuple(chance.sample(range(NODES), victims))
        down, freezes = chance.uniform(*plan.down), chance.random() < FROZEN
        back_at = at + down + (2 * LEASE if freezes else 0)
        found.append(Fault(at, nodes, back_at, freezes))
        at = max(at, back_at if freezes else 0) + chance.uniform(*plan.between_kills)
    return found


def definitions(plan: Plan, url: str, end: datetime) -> list[Definition]:
    """Nothing fires after the end, so that what was left behind can be made up for."""
    made_up = plan.jobs - plan.jobs // 2
    return [
        *(
            definition(
                f"all-{n}",
                url,
                end_date=end,
                overlap_policy=Overlap.ALLOW,
                missed_run_policy=Missed.BACKFILL,
            )
            for n in range(made_up)
        ),
        *(
            definition(
                f"some-{n}",
                url,
                end_date=end,
                overlap_policy=Overlap.ALLOW,
                missed_run_policy=Missed.SKIP,
                missed_after_seconds=plan.missed_after,
            )
            for n in range(plan.jobs - made_up)
        ),
    ]


class Chaos:
    """One run: the nodes, the receiver, and what was done to them."""

    def __init__(self, plan: Plan, dsn: str, folder: Path, show: Show) -> None:
        self._plan = plan
        self._dsn = dsn
        self._show = show
        self._receiver = CronReceiver(folder)
        self._nodes = [Process(dsn, folder, f"node-{n}", "scheduler") for n in range(NODES)]
        self._windows: list[Window] = []
        self._kills = 0
        self._freezes = 0
        self._unsettled = 0
        self._dead_letters = 0
        self._down: set[int] = set()
        self._starting: dict[int, int] = {}  # nodes, with the windows that they are in
        self._deaths: list[str] = []  # that nobody asked for

    async def run(self) -> Report:
        self._receiver.start()
        try:
            return await self._through()
        finally:
            for node in self._nodes:
                node.close()
            self._receiver.close()

    async def _through(self) -> Report:
        for node in self._nodes:
            node.start()
        for node in self._nodes:
            await node.started()
        began = time.time()
        until = math.floor(began) + self._plan.seconds + 0.5
        end = datetime.fromtimestamp(until, UTC)
        async with storing(self._dsn) as tasks:
            url = self._receiver.url(seconds=RUN)
            jobs = await create(tasks, definitions(self._plan, url, end))
        await self._inject()
        await self._settle(jobs, until)
        for node in self._nodes:
            node.terminate()
            await node.code(timeout=30)
        return self._report(jobs, began, until)

    async def _inject(self) -> None:
        """Kill and start nodes as planned, at the pace of the clock."""
        began = time.monotonic()
        left, down = faults(self._plan), list[Fault]()
        while (passed := time.monotonic() - began) < self._plan.seconds or down:
            for fault in [f for f in down if f.back_at <= passed]:
                down.remove(fault)
                self._bring_back(fault)
            for fault in [f for f in left if f.at <= passed][: not down]:
                left.remove(fault)
                down.append(fault)
                self._strike(fault)
            await self._look_after_nodes()
            seen = len(self._receiver.calls()) // 2
            self._show(
                f"{passed:5.0f} s   {self._kills} kills   {self._freezes} freezes   {seen} calls"
            )
            await asyncio.sleep(_STEP)
        await eventually(self._look_after_nodes)

    def _strike(self, fault: Fault) -> None:
        at = time.time()
        for number in fault.nodes:
            node = self._nodes[number]
            serving = node.alive and number not in self._starting
            if fault.freezes:
                node.pause()
                self._freezes += serving
            else:
                self._kills += serving
                self._starting.pop(number, None)
                self._down.add(number)
                node.kill()
        self._windows.append(Window(at - 1, at + LEASE))

    def _bring_back(self, fault: Fault) -> None:
        for number in fault.nodes:
            if fault.freezes:
                self._nodes[number].go_on()
            else:
                self._nodes[number].start()
            self._down.discard(number)
            self._starting[number] = len(self._windows) - 1

    async def _look_after_nodes(self) -> bool:
        """Whether all that are to serve do. A node takes shards over from others when it comes,
        too: its window lasts until after that."""
        for number, node in enumerate(self._nodes):
            if number in self._down:
                continue
            if not node.alive:
                code = node.process.returncode
                self._deaths.append(f"exit code {code}: {node.text()[-2000:]}")
                node.start()
                self._starting[number] = len(self._windows) - 1
            elif number in self._starting and node.serving:
                window = self._windows[self._starting.pop(number)]
                end = max(window.end, time.time())
                self._windows[self._windows.index(window)] = window._replace(end=end)
        return not self._starting

    async def _settle(self, jobs: Sequence[Job], until: float) -> None:
        """Wait until nothing is left to come of the fires up to `until`; what is missing after
        that is missing."""
        truth = Truth(self._dsn)

        async def settled() -> bool:
            left = await unsettled(truth, until)
            self._show(f"{left} runs to settle")
            return left == 0

        try:
            await eventually(settled, max(_SETTLED_WITHIN, self._plan.seconds))
        except AssertionError as late:
            self._show(f"not settled: {late}")
        finally:
            self._unsettled = await unsettled(truth, until)
            dead = "SELECT count(*) FROM gnomon.task WHERE state = 4"
            self._dead_letters = await truth.value(dead)
            truth.close()

    def _report(self, jobs: Sequence[Job], began: float, until: float) -> Report:
        calls = self._receiver.calls()
        declared = sum(len(node.said("declared a node dead")) for node in self._nodes)
        last = max((c for c in calls if c.what == "began"), key=lambda c: c.at - c.fire)
        excused = [w._replace(end=w.end + RECOVERY) for w in self._windows]
        judgement = judge(calls, jobs, until, excused)
        needed = recovery(judgement.gaps, self._windows)
        seconds = range(int(began), int(until))
        covered = sum(any(w.begin <= s <= w.end + needed for w in self._windows) for s in seconds)
        return Report(
            plan=self._plan,
            kills=self._kills,
            freezes=self._freezes,
            declared_dead=declared,
            deaths=self._deaths,
            windows=self._windows,
            recovery=needed,
            covered=covered / max(1, len(seconds)),
            unsettled=self._unsettled,
            dead_letters=self._dead_letters,
            judgement=judgement,
            last_try=last.at - last.fire,
        )
