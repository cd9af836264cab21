"""Tells subscriptions of events: gathers what they have to be told, and makes tasks of it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import structlog

from gnomon.clock import Clock
from gnomon.model.errors import EventsGone, InvalidSchedule
from gnomon.model.insight.event_kinds import INSTALLATION, NOTIFICATIONS_FAILED
from gnomon.node.membership.lease import Lease
from gnomon.notify.grouping import Inbox, step, wakes_at
from gnomon.notify.notification import NOTIFIER_TENANT, notification_of
from gnomon.notify.subscription import NotedEvent, Subscription, SubscriptionRules
from gnomon.notify.wording import line
from gnomon.store.ports.insight.events import EventRecord, NewEvent
from gnomon.store.ports.insight.subscriptions import FailedNotification, HeldInbox, InboxChange
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events.event_log import PostgresEventLog
from gnomon.store.postgres.events.event_writer import PostgresEventWriter
from gnomon.store.postgres.notify.notifier_store import PostgresNotifier

log = structlog.get_logger("gnomon.node.maintenance")

CHORE = "notify"
EVERY_SECONDS = 2.0
_HOLD_SECONDS = 10.0
_AT_ONCE = 500  # events
_ROUNDS = 20  # of one pass; what is left is for the next one
_MOST_SUMMARY = 300
_AGAIN = timedelta(minutes=1)  # a subscription that cannot be judged is looked at
# Members of a detail that a notification has in another place, or that tell nothing by themselves.
_ELSEWHERE = frozenset({"task_type", "count", "tags", "since", "until"})

EventsByTenant = Mapping[str, Sequence[NotedEvent]]


class Notifier:
    """One node at a time has the chore. Where two believe to have it, one of them finds that the
    other has gone on, and changes nothing."""

    def __init__(
        self,
        store: PostgresNotifier,
        events: PostgresEventLog,
        writer: PostgresEventWriter,
        chores: PostgresChores,
        lease: Lease,
        clock: Clock,
    ) -> None:
        self._store = store
        self._events = events
        self._writer = writer
        self._chores = chores
        self._lease = lease
        self._clock = clock

    async def run_once(self) -> int:
        """Gives how many notifications it made; 0 where another node has the chore."""
        made = 0
        try:
            for _ in range(_ROUNDS):
                if not await self._chores.hold(CHORE, self._lease.incarnation, _HOLD_SECONDS):
                    break
                more, is_last = await self.read_on()
                made += more
                if is_last:
                    break
        finally:
            await self._tell_failures()  # neither keeps the other from being done
        return made

    async def read_on(self) -> tuple[int, bool]:
        """Read on; gives how many notifications that made, and whether there is no more."""
        position = await self._store.position()
        if position.number is None or not position.is_wanted:
            last = (await self._events.span()).last
            if last != position.number:
                await self._store.skip(position.number, last)
            return 0, True
        try:
            page = await self._events.read(position.number, _AT_ONCE)
        except EventsGone as gone:
            log.warning("events were removed untold: retention is too short", why=str(gone))
            # What is kept is told; nothing is, where the database was set back.
            kept = gone.forgotten if position.number < gone.forgotten else gone.last
            await self._store.skip(position.number, kept)
            return 0, kept == gone.last
        now = self._clock.now()
        by_tenant = _by_tenant(page.events)
        if not by_tenant and not position.is_due(now):
            if page.reached != position.number:
                await self._store.skip(position.number, page.reached)
            return 0, True
        work = partial(changes_of, by_tenant, now)
        made = await self._store.advance(position.number, page.reached, [*by_tenant], now, work)
        return made, len(page.events) < _AT_ONCE

    async def _tell_failures(self) -> None:
        """A subscription that cannot be told is the matter of an event, once; and what could not
        be sent is resolved, so that it does not pile up."""
        failed = await self._store.failed()
        if not failed:
            return
        firsts = {f.subscription_id: f for f in reversed(failed) if f.tells}
        await self._writer.enter([_event(each) for each in firsts.values()])
        await self._store.give_up(failed)


def changes_of(
    by_tenant: EventsByTenant, now: datetime, held: Sequence[HeldInbox]
) -> list[InboxChange]:
    """The inboxes that change by these events, or by the time."""
    changes = []
    for each in held:
        before = msgspec.json.encode(each.inbox)
        try:
            change = _change_of(each, _tellable(each.subscription), by_tenant, now)
        except Exception:  # whatever it is, it is this subscription's alone
            subscription_id = str(each.subscription.id)
            log.exception("a subscription cannot be told", subscription_id=subscription_id)
            change = InboxChange(
                subscription=each.subscription,
                inbox=msgspec.json.decode(before, type=Inbox),
                next_at=now + _AGAIN,
            )
        if msgspec.json.encode(change.inbox) != before or change.next_at != each.next_at:
            changes.append(change)
    return changes


def _change_of(
    held: HeldInbox, rules: SubscriptionRules, by_tenant: EventsByTenant, now: datetime
) -> InboxChange:
    subscription, inbox = held.subscription, held.inbox
    until = subscription.muted_until
    gathered = None
    if subscription.may_be_sent:
        gathered = step(inbox, rules, events_for(subscription, by_tenant), now, until)
    else:
        inbox = Inbox(sequence=inbox.sequence)  # nothing is kept for an address that may refuse
    return InboxChange(
        subscription=subscription,
        inbox=inbox,
        next_at=wakes_at(inbox, rules, now, until),
        notification=None if gathered is None else notification_of(subscription, gathered),
    )


def _tellable(subscription: Subscription) -> SubscriptionRules:
    """Its rules; without quiet hours where this node does not know their time zone. Being told at
    night is better than not at all."""
    rules = subscription.rules
    if rules.quiet_hours is None:
        return rules
    try:
        rules.quiet_hours.check()
    except (InvalidSchedule, ValueError) as error:
        log.warning(
            "quiet hours cannot be kept", subscription_id=str(subscription.id), why=str(error)
        )
        return msgspec.structs.replace(rules, quiet_hours=None)
    return rules


def events_for(subscription: Subscription, by_tenant: EventsByTenant) -> Iterator[NotedEvent]:
    """The events that the subscription may be told of: of its tenant, or of the installation."""
    tenants = [subscription.tenant_id or INSTALLATION]
    if subscription.tenant_id is None and subscription.rules.all_tenants:
        tenants = [*by_tenant]
    for tenant in tenants:
        for event in by_tenant.get(tenant, ()):
            # Its own failure cannot be told to it: that would fail again.
            about_itself = event.subject == str(subscription.id)
            if event.at >= subscription.created_at and not about_itself:
                yield event


def _by_tenant(events: Sequence[EventRecord]) -> dict[str, list[NotedEvent]]:
    found: dict[str, list[NotedEvent]] = defaultdict(list)
    for event in events:
        if event.tenant_id != NOTIFIER_TENANT:
            found[event.tenant_id].append(noted(event))
    return found


def noted(event: EventRecord) -> NotedEvent:
    """An event as notifications need it."""
    fields = event.fields
    count, tags = fields.get("count"), fields.get("tags")
    job = fields.get("cron_job") or event.cron_job_id
    return NotedEvent(
        id=str(event.id),
        tenant_id=event.tenant_id,
        kind=event.kind,
        severity=event.severity,
        at=event.at,
        fingerprint=event.fingerprint,
        is_end=event.is_end,
        has_end=event.has_end,
        count=count if isinstance(count, int) and count > 0 else 1,
        task_type=event.task_type,
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        cron_job=None if job is None else str(job),
        subject=str(fields.get("subscription_id", "")),
        summary=_summary(fields),
    )


def _summary(fields: Mapping[str, Any]) -> str:
    told = (
        f"{name}={value}"
        for name, value in fields.items()
        if name not in _ELSEWHERE and isinstance(value, str | int | float) and value != ""
    )
    return line(", ".join(told), _MOST_SUMMARY)


def _event(failed: FailedNotification) -> NewEvent:
    """It has the id of the first that failed: whoever enters it again, enters the same."""
    detail = {
        "subscription": failed.name,
        "subscription_id": str(failed.subscription_id),
        "error": failed.error,
    }
    return NewEvent(
        tenant_id=failed.tenant_id or INSTALLATION,
        id=failed.id,
        kind=NOTIFICATIONS_FAILED,
        at=failed.at,
        detail=msgspec.json.encode(detail).decode(),
    )
