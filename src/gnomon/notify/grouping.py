"""Gathers the events of a subscription into notifications, as Alertmanager does. Pure.

Events of one fingerprint are a group. The first event of a group is told at once; what follows is
told by digests, one an interval, with counts; and that a condition is over is told as well, with a
digest. A storm of different groups is told at once a few times, and then by digests, too.

`step` is called with new events, and whenever time has come (`wakes_at`). All that it knows is the
inbox, which is stored with the tasks that it made: whoever comes next goes on from there.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from gnomon.model.insight.severity import Severity
from gnomon.notify.quiet_hours import QuietHours
from gnomon.notify.subscription import LONGEST_DIGEST, NotedEvent, SubscriptionRules

MOST_GROUPS = 100  # of a subscription; events of others are gathered by kind
AT_ONCE = 3  # notifications of an interval that do not wait for its digest
_MOST_KINDS = 50  # of groups that stand for many
_REMEMBERED = 4  # events of a group that may still grow
_MOST_ENDED = 100  # events of groups that are over, and may still grow
_ANY = "*"
# After which a condition is given up whose end was not seen: its event may have been removed, or
# the node ended that would have told it.
_LONGEST_CONDITION = timedelta(days=30)


class GroupState(StrEnum):
    """What a notification says of a group."""

    NEW = "new"
    ONGOING = "ongoing"
    RESOLVED = "resolved"


class EventGroup(msgspec.Struct, kw_only=True):
    """Events of one fingerprint, of one subscription."""

    kind: str
    tenant_id: str
    severity: Severity
    summary: str
    first_at: datetime
    last_at: datetime
    task_type: str | None = None
    total: int = 0
    untold: int = 0
    is_told: bool = False  # that it began
    is_over: bool = False  # which is not told yet
    has_end: bool = False  # an event tells it: silence does not
    counts: dict[str, int] = {}  # of events that may grow, by id

    def add(self, event: NotedEvent) -> None:
        before = self.counts.pop(event.id, 0)
        more = max(0, event.count - before)
        kept = [*self.counts.items()][1 - _REMEMBERED :]
        self.counts = {**dict(kept), event.id: max(event.count, before)}
        if more:
            self.total += more
            self.untold += more
            self.is_over = False
            self.last_at = max(self.last_at, event.at)
            self.summary = event.summary
            if event.severity is Severity.ERROR:
                self.severity = Severity.ERROR

    @property
    def lasts(self) -> bool:
        """Whether it is a condition, which may be over at some time. Good news is none."""
        return self.severity is not Severity.INFO

    def silent_at(self, rules: SubscriptionRules) -> datetime:
        """When it counts as over, though no event has said so."""
        if self.has_end:
            return self.last_at + _LONGEST_CONDITION
        return self.last_at + timedelta(seconds=rules.resolve_seconds)

    @property
    def is_new(self) -> bool:
        return not self.is_told and self.untold > 0

    @property
    def has_news(self) -> bool:
        return self.untold > 0 or self.is_over


class Inbox(msgspec.Struct, kw_only=True):
    """What a subscription has not been told yet, and what it has to hear the end of."""

    groups: dict[str, EventGroup] = {}
    digest_at: datetime | None = None  # the end of the interval; None: all is calm
    told_at_once: int = 0  # notifications of this interval
    sequence: int = 0  # notifications so far
    ended: dict[str, int] = {}  # counts that were told, of events whose groups are over, by id

    def end(self, key: str) -> None:
        """Forgets a group, but for the counts of its events: one that grows after all is told for
        what is new."""
        counts = {**self.ended, **self.groups.pop(key).counts}
        self.ended = dict([*counts.items()][-_MOST_ENDED:])


class ToldGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group in a notification."""

    state: GroupState
    kind: str
    severity: Severity
    tenant_id: str
    task_type: str | None
    count: int  # since the last notification
    total: int
    first_at: datetime
    last_at: datetime
    summary: str


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """A notification: the groups that it tells of, and its number within the subscription."""

    sequence: int
    at: datetime
    groups: list[ToldGroup]


def step(
    inbox: Inbox,
    rules: SubscriptionRules,
    events: Iterable[NotedEvent],
    now: datetime,
    muted_until: datetime | None = None,
) -> Gathered | None:
    """Take in events, and give what is to be told now, if anything. Changes the inbox."""
    for event in events:
        _take(inbox, rules, event)
    _end_silent(inbox, rules, now)
    if _is_muted(rules, now, muted_until):
        # What is over by the end of it is not told at all.
        inbox.groups = {k: g for k, g in inbox.groups.items() if g.lasts and not g.is_over}
        return None
    told = _due(inbox, rules, now)
    if not told:
        return None
    return _tell(inbox, rules, told, now)


