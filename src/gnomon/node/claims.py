"""Accounts for the things that a chosen task takes up on its node until it is settled.

Three things: a slot of its tenant's share, a place in quarantine if it is a suspect, and whatever
the start checks hand out. It has them from the moment it is taken off the agenda; they are free
again once it is known not to be claimed, or is settled; the slot is so when the call has ended.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

import msgspec

from gnomon.model.outcomes.quarantine import can_kill, is_suspect
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.start_checks import StartChecks
from gnomon.pipe.envelope import NEVER, Delivery, Report, seconds_of
from gnomon.store.ports.dispatch import Entry


class Claims:
    """Takes entries off the agenda to be claimed, and returns what they took."""

    def __init__(self, held: HeldTasks, agenda: Agenda, checks: StartChecks) -> None:
        self.held = held
        self._agenda = agenda
        self._checks = checks
        self._left: set[TaskKey] = set()  # that are held, and whose slots have been given back

    # Before the claim

    def awaits(self) -> bool:
        """Whether `take` would give anything, if it is admitted."""
        return self._agenda.awaits(self.held.suspects)

    def take(self, most: int) -> list[Entry]:
        """Entries to claim now."""
        checks = self._checks
        admit, at_once = checks.admitting(), checks.admitting_at_once()
        return self._agenda.take(most, self.held.suspects, admit, checks.admits_all, at_once)

    def take_early(self, most: int, surplus: int = 0) -> list[Entry]:
        """Entries to claim ahead of their time: plain ones, while nothing is due. Those of the
        `surplus` take what all of them do."""
        return self._agenda.take_early(most, self._checks.is_plain, surplus)

    def is_disturbed(self, due_at: datetime) -> bool:
        """Whether something comes before what is claimed ahead of this time."""
        return self.awaits() or self._agenda.has_herd(before=due_at)

    def take_urgent(self, most: int, *, evicting: bool = False) -> list[Entry]:
        """Only CRITICAL ones; `evicting`: another task will leave its slot for each."""
        if most <= 0:
            return []
        return self._agenda.take_urgent(most, self._checks.admitting(), evicting=evicting)

    def steal(self, entries: Iterable[Entry], most: int) -> list[Entry]:
        """Up to so many of the entries that another node serves."""
        chosen: list[Entry] = []
        admit = self._checks.admitting()
        for entry in entries:
            if len(chosen) >= most:
                break
            if self._agenda.steal(entry, self.held.suspects, admit):
                chosen.append(entry)
        return self.once(chosen)

    def once(self, chosen: list[Entry]) -> list[Entry]:
        """Each task once: see `Agenda.once`."""
        return self._agenda.once(chosen)

    def would_admit(self, tenants: Iterable[str]) -> bool:
        """Whether nothing waits here, and what these tenants have would most likely be admitted."""
        return not self.awaits() and self._checks.are_free(tenants)

    # After the claim

    def missed(self, entries: Collection[Entry]) -> None:
        """These were chosen, and surely not claimed. One that is held was so before: its hint was
        stale, and what it runs with stays its own."""
        self._unused(entries)
        self._checks.missed([e.key for e in entries if e.key not in self.held.fences])

    def too_early(self, entries: Collection[Entry]) -> None:
        """These were to be claimed early, and were not, or it is not known: they are looked at
        again at their time."""
        self.missed(entries)
        for entry in entries:
            if self._agenda.knows(entry.key):
                self._agenda.again(entry, entry.due_at)

    def not_yet(self, entries: Collection[Entry]) -> None:
        """These were to be claimed early, and were not asked for: something else comes first."""
        self.missed(entries)
        self._agenda.not_yet(entries)

    def unclaimable(self, due_at: datetime) -> None:
        """Nothing that is due then can be claimed early: the rest of it waits for its time."""
        self._agenda.leave(due_at)

    def unanswered(self, entries: Sequence[Entry], own: Sequence[Entry]) -> None:
        """The claim failed, and may or may not have been made: so what was admitted keeps what it
        took for that, and takes nothing when it is admitted again. Ready again are the `own`."""
        kept = {e.key for e in own}
        self._unused(e for e in entries if e.key not in kept)
        self._agenda.put_back(own)
        unheld = [e.key for e in entries if e.key not in self.held.fences]
        for key in unheld:
            self.held.suspects.release(key)
        self._checks.unanswered(unheld)

    def claimed(
        self, entries: Sequence[Entry], deliveries: Sequence[Delivery]
    ) -> Sequence[Delivery]:
        """The node holds these now; gives them as they are to be sent to the slots."""
        deliveries = self._startable(deliveries)
        held, keys = self.held.fences, [d.key for d in deliveries]
        as_hinted = [e.lane for e in entries] == [d.lane for d in deliveries]
        if as_hinted and held.keys().isdisjoint(keys):  # as most are
            held.update(zip(keys, [d.fence for d in deliveries], strict=True))
            return deliveries
        hinted = {e.key: e.lane for e in entries}
        for delivery in deliveries:
            key, lane = delivery.key, delivery.lane
            if hinted[key] is not lane:  # its priority was changed
                self._agenda.moved(key.tenant_id, hinted[key], lane)
            if key in held and not self._has_left(key):
                # Taken over from this very node, which goes on with it.
                self._agenda.ended_all([(key.tenant_id, lane, None)])
            held[key] = delivery.fence
        return deliveries

    def claimed_unasked(
        self, entries: Sequence[Entry], deliveries: Sequence[Delivery]
    ) -> Sequence[Delivery]:
        """The same for what was claimed before anything was asked or taken for it: that is done
        now, and those that are refused will be released."""
        admit, refused = self._checks.admitting(), set()
        for entry in entries:
            key = entry.key
            if not self._agenda.steal(entry, self.held.suspects, admit):
                self._agenda.started(key.tenant_id, entry.lane)  # until it is released
                refused.add(key)
        return self.claimed(entries, _never(deliveries, refused))

    def adopted(self, deliveries: Iterable[Delivery]) -> None:
        """A gateway has taken these over as they run; another holds their permits."""
        for delivery in deliveries:
            key = delivery.key
            if key not in self.held.fences or self._has_left(key):
                self._agenda.started(key.tenant_id, delivery.lane)
            self.held.fences[key] = delivery.fence

    def _has_left(self, key: TaskKey) -> bool:
        """Whether its slot was given back for the claim that is held; it is noted no longer."""
        had_left = key in self._left
        self._left.discard(key)
        return had_left

    def reported(self, reports: Sequence[Report]) -> None:
        """The calls have ended, and their slots are free for all tenants while this is written. A
        tenant that has no others is not kept from any slot: its share waits for the settlement."""
        if not reports or not self._agenda.must_share(reports[0].delivery.key.tenant_id):
            return
        held, left, ended = self.held.fences, self._left, []
        for report in reports:
            key = report.delivery.key
            if held.get(key) == report.delivery.fence and key not in left:  # else it was repeated
                left.add(key)
                ended.append(report)
        self._free(ended)

    def _free(self, ended: Sequence[Report]) -> None:
        deliveries = [report.delivery for report in ended]
        tenants, lanes = [d.key.tenant_id for d in deliveries], [d.lane for d in deliveries]
        self._agenda.ended_all(zip(tenants, lanes, seconds_of(ended), strict=True))

    def settled(self, reports: Iterable[Report]) -> None:
        """The node holds these no longer. Another claim of the same task, made after this one was
        taken over, is still held."""
        held, suspects = self.held.fences, self.held.suspects
        ended: list[Report] = []
        for report in reports:
            delivery = report.delivery
            key = delivery.key
            if held.get(key) == delivery.fence:
                del held[key]
                ended.append(report)
                if suspects.held:
                    suspects.release(key)
        kept = [r for r in ended if not self._has_left(r.delivery.key)] if self._left else ended
        self._free(kept)
        self._checks.ended(ended)

    def _unused(self, entries: Iterable[Entry]) -> None:
        """The slots and places that were taken for these are free again."""
        entries = list(entries)
        self._agenda.ended_all([(e.key.tenant_id, e.lane, None) for e in entries])
        for entry in entries if self.held.suspects.held else ():
            if entry.key not in self.held.fences:
                self.held.suspects.release(entry.key)

    def _startable(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """The same; those that must not start are too late for it, so that they are released. What
        the row says may differ from the hint that was admitted; and a hint does not tell suspects,
        so more of them may have been claimed than there is room for."""
        refused, places = self._checks.refused(deliveries), self.held.suspects
        some_lost = [d.losses for d in deliveries].count(0) < len(deliveries)
        for delivery in deliveries if some_lost or places.held else ():
            key, losses = delivery.key, delivery.losses
            if losses and is_suspect(losses) and can_kill(delivery.target):
                if key in places.held or places.allows(key, losses):
                    places.take(key, losses)
                else:
                    refused.add(key)
            elif places.held:
                places.release(key)
        return _never(deliveries, refused)


def _never(deliveries: Sequence[Delivery], refused: Collection[TaskKey]) -> Sequence[Delivery]:
    """The same; those that are refused are too late to start."""
    if not refused:
        return deliveries
    return [
        msgspec.structs.replace(d, start_by=NEVER) if d.key in refused else d for d in deliveries
    ]
