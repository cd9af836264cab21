"""The tasks that a node knows to be coming: not yet due ones on the wheel, due ones in a queue.

Entries are hints. One that was cancelled, changed or taken by another node meanwhile is simply
not claimed; one that is missing here is found by the scanner.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from gnomon.clock import to_micros
from gnomon.fairness.ready_queue import (
    Admit,
    AdmitFirst,
    End,
    Flow,
    Freely,
    ReadyQueue,
    everyone,
    nobody,
    none_at_once,
)
from gnomon.model.tasks.flow import UNKNOWN_FLOW
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.herd_reach import (
    EARLY_TICKS,
    MOST_EARLY_TICKS,
    HerdReach,
    Startable,
    none_startable,
    portion_of,
    without,
)  # fmt: skip
from gnomon.node.ahead.soon import Soon
from gnomon.node.ahead.suspects import SuspectQueue, SuspectRoom
from gnomon.store.ports.dispatch import Entry
from gnomon.wheel import Wheel

_HERD = 32  # that are due at one tick: fewer are claimed as soon at their time


def tick_at_or_after(moment: datetime) -> int:
    """The millisecond that a due time rounds up to: never early."""
    return -(-to_micros(moment) // 1000)


def tick_at_or_before(moment: datetime) -> int:
    return to_micros(moment) // 1000


class Agenda:
    """Each task at most once, but for those that are changed while they are due (see `once`).
    Whoever adds keeps to `room`."""

    def __init__(
        self,
        ready: ReadyQueue[Entry],
        now: datetime,
        window: int,
        wake: Callable[[], None] = lambda: None,
        startable: Startable = none_startable,
    ) -> None:
        """`startable`: how many of such entries the slots can start within a moment."""
        # The wheel runs ahead: what it has given waits in `_soon` for its tick, and may be taken
        # early; what was looked at before waits in `_later`.
        self._wheel: Wheel[Entry] = Wheel(tick_at_or_before(now) + MOST_EARLY_TICKS)
        self._given = tick_at_or_before(now) + MOST_EARLY_TICKS
        self._soon, self._later = Soon(_HERD), Soon(_HERD)
        self.must_share = ready.must_share
        self._herds = HerdReach(startable, self.must_share)
        self._ready = ready
        self._suspects = SuspectQueue()
        self._known: dict[TaskKey, Entry] = {}
        self._advanced = now
        self._window = window
        self._wake = wake  # something may be taken that could not be before
        self._let_in_later: list[Flow] | None = None  # while the ready queue is read

    def __len__(self) -> int:
        return len(self._known)

    @property
    def ready(self) -> int:
        """Entries that are due, less those whose flows are set aside."""
        return len(self._ready) + len(self._suspects)

    def awaits(self, places: SuspectRoom) -> bool:
        """Whether `take` would give anything, if it is admitted."""
        suspects = bool(self._suspects) and not self._suspects.all_refused and places.has_room()
        return self._ready.offers() or suspects

    def knows(self, key: TaskKey) -> bool:
        return key in self._known

    def room(self) -> int:
        return self._window - len(self._known)

    def add(self, entries: Iterable[Entry], *, due: bool = False) -> int:
        """Take in what is not known yet, or only for later; gives how many were new. `due`: the
        store has made them so just now, whatever the time is here."""
        known, advanced, new = self._known, self._advanced, 0
        ready = []
        for entry in entries:
            before = known.get(entry.key)
            if before is not None and not self._replaces(entry, before):
                continue
            known[entry.key] = entry
            new += 1
            if (due or entry.due_at <= advanced) and entry.flow != UNKNOWN_FLOW:
                ready.append(entry)  # of a backlog: the wheel would only give it back
            else:  # also a hint, which what is read may replace until the next tick
                tick = tick_at_or_after(entry.due_at)
                if tick > self._given:
                    self._wheel.add(tick, entry)
                else:
                    self._soon.add(tick, (entry,))
        self._make_ready(ready)
        return new

    def _replaces(self, entry: Entry, known: Entry) -> bool:
        """Whether a task was changed: to run before the time that it is still kept for, to have
        another priority, or to be of another flow, as which alone it can be claimed."""
        if entry.due_at < known.due_at and known.due_at > self._advanced:
            return True
        if entry.lane is not known.lane:
            return True
        return entry.flow not in (known.flow, UNKNOWN_FLOW)

    def again(self, entry: Entry, at: datetime) -> None:
        """Look at a known entry again at `at`, though it was due before."""
        self._later.add(tick_at_or_after(at), (entry,))

    def advance(self, now: datetime) -> int:
        """Make ready what is due; gives how many became so."""
        self._advanced = max(self._advanced, now)
        known, tick = self._known, tick_at_or_before(self._advanced)
        self._given = max(self._given, tick + MOST_EARLY_TICKS)
        for due_at, entries in groupby(self._wheel.advance(self._given), attrgetter("due_at")):
            self._soon.add(tick_at_or_after(due_at), entries)
        self._herds.passed(tick)
        passed = self._soon.passed(tick) + self._later.passed(tick)
        due = [e for e in passed if known.get(e.key) is e]  # others were changed
        self._make_ready(due)
        return len(due)

    def _make_ready(self, due: Sequence[Entry]) -> None:
        suspects = [e for e in due if e.losses]
        if suspects:
            self._suspects.add(suspects)
            due = [e for e in due if not e.losses]
        self._ready.put_all(due)

    def next_tick(self) -> int | None:
        """The tick up to which nothing becomes due, or near enough to be taken early."""
        now, given = tick_at_or_before(self._advanced), self._wheel.next_due()
        ticks = [self._soon.first(), self._later.first()]
        if given is not None:
            ticks.append(given - MOST_EARLY_TICKS)
        crowded = self._soon.crowded()  # of which not all may have been taken when it could be
        near = [tick - reach for tick in crowded for reach in (self._reach(tick), EARLY_TICKS)]
        known = [tick for tick in ticks if tick is not None]
        return min(known + [tick for tick in near if tick > now], default=None)

    # Ahead of their time

    def has_herd(self, before: datetime | None = None) -> bool:
        """Whether `take_early` would look at anything, of a tick before that moment's."""
        tick = self._herd()
        if tick is None or not self._is_quiet():
            return False
        return before is None or tick < tick_at_or_after(before)

    def _herd(self) -> int | None:
        """The next tick that has many and is near enough."""
        now = tick_at_or_before(self._advanced)
        for tick in self._soon.crowded():
            if tick - now <= self._reach(tick):
                return tick
        return None

    def _reach(self, tick: int) -> int:
        """How many ticks ahead those of a crowded one may be claimed."""
        return self._herds.ticks(tick, self._soon.at(tick))

    def _is_quiet(self) -> bool:
        """Whether nothing is due, set aside or not."""
        return not self._suspects and not any(self._ready.depths().values())

    def take_early(
        self, most: int, plain: Callable[[Entry], bool], surplus: int = 0
    ) -> list[Entry]:
        """Entries to claim ahead of their time, of the next tick that has many: up to `most` of
        the plain ones, chosen as if they were due. Only while nothing is. The others wait for
        their time, and so do those that are given back by `again`. `surplus`: so many more, if
        they are not CRITICAL and can start at once; of a tick that is further ahead than usual
        there is nothing else, and the others are looked at again when it is near. Of thousands a
        portion is given, and the next one by the next call."""
        tick = self._herd() if (most > 0 or surplus > 0) and self._is_quiet() else None
        if tick is None:
            return []
        entries = self._soon.at(tick)
        shared = self._herds.is_shared(entries)
        far = tick - tick_at_or_before(self._advanced) > EARLY_TICKS
        if far and (shared or min(surplus, self._herds.startable(tick, entries)) <= 0):
            return []
        portion, rest = portion_of(self._soon.remove(tick), far=far, whole=shared)
        entries = [e for e in portion if self._known.get(e.key) is e]
        fit = [e for e in entries if not e.losses and not e.recurring and plain(e)]
        self._later.add(tick, without(entries, fit))
        chosen: list[Entry] = []
        if len(fit) >= _HERD:
            chosen = self._choose(fit, 0 if far else most)
            beyond = min(surplus, self._herds.startable(tick, fit) - len(chosen))
            if beyond > 0:
                others = [e for e in without(fit, chosen) if e.lane is not Lane.CRITICAL]
                chosen += self._choose(others, beyond)
        self._herds.took(tick, len(chosen))
        if far and not chosen:
            self._herds.shorten(tick)
        (self._soon if far else self._later).add(tick, without(fit, chosen))
        (self._soon if far or len(chosen) == len(fit) else self._later).add(tick, rest)
        return chosen

    def _choose(self, entries: Sequence[Entry], most: int) -> list[Entry]:
        if most <= 0 or not entries:
            return []
        self._ready.put_all(entries)
        chosen = self._ready.take(most, self._advanced)
        self._ready.clear()
        return chosen

    def not_yet(self, entries: Iterable[Entry]) -> None:
        """These were taken early and not looked at: something else was due. They may be again."""
        for due_at, alike in groupby(entries, attrgetter("due_at")):
            tick = tick_at_or_after(due_at)
            known = [e for e in alike if self._known.get(e.key) is e]
            self._herds.took(tick, -len(known))
            self._soon.add(tick, known)

    def leave(self, due_at: datetime) -> None:
        """Look at what is due then at its time only: none of it can be claimed early."""
        tick = tick_at_or_after(due_at)
        if tick in self._soon.crowded():
            self._later.add(tick, self._soon.remove(tick))

    def pause(self, now: datetime, longest: float) -> float:
        """Seconds until more becomes due, as far as is known."""
        if (tick := self.next_tick()) is None:
            return longest
        return min(longest, max(0.001, (tick - tick_at_or_before(now)) / 1000))

    def take(
        self,
        most: int,
        places: SuspectRoom,
        admit: Admit[Entry] = everyone,
        freely: Freely = nobody,
        at_once: AdmitFirst[Entry] = none_at_once,
    ) -> list[Entry]:
        """Entries to claim now. Suspects among them come first, and have taken their places."""
        taken: list[Entry] = []
        if most > 0 and self._suspects and places.has_room():
            taken += self._suspects.take(most, lambda e: self._take_suspect(e, places, admit))
        taken += self._take_ready(most - len(taken), admit, freely, at_once)
        return taken

    def _take_ready(
        self,
        most: int,
        admit: Admit[Entry],
        freely: Freely = nobody,
        at_once: AdmitFirst[Entry] = none_at_once,
        *,
        urgent: bool = False,
        evicting: bool = False,
    ) -> list[Entry]:
        """A check that refuses one flow may thereby let in others, and the queue must not change
        while it is read: that is done afterwards."""
        later: list[Flow] = []
        self._let_in_later = later
        try:
            return self._ready.take(
                most, self._advanced, admit, freely, at_once, urgent=urgent, evicting=evicting
            )
        finally:
            self._let_in_later = None
            if later:
                self._ready.let_in(later)

    def _take_suspect(self, entry: Entry, places: SuspectRoom, admit: Admit[Entry]) -> bool:
        key = entry.key
        if not places.allows(key, entry.losses, self._suspects.tenants) or not admit(entry):
            return False
        places.take(key, entry.losses)
        self._ready.started(key.tenant_id, entry.lane)
        return True

    def take_urgent(
        self, most: int, admit: Admit[Entry] = everyone, *, evicting: bool = False
    ) -> list[Entry]:
        """Only what is CRITICAL; `evicting`: another task will leave its slot for each."""
        return self._take_ready(most, admit, urgent=True, evicting=evicting)

    def steal(self, entry: Entry, places: SuspectRoom, admit: Admit[Entry] = everyone) -> bool:
        """Whether an entry of others may be claimed now; if so, its tenant is charged for it."""
        key, lane = entry.key, entry.lane
        if entry.losses:
            return self._take_suspect(entry, places, admit)
        if not self._ready.allows(key.tenant_id, lane) or not admit(entry):
            return False
        self._ready.started(key.tenant_id, lane)
        return True

    def once(self, taken: list[Entry]) -> list[Entry]:
        """Each of these tasks once. One that was changed while it was due is among them as what it
        was, too: that entry's slot is free again."""
        kept = {e.key: e for e in taken}
        if len(kept) == len(taken):
            return taken
        kept.update((e.key, e) for e in taken if self._known.get(e.key) is e)
        self.ended_all((e.key.tenant_id, e.lane, None) for e in taken if kept[e.key] is not e)
        return list(kept.values())

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Entries whose claim could not be made: ready as before, in the order they are given."""
        for entry in reversed(entries):
            if entry.losses:
                self._ready.ended_all([(entry.key.tenant_id, entry.lane, None)])
                self._suspects.put_back(entry)
            else:
                self._ready.put_back(entry)

    def ended_all(self, ends: Iterable[End]) -> None:
        """Tasks that were taken from here, or stolen, hold slots no longer."""
        self._ready.ended_all(ends)

    def started(self, tenant_id: str, lane: Lane) -> None:
        """A task that was not taken from here holds a slot."""
        self._ready.started(tenant_id, lane)

    def moved(self, tenant_id: str, before: Lane, lane: Lane) -> None:
        """A task that was taken as of one lane is of another, and will end as of that."""
        self._ready.ended_all([(tenant_id, before, None)])
        self._ready.started(tenant_id, lane)

    def runs(self, seconds: Iterable[tuple[str, float]]) -> None:
        """The tenants of the tasks that run now, and for how long so far."""
        self._ready.runs(seconds)

    def let_in(self, flows: Iterable[Flow]) -> bool:
        """Take up again what was set aside, and wake the dispatcher for it; gives whether anything
        was, or may have been."""
        if self._let_in_later is None:
            found = self._ready.let_in(flows)
        else:
            self._let_in_later.extend(flows)
            found = True
        if found:
            self._wake()
        return found

    def waiting(self, tenant_id: str, lane: Lane, flow: int) -> int:
        """Due entries of one flow."""
        return self._ready.waiting(tenant_id, lane, flow)

    def longest_waits(self, now: datetime) -> Mapping[Lane, float]:
        return self._ready.longest_waits(now)

    def depths(self) -> Mapping[Lane, int]:
        return self._ready.depths()

    def make_room(self, kept: int, most: int) -> bool:
        """Forget some of what is set aside, of the tenant that has the most of it, if that is more
        than it may keep here; gives whether any was."""
        dropped = self._ready.drop_aside(kept, most)
        self.forget(entry.key for entry in dropped)
        return bool(dropped)

    def forget_ready(self) -> None:
        """Forget all that is due. What is not has its time before it."""
        self.forget(entry.key for entry in self._suspects)
        self._suspects.replace([])
        self.forget(entry.key for entry in self._ready.clear())

    def retain(self, own_of: Callable[[Iterable[Entry]], Collection[Entry]]) -> None:
        """Forget what has become the business of others: it would use up the turns of its lane,
        and never start."""
        own = own_of(self._known.values())
        if len(own) == len(self._known):
            return
        self._known = {entry.key: entry for entry in own}
        self._suspects.replace(e for e in self._suspects if e.key in self._known)
        self._ready.put_all([e for e in self._ready.clear() if e.key in self._known])

    def forget(self, keys: Iterable[TaskKey]) -> None:
        """Entries that were claimed or given up."""
        for key in keys:
            self._known.pop(key, None)
