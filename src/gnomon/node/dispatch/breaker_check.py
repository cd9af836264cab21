"""Keeps tasks from being started whose calls would most likely fail.

One breaker for each host that a tenant calls, and one for each tenant; see `gnomon.breakers` for
when they open and close. While one is open its tasks wait, unclaimed, with their flows set aside.
Tasks that were claimed before are released unstarted. Each node goes by what it has seen itself:
so nothing needs to be agreed on, and a fleet makes one probe a node.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from gnomon.breakers.breaker import (
    HOST_RULE,
    TENANT_RULE,
    WINDOW_SECONDS,
    Breaker,
    BreakerChange,
    Rule,
)
from gnomon.chores import About, Service, Troubles, every, isolated
from gnomon.clock import Clock, new_id
from gnomon.fairness.ready_queue import Flow
from gnomon.model.errors import StoreError
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.dispatch.breaker_calls import circuits_of, has_failed
from gnomon.node.start_checks import StartCheck
from gnomon.observe.events import BreakerClosed, BreakerOpened, BreakersForgotten, Observer
from gnomon.pipe.envelope import Delivery, Report
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.tenancy.breakers import BreakerEvent, Circuit, NotedBreaker
from gnomon.store.postgres.dispatch.breakers import PostgresBreakers

NOTE_SECONDS = 0.5  # between writes of what has changed
_SHORTEST_PAUSE = 0.01  # between looks at all that are open
_CLAIM_SECONDS = 60.0  # for a probe to be claimed
_SETTLE_SECONDS = 60.0  # for it to be settled after its timeout
_MOST_FLOWS = 50_000  # remembered of hosts that are open
_MOST_EVENTS = 1_000  # that wait to be written; older ones are only in the log
_NOT_SHOWN = "the breaker works, but is not shown; nothing is to be done"


class BreakerRules(msgspec.Struct, frozen=True):
    """When breakers open."""

    host: Rule = HOST_RULE
    tenant: Rule = TENANT_RULE


RULES = BreakerRules()


class _Guard:
    """A breaker and the flows that it holds up."""

    __slots__ = ("aside", "breaker", "circuit", "error", "flows", "host", "opened_at", "tenant_id")

    def __init__(self, circuit: Circuit, rule: Rule) -> None:
        self.circuit = circuit
        self.tenant_id, self.host = circuit
        self.breaker = Breaker(rule)
        self.aside: set[Flow] = set()  # refused here, to be let in again
        self.flows: set[Flow] = set()  # known to call this host, while it is open
        self.opened_at = 0.0
        self.error: str | None = None  # of the call that opened it, or kept it open


class BreakerCheck(StartCheck):
    """Refuses what would most likely fail, up to the moment of its call."""

    def __init__(
        self,
        agenda: Agenda,
        clock: Clock,
        store: PostgresBreakers,
        emit: Observer,
        troubles: Troubles,
        rules: BreakerRules = RULES,
    ) -> None:
        self._troubles = troubles
        self._agenda = agenda
        self._clock = clock
        self._store = store
        self._emit = emit
        self._rules = rules
        self._guards: dict[Circuit, _Guard] = {}
        self._open: dict[Circuit, _Guard] = {}
        self._by_flow: dict[Flow, _Guard] = {}  # of open hosts; learned from what was claimed
        self._probes: dict[TaskKey, set[_Guard]] = {}  # what each is, or was, the probe of
        self._has_closed = False
        self._all_well = (
            True  # no breaker has counted a failure, or is open: successes tell nothing
        )
        self._successes = 0  # of calls like the last one, that are not counted yet
        self._alike: Delivery | None = None  # that call
        self._look_for_idle_at = clock.monotonic() + WINDOW_SECONDS
        self._changed = asyncio.Event()
        self._unwritten: set[Circuit] = set()
        self._events: list[BreakerEvent] = []

    # Before the claim, and after it

    def is_idle(self) -> bool:
        return not self._open

    def is_free(self, tenant_id: str) -> bool:
        del tenant_id
        return not self._open

    def admit(self, entry: Entry) -> bool:
        if not self._open:
            return True
        flow = (entry.key.tenant_id, entry.flow)
        guards = (self._open.get((entry.key.tenant_id, None)), self._by_flow.get(flow))
        refusing = self._refusing([g for g in guards if g is not None], entry.key)
        if refusing is not None:
            refusing.aside.add(flow)
        return refusing is None

    def missed(self, keys: Iterable[TaskKey]) -> None:
        if self._probes:
            for key in keys:
                self._forgo(key)

    def unanswered(self, keys: Iterable[TaskKey]) -> None:
        """A probe stays the probe: it is chosen again."""

    def claimed(self, delivery: Delivery) -> bool:
        guards = self._guards_before(delivery)
        if not guards:
            return True
        now = self._clock.monotonic()
        if self._refusing(guards, delivery.key) is not None:
            return False
        latest = now + _CLAIM_SECONDS + delivery.timeout_seconds + _SETTLE_SECONDS
        for guard in guards:
            guard.breaker.extend(delivery.key, latest)
        return True

    def refused(self, deliveries: Sequence[Delivery]) -> list[TaskKey]:
        return super().refused(deliveries) if self._open else []

    def ended(self, report: Report) -> None:
        """A task that is still the probe by now was not called, or its call says nothing."""
        if self._probes:
            self._forgo(report.delivery.key)

    def all_ended(self, reports: Sequence[Report]) -> None:
        if self._probes:
            super().all_ended(reports)

    def _refusing(self, guards: Collection[_Guard], key: TaskKey) -> _Guard | None:
        """The one that does not let it pass. Then none of the others keeps it as a probe."""
        now = self._clock.monotonic()
        for guard in guards:
            before = guard.breaker.probe
            if not guard.breaker.admits(key, now, now + _CLAIM_SECONDS):
                self._forgo(key)
                return guard
            if guard.breaker.probe == key:
                self._probes.setdefault(key, set()).add(guard)
                if before in self._probes and before != key:
                    self._probes[before].discard(guard)
                    if not self._probes[before]:
                        del self._probes[before]
        return None

    def _forgo(self, key: TaskKey) -> None:
        for guard in self._probes.pop(key, ()):
            if guard.breaker.forgo(key):
                self._changed.set()  # another may be the probe

    def _guards_before(self, delivery: Delivery) -> list[_Guard]:
        """The open ones that concern it. Whoever looks here learns where its flow leads."""
        if not self._open:
            return []
        guards = (self._open.get(circuit) for circuit in circuits_of(delivery))
        found = [guard for guard in guards if guard is not None]
        for guard in found:
            self._learn(guard, delivery)
        return found

    def _learn(self, guard: _Guard, delivery: Delivery) -> None:
        if guard.host is None:
            return
        if len(self._by_flow) >= _MOST_FLOWS:  # each costs one claim to learn again
            self._by_flow.clear()
            for each in self._open.values():
                each.flows.clear()
        flow = (delivery.key.tenant_id, delivery.flow)
        guard.flows.add(flow)
        self._by_flow[flow] = guard

    # At the call

    def may_call(self, delivery: Delivery) -> bool:
        """Whether what was claimed may still be called: a breaker may have opened meanwhile."""
        if not self._open:
            return True
        return all(g.breaker.passes(delivery.key) for g in self._guards_before(delivery))

    def called(self, report: Report) -> None:
        """A call was made; be told at once, not only when it is settled."""
        outcome = report.outcome
        if outcome is None:
            return
        if self._all_well and outcome.kind is OutcomeKind.SUCCEEDED:
            # Most calls are like the one before. As long as all goes well they are counted
            # together, before anything else is, and every now and then.
            delivery, alike = report.delivery, self._alike
            if (
                alike is None
                or delivery.target is not alike.target
                or delivery.key.tenant_id != alike.key.tenant_id
            ):
                self._count_successes()
                self._alike = delivery
            self._successes += 1
            return
        self._count_successes()
        self._all_well = False
        now = self._clock.monotonic()
        # Only where one has closed before does it matter when a call began.
        began = now - (report.seconds or 0.0) if self._has_closed else now
        delivery = report.delivery
        succeeded = outcome.kind is OutcomeKind.SUCCEEDED
        for circuit in circuits_of(delivery):
            failed = False if succeeded else has_failed(outcome, of_host=circuit[1] is not None)
            if failed is None:
                continue
            guard = self._guards.get(circuit) or self._guard(circuit)
            change = guard.breaker.record(delivery.key, began, now, failed=failed)
            if change is not None:
                self._note_change(guard, change, now, outcome.error)
                if change is BreakerChange.OPENED:
                    self._learn(guard, delivery)

    def _count_successes(self) -> None:
        if self._alike is None or not self._successes:
            return
        calls, self._successes = self._successes, 0
        now = self._clock.monotonic()
        for circuit in circuits_of(self._alike):
            guard = self._guards.get(circuit) or self._guard(circuit)
            guard.breaker.tally.add(now, failed=False, calls=calls)

    def _guard(self, circuit: Circuit) -> _Guard:
        rule = self._rules.tenant if circuit[1] is None else self._rules.host
        guard = self._guards[circuit] = _Guard(circuit, rule)
        return guard

    def _note_change(
        self, guard: _Guard, change: BreakerChange, now: float, error: str | None
    ) -> None:
        guard.error = error
        self._unwritten.add(guard.circuit)
        self._changed.set()
        if change is BreakerChange.OPENED:
            self._open[guard.circuit] = guard
            guard.opened_at = now
            self._tell(
                BreakerOpened(
                    tenant_id=guard.tenant_id,
                    host=guard.host,
                    failures=guard.breaker.tally.failures,
                    calls=guard.breaker.tally.calls,
                    until=self._until(guard),
                )
            )
        elif change is BreakerChange.CLOSED:
            self._close(guard, now)

    def _close(self, guard: _Guard, now: float) -> None:
        self._has_closed = True
        del self._open[guard.circuit]
        for flow in guard.flows:
            self._by_flow.pop(flow, None)
        guard.flows.clear()
        self._let_in(guard.aside)
        guard.aside.clear()
        self._tell(
            BreakerClosed(tenant_id=guard.tenant_id, host=guard.host, seconds=now - guard.opened_at)
        )

    def _tell(self, event: BreakerOpened | BreakerClosed) -> None:
        now = self._clock.now()
        self._events.append(BreakerEvent(new_id(now), now, event))
        del self._events[:-_MOST_EVENTS]
        self._emit(event)

    def _until(self, guard: _Guard) -> datetime:
        """When the next probe may be made, by the store's clock."""
        assert guard.breaker.until is not None, "it is open"
        seconds = guard.breaker.until - self._clock.monotonic()
        return self._clock.now() + timedelta(seconds=seconds)

    def _noted(self, guard: _Guard) -> NotedBreaker:
        seconds = self._clock.monotonic() - guard.opened_at
        return NotedBreaker(
            circuit=guard.circuit,
            until=self._until(guard),
            opened_at=self._clock.now() - timedelta(seconds=seconds),
            calls=guard.breaker.tally.calls,  # nothing is counted while it is open
            failures=guard.breaker.tally.failures,
            error=guard.error,
        )

    # As time goes by

    def services(self) -> list[Service]:
        return [
            Service("probes", self.run),
            every("breakers", self.note, self._clock, NOTE_SECONDS, at_end=True),
        ]

    async def run(self) -> None:
        """Let in what may be tried, when it may."""
        try:
            while True:
                self._changed.clear()
                await self._clock.wait(self._changed, self._let_in_due())
                await self._clock.sleep(_SHORTEST_PAUSE)
        finally:
            self._emit(BreakersForgotten())

    def _let_in_due(self) -> float:
        """Gives the seconds until there is more to let in, or to forget."""
        self._count_successes()
        now = self._clock.monotonic()
        if self._look_for_idle_at <= now:  # there may be a great many of them
            self._look_for_idle_at = now + WINDOW_SECONDS
            for guard in [g for g in self._guards.values() if g.breaker.is_idle(now)]:
                del self._guards[guard.circuit]
        soonest = now + WINDOW_SECONDS
        for guard in self._open.values():
            probe_at = guard.breaker.next_probe_at()
            if probe_at <= now:
                self._let_in(guard.aside)  # all but the first will be refused again
                guard.aside.clear()
            else:
                soonest = min(soonest, probe_at)
        return soonest - now

    def _let_in(self, flows: Collection[Flow]) -> None:
        if flows:
            self._agenda.let_in(list(flows))

    async def note(self) -> None:
        """Write what has changed since the last time. What cannot be written is not shown, and
        works all the same."""
        self._count_successes()
        if not self._all_well and not self._open and not self._has_closed:
            self._all_well = not any(g.breaker.tally.failures for g in self._guards.values())
        if not self._unwritten and not self._events:
            return
        circuits, events = list(self._unwritten), list(self._events)
        news: list[Circuit | BreakerEvent] = [*circuits, *events]
        await isolated(news, self._write, self._blame)
        self._unwritten.difference_update(circuits)
        self._events = [e for e in self._events if e not in events]

    async def _write(self, news: Sequence[Circuit | BreakerEvent]) -> list[None]:
        events = [each for each in news if isinstance(each, BreakerEvent)]
        circuits = [each for each in news if not isinstance(each, BreakerEvent)]
        opened = [self._noted(self._open[c]) for c in circuits if c in self._open]
        await self._store.note(opened, [c for c in circuits if c not in self._open], events)
        return []

    async def _blame(self, news: Circuit | BreakerEvent, error: StoreError) -> list[None]:
        if isinstance(news, BreakerEvent):
            tenant_id, host = news.told.tenant_id, news.told.host
        else:
            tenant_id, host = news
        about = About(tenant_id, "" if host is None else f"host {host}")
        self._troubles.note("breakers", error, about, _NOT_SHOWN)
        return []
