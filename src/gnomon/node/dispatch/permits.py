"""Lets tasks start only with a permit of every bucket that they are limited by.

Nothing is asked of the store here: what is not in hand is refused, and noted for the
`PermitKeeper`, which gets more and lets the flows in again. A task's permits are its own from its
choice to its settlement. Where the answer to a claim was lost, nobody knows whether it runs: then
they stay with its key until that is known.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from gnomon.clock import Clock
from gnomon.fairness.ready_queue import Flow as FlowId
from gnomon.limits.holdings import Holding
from gnomon.limits.needs import NOTHING, Needs, Stake, take_run
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.flow_book import FlowBook, Looked
from gnomon.node.dispatch.needs_book import Limits, NeedsBook
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.start_checks import StartCheck
from gnomon.pipe.envelope import Delivery, Report
from gnomon.store.ports.dispatch import Entry

# Flows that wait for one bucket are many where it has no key and another one has. Letting all of
# them in for every permit that is free would cost more than the tasks.
_LET_IN_AT_ONCE = 32
_LEAST_RUN = 16  # entries: to ask about fewer one by one costs no more
_LANES = tuple(Lane)


class Permits(StartCheck):
    """Takes a permit of every bucket before the claim, and a start of it before the call."""

    def __init__(self, limits: Limits, agenda: Agenda, held: HeldTasks, clock: Clock) -> None:
        self.flows = FlowBook()
        self._book = NeedsBook(limits, clock)
        self.accounts = self._book.accounts
        self.hot: set[Holding] = set()  # something is to be asked of the store, soon
        self.short: set[Holding] = set()  # flows wait for more of it, or did
        self.wanted = asyncio.Event()  # now
        self._agenda = agenda
        self.held = held
        self._clock = clock
        self._needs = self._book.known
        self._taken: dict[TaskKey, Stake] = {}
        self._doubtful: set[TaskKey] = set()  # may have been claimed, with an answer that was lost
        limits.on_change(self._changed)

    # Before the claim, and after it. For every task: so what is the same for all of a flow is
    # looked up once, and what they take is one thing that they share.

    def is_idle_for(self, tenant_id: str) -> bool:
        return not self._book.rules(tenant_id)

    def is_free(self, tenant_id: str) -> bool:
        """Nothing is kept for what is not known yet."""
        return not self._book.rules(tenant_id)

    def admit(self, entry: Entry) -> bool:
        key = entry.key
        needs = self._needs.get((key.tenant_id, entry.flow))
        if needs is None:
            if not self._book.rules(key.tenant_id) or self.flows.is_stale(entry):
                return True
            flow = self.flows.find(entry)
            if flow is None:
                self.wanted.set()
                return False
            needs = self._book.of((key.tenant_id, entry.flow), flow)
        if key in self._taken:
            return self._take_again(entry, needs)
        if needs.is_nothing:
            return True
        for account in needs.permits:
            if account.used >= account.allowed:
                self._refuse(entry, needs, NOTHING)
                return False
        stake = self._take_starts(needs) if needs.starts else needs.plain
        if stake is None:
            self._refuse(entry, needs, NOTHING)
            return False
        for account in needs.permits:
            account.used += 1
            account.touched = True
        self._taken[key] = stake
        return True

    def admit_first(self, waiting: Iterable[Entry], most: int) -> int:
        first = next(iter(waiting))
        needs = self._needs.get((first.key.tenant_id, first.flow))
        if needs is None or most < _LEAST_RUN:
            return 0
        now = self._clock.monotonic()
        number = min(most, needs.room(now, self._book.era))
        if number < _LEAST_RUN:
            return 0
        run = list(islice(waiting, number))
        keys, flows = [entry.key for entry in run], [entry.flow for entry in run]
        if len(set(keys)) < number or not self._taken.keys().isdisjoint(keys):
            return 0  # some have taken something before
        stakes = self._take_run(first.key.tenant_id, Counter(flows), now)
        if stakes is None:
            return 0
        if len(stakes) == 1 and needs.is_nothing:
            return number
        if len(stakes) == 1:
            self._taken.update(dict.fromkeys(keys, stakes[first.flow]))
        else:
            found = zip(keys, [stakes[flow] for flow in flows], strict=True)
            self._taken.update((key, stake) for key, stake in found if stake is not NOTHING)
        return number

    def missed(self, keys: Iterable[TaskKey]) -> None:
        if not self._taken:
            return
        for key in keys:
            if key not in self._doubtful:
                self._free(key, unstarted=True)

    def unanswered(self, keys: Iterable[TaskKey]) -> None:
        """They keep what they took: it may be in use."""

    def refused(self, deliveries: Sequence[Delivery]) -> list[TaskKey]:
        if not self._taken and not self._doubtful:
            tenants = {d.key.tenant_id for d in deliveries}
            if not any(map(self._book.rules, tenants)):
                return []  # as for most: nothing was taken, and nothing has to be
        if not self._doubtful:
            taken, era = self._taken, self._book.era
            stakes = {(taken.get(d.key), d.flow) for d in deliveries}  # few, of many
            if all(s is not None and s.flow == flow and s.era == era for s, flow in stakes):
                return []
        return super().refused(deliveries)

    def claimed(self, delivery: Delivery) -> bool:
        """Whether its starts are still good is asked right before the call."""
        key = delivery.key
        stake = self._taken.get(key)
        if self._doubtful:
            self._doubtful.discard(key)
        if stake is not None and stake.flow == delivery.flow and stake.era == self._book.era:
            return True
        if not self._book.rules(key.tenant_id):
            return True
        needs = self._book.of((key.tenant_id, delivery.flow), self.flows.learn(delivery))
        if stake is not None and stake.has_all_of(needs):
            # As another flow, or under other limits, it may have taken more.
            self._taken[key] = stake.only(needs, self._book.era)
            self._return(account for account in stake.permits if account not in needs.permits)
            return True
        return needs.is_nothing

    def may_call(self, delivery: Delivery) -> bool:
        """Whether its starts are still good. One that ran out on the way, or was used by an earlier
        execution, is made up for by another of the same bucket, if there is one."""
        if not self._book.rated:
            return True
        key = delivery.key
        stake = self._taken.get(key)
        if stake is None or not stake.batches:
            return True
        now = self._clock.monotonic()
        if now >= stake.use_until or stake.called:
            fresh = stake.renewed(now)
            if fresh is None:
                return False
            stake = fresh
        self._taken[key] = stake.twin or stake.when_called()
        for batch in stake.batches:
            batch.spend(now)
        return True

    def called(self, report: Report) -> None:
        """Its permits are in use until it is settled; its starts have been made by now."""
        if not self._book.rated:
            return
        stake = self._taken.get(report.delivery.key)
        if stake is not None and stake.called:
            now = self._clock.monotonic()
            for batch in stake.batches:
                batch.came_back(now)

    def ended(self, report: Report) -> None:
        key = report.delivery.key
        if key in self._taken and key not in self.held.stuck:
            self._free(key, unstarted=report.outcome is None)

    def all_ended(self, reports: Sequence[Report]) -> None:
        taken = self._taken
        if not taken:
            return
        if self._doubtful or self.held.stuck or True in [r.outcome is None for r in reports]:
            super().all_ended(reports)
            return
        stakes = Counter([taken.pop(report.delivery.key, NOTHING) for report in reports])
        for stake, count in stakes.items():
            self._return(stake.permits, count)

    # What is taken

    def _take_run(
        self, tenant_id: str, counts: dict[int, int], now: float
    ) -> dict[int, Stake] | None:
        """Take what so many tasks of each of these flows need; gives the stake of each flow. None:
        it is not known what they need, or not all can have it."""
        found = {flow: self._needs.get((tenant_id, flow)) for flow in counts}
        known = {flow: needs for flow, needs in found.items() if needs is not None}
        if len(known) < len(found):
            return None
        needed = {n: counts[flow] for flow, n in known.items() if not n.is_nothing}
        stakes = take_run(needed, now, self._book.era)
        if stakes is None:
            return None
        for stake in stakes.values():
            self._note_low(stake, now)
        return {flow: stakes.get(needs, NOTHING) for flow, needs in known.items()}

    def _take_starts(self, needs: Needs) -> Stake | None:
        now = self._clock.monotonic()
        stake = needs.next_stake(now, self._book.era)
        if stake is None:
            return None
        for batch in stake.batches:
            batch.left -= 1
            if batch.left < batch.low:
                self._note_low(stake, now)
        return stake

    def _note_low(self, stake: Stake, now: float) -> None:
        for account, batch in zip(stake.rated, stake.batches, strict=True):
            if batch.left < batch.low:
                batch.low = 0  # said once
                if account.ask_at <= now:
                    self._note(account)

    def _take_again(self, entry: Entry, needs: Needs) -> bool:
        """Admit one that was chosen before, and may be claimed: only what lacks is taken."""
        key, now = entry.key, self._clock.monotonic()
        self._doubtful.add(key)
        before = self._taken[key]
        if before.is_good(entry.flow, self._book.era, now):
            return True
        after = before.completed(needs, now, self._book.era)
        if after is None:
            self._refuse(entry, needs, before)
            return False
        self._taken[key] = after
        return True

    def _refuse(self, entry: Entry, needs: Needs, before: Stake) -> None:
        """Note what is lacking. What comes before it is kept for a while; what comes after it is
        the first to be returned, so that two nodes never keep from each other what both need."""
        now = self._clock.monotonic()
        place = needs.lacking(before, now)
        lacking = needs.each[place]
        lacking.refused += 1
        lacking.flows[(entry.key.tenant_id, entry.flow)] = None
        self.short.add(lacking)
        for account in needs.each[:place]:
            account.touched = True
        for account in needs.each[place + 1 :]:
            if account.used == 0:
                account.touched = False
                account.used_at = float("-inf")
        if lacking.ask_at <= now:
            self._note(lacking)

    def _note(self, account: Holding) -> None:
        self.hot.add(account)
        self.wanted.set()

    def _free(self, key: TaskKey, *, unstarted: bool) -> None:
        if self._doubtful:
            self._doubtful.discard(key)
        stake = self._taken.pop(key, None)
        if stake is None:
            return
        if unstarted:
            stake.return_starts()
        self._return(stake.permits)
        if unstarted and stake.batches:
            for account in stake.rated:
                self.let_in(account)

    def _return(self, accounts: Iterable[Holding], count: int = 1) -> None:
        """Return so many permits of each."""
        for account in accounts:
            account.used -= count
            if account.permits > account.allowed and account.has_surplus:
                self._note(account)
            elif account.flows:
                self.let_in(account, count)

    def let_in(self, account: Holding, times: int = 1) -> None:
        """Let flows that wait for this bucket be asked for again, if it has something to give."""
        if account.flows and account.can_give(self._clock.monotonic()):
            chosen = list(account.flows)[: _LET_IN_AT_ONCE * times]
            for flow in chosen:
                del account.flows[flow]
            self._let_in_flows(chosen)

    def _let_in_flows(self, flows: list[FlowId]) -> None:
        self._agenda.let_in(flows)

    # What is not known to be claimed

    def unclaimed(self) -> list[TaskKey]:
        """Keys that have taken something, and are not known to run."""
        held = self.held
        return [key for key in self._taken if key not in held.fences and key not in held.stuck]

    def free(self, keys: Iterable[TaskKey]) -> None:
        """These do not run after all."""
        for key in keys:
            self._free(key, unstarted=True)

    # What is needed

    def learned(self, looked: Looked) -> None:
        """Flows were looked up: those that lack nothing are let in."""
        self._agenda.add(looked.changed)
        self._let_in_flows([flow for flow in looked.flows if not self.expect(flow)])

    def waiting(self, account: Holding, most: int) -> int:
        """Due tasks here that wait for this bucket, as far as there is room for them."""
        waiting = 0
        for flow in list(account.flows):
            tenant_id, number = flow
            due = sum(self._agenda.waiting(tenant_id, lane, number) for lane in _LANES)
            if due == 0:
                del account.flows[flow]
            waiting += due
            if waiting >= most:
                break
        return waiting

    def expect(self, flow: FlowId) -> bool:
        """A flow that is known by now wants to be let in: first get what lacks; gives whether
        anything does."""
        known = self.flows.named(flow)
        if known is None or not self._book.rules(flow[0]):
            return False
        now = self._clock.monotonic()
        lacking = self._book.of(flow, known).all_lacking(now)
        for account in lacking:
            account.flows[flow] = None
            self.short.add(account)
            if account.ask_at <= now:
                self.hot.add(account)
        return bool(lacking)

    def forget(self, accounts: Iterable[Holding]) -> None:
        """These are at rest."""
        accounts = list(accounts)
        self.hot.difference_update(accounts)
        self.short.difference_update(accounts)
        self._book.forget(accounts)

    def _changed(self) -> None:
        """Limits have changed: what was refused by the old ones may be taken by the new."""
        now = self._clock.monotonic()
        for account in self._book.change():
            flows, account.flows = list(account.flows), {}
            self._let_in_flows(flows)
            account.ask_at = now
            self._note(account)