def wakes_at(
    inbox: Inbox, rules: SubscriptionRules, now: datetime, muted_until: datetime | None = None
) -> datetime | None:
    """When to call `step` again though nothing happens; None: not at all."""
    quiet, begin = rules.quiet_hours, now
    if _is_muted(rules, now, muted_until):
        begin = now + timedelta(seconds=LONGEST_DIGEST) if muted_until is None else muted_until
    moments = [] if inbox.digest_at is None else [max(inbox.digest_at, begin)]
    for group in inbox.groups.values():
        silent_at = max(group.silent_at(rules), now)
        moment = max(inbox.digest_at or begin if group.has_news else silent_at, begin)
        if quiet is not None and quiet.holds_at(moment) and not _breaks_through(quiet, group):
            moment = quiet.ends_after(moment)
        moments.append(moment if begin == now else min(moment, silent_at))  # it may be over by then
    return min(moments, default=None)


def _breaks_through(quiet: QuietHours, group: EventGroup) -> bool:
    return quiet.errors_through and group.severity is Severity.ERROR


def _is_muted(rules: SubscriptionRules, now: datetime, muted_until: datetime | None) -> bool:
    return not rules.enabled or (muted_until is not None and now < muted_until)


def _take(inbox: Inbox, rules: SubscriptionRules, event: NotedEvent) -> None:
    group = inbox.groups.get(event.fingerprint)
    if event.is_end and group is not None:
        # The filter has decided by the beginning.
        group.is_over = True
        group.last_at = max(group.last_at, event.at)
        return
    if not rules.wants(event) or event.count <= inbox.ended.get(event.id, 0):
        return
    if group is None:
        key = _key(inbox, event)
        group = inbox.groups.get(key)
        if group is None:
            group = inbox.groups[key] = _group(event, is_own=key == event.fingerprint)
    if event.id in inbox.ended:
        group.counts = {**group.counts, event.id: inbox.ended.pop(event.id)}
    group.add(event)


def _key(inbox: Inbox, event: NotedEvent) -> str:
    """The key of the group: its own, while there is room for more."""
    if len(inbox.groups) < MOST_GROUPS:
        return event.fingerprint
    of_kind = f"{_ANY}{event.kind}"
    room = len(inbox.groups) < MOST_GROUPS + _MOST_KINDS
    return of_kind if room or of_kind in inbox.groups else _ANY


def _group(event: NotedEvent, *, is_own: bool) -> EventGroup:
    return EventGroup(
        kind=event.kind,
        tenant_id=event.tenant_id,
        task_type=event.task_type if is_own else None,
        severity=event.severity,
        summary=event.summary,
        first_at=event.at,
        last_at=event.at,
        has_end=is_own and event.has_end,  # ends are found by their own fingerprints
    )


def _end_silent(inbox: Inbox, rules: SubscriptionRules, now: datetime) -> None:
    for group in inbox.groups.values():
        if group.lasts and now >= group.silent_at(rules):
            group.is_over = True


def _due(inbox: Inbox, rules: SubscriptionRules, now: datetime) -> dict[str, EventGroup]:
    """The groups that are told of now."""
    news = {key: group for key, group in inbox.groups.items() if group.has_news}
    quiet = rules.quiet_hours
    if quiet is not None and quiet.holds_at(now):
        news = {key: group for key, group in news.items() if _breaks_through(quiet, group)}
    if inbox.digest_at is None or now >= inbox.digest_at:
        if not news and inbox.digest_at is not None:
            inbox.digest_at, inbox.told_at_once = None, 0
        return news
    if inbox.told_at_once >= AT_ONCE:
        return {}
    return {key: group for key, group in news.items() if group.is_new}


def _tell(
    inbox: Inbox, rules: SubscriptionRules, told: dict[str, EventGroup], now: datetime
) -> Gathered:
    if inbox.digest_at is None or now >= inbox.digest_at:
        inbox.told_at_once = 1 if inbox.digest_at is None else 0
        inbox.digest_at = now + timedelta(seconds=rules.digest_seconds)
    else:
        inbox.told_at_once += 1
    inbox.sequence += 1
    entries = [_told(group) for group in told.values()]
    for key, group in told.items():
        if group.is_over or not group.lasts:
            inbox.end(key)
        else:
            group.untold, group.is_told = 0, True
    entries.sort(key=_order)
    return Gathered(sequence=inbox.sequence, at=now, groups=entries)


def _told(group: EventGroup) -> ToldGroup:
    state = GroupState.ONGOING if group.is_told else GroupState.NEW
    return ToldGroup(
        state=GroupState.RESOLVED if group.is_over else state,
        kind=group.kind,
        severity=group.severity,
        tenant_id=group.tenant_id,
        task_type=group.task_type,
        count=group.untold,
        total=group.total,
        first_at=group.first_at,
        last_at=group.last_at,
        summary=group.summary,
    )


_STATE_ORDER = {GroupState.NEW: 0, GroupState.ONGOING: 1, GroupState.RESOLVED: 2}
_SEVERITY_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def _order(group: ToldGroup) -> tuple[int, int, datetime]:
    return _SEVERITY_ORDER[group.severity], _STATE_ORDER[group.state], group.first_at
