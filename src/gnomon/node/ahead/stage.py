"""Knows what is coming: reads ahead, plans the runs of cron jobs, and says what has become due."""

from collections.abc import Collection
from datetime import timedelta

import msgspec

from gnomon.chores import Service, every, whenever
from gnomon.clock import Clock
from gnomon.model.fleet.pool import Territory
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.planner import Planner
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.signals import Signals
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Entry

_QUEUED_SECONDS = 1.0  # between looks for queued runs whose turn has come unseen
_LONGEST_SLEEP = 1.0
_JUST_NOW = timedelta(milliseconds=100)  # by the clock here, which is about the store's
_SHORTEST_LOOK = 0.02  # between looks that hints ask for


class AheadStage:
    """Brings what will be due into the agenda, and sets `due` and `ready`."""

    def __init__(
        self,
        scanner: Scanner,
        agenda: Agenda,
        planner: Planner,
        signals: Signals,
        clock: Clock,
        settings: NodeSettings,
    ) -> None:
        self._scanner = scanner
        self._agenda = agenda
        self._planner = planner
        self._signals = signals
        self._clock = clock
        self._settings = settings
        self._next_tick = 0.0  # seconds from the last one

    def services(self) -> list[Service]:
        s, clock, signals = self._settings, self._clock, self._signals
        # What users store in their own transactions, without a hint, starts within a second.
        pause = 1.5 * s.scan_seconds
        repair = every("repair", self.repair, clock, pause)
        return [
            every("scan", self.scan, clock, s.scan_seconds),
            # The first scan reads all that there is.
            msgspec.structs.replace(repair, begins_after=pause),
            whenever("look", self.look, clock, signals.look, None, _SHORTEST_LOOK),
            whenever("refill", self.refill, clock, signals.low, None, yields=True),
            every("plan", self.plan, clock, s.plan_seconds),
            every("look-for-queued", self.look_for_queued, clock, _QUEUED_SECONDS),
            whenever("start-queued", self.start_queued, clock, signals.ended, None),
            Service("tick", self.tick, self._until_next_tick),
        ]

    def serve(self, territory: Territory) -> None:
        """Read these shards from now on."""
        self._scanner.own(territory)
        self._signals.look.set()

    def hear(self, entries: list[Entry] | None) -> None:
        """Tasks wait; None: too many to name."""
        if entries is None:
            self._signals.look.set()
        elif self._scanner.hinted(entries):
            self._signals.due.set()

    def started(self, entries: list[Entry]) -> None:
        """The store has made these due just now, but for those with a jitter: they wait for no
        tick."""
        soon = self._clock.now() + _JUST_NOW
        new = self._scanner.hinted([e for e in entries if e.due_at <= soon], due=True)
        new += self._scanner.hinted([e for e in entries if e.due_at > soon])
        if new:
            self._signals.due.set()  # not all of them may be ready
        if self._agenda.ready:
            self._signals.ready.set()

    def runs_ended(self, jobs: Collection[TaskKey]) -> None:
        """Runs of these cron jobs have ended: queued ones may start."""
        self._planner.ended(jobs)
        self._signals.ended.set()

    async def scan(self) -> None:
        if (await self._scanner.forward()).new:
            self._signals.due.set()

    async def repair(self) -> None:
        await self._read_on((await self._scanner.repair()).new)

    async def look(self) -> None:
        """Somebody told of more than could be named."""
        await self._read_on((await self._scanner.look()).new)

    async def _read_on(self, found: int) -> None:
        if (await self._scanner.forward()).new or found:
            self._signals.due.set()

    def claimed(self) -> None:
        """Entries have left the agenda: read on at once while a backlog is being worked off."""
        if self._is_low():
            self._signals.low.set()

    async def refill(self) -> None:
        """Read on, beside the claims."""
        if self._is_low() and (await self._scanner.forward()).new:
            self._signals.due.set()

    def _is_low(self) -> bool:
        return self._scanner.behind and self._agenda.room() > self._settings.window // 2

    async def plan(self) -> None:
        if (await self._planner.run_once()).runs:
            self._signals.due.set()

    async def look_for_queued(self) -> None:
        if await self._planner.look_for_queued():
            self._signals.due.set()

    async def start_queued(self) -> None:
        """Runs that waited for another of their job, which has ended."""
        if await self._planner.start_queued():
            self._signals.due.set()

    async def tick(self) -> None:
        """Make ready what has become due."""
        self._signals.due.clear()
        now = self._clock.now()
        self._agenda.advance(now)
        if self._agenda.ready:
            self._signals.ready.set()
        self.look_for_herd()
        self._next_tick = self._agenda.pause(now, _LONGEST_SLEEP)

    def look_for_herd(self) -> None:
        """Have claimed ahead what can be, now that nothing else is due."""
        if self._agenda.has_herd():
            self._signals.early.set()

    async def _until_next_tick(self) -> None:
        await self._clock.wait(self._signals.due, self._next_tick)
