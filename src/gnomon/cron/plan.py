"""Which fires of a job become runs now, and which were missed. Pure.

A run that was planned ahead may find nobody to start it. So the policy for missed runs is written
on each of them as the moment from which it must not start any more, and whoever claims it, however
late, needs no other knowledge:

- `skip`: once it is late by `missed_after_seconds`;
- `fire_once`: once the next fire has come (then that one stands for both);
- `backfill`: once so many later fires have come as are made up for, or once it is too old.
"""

from datetime import datetime, timedelta
from itertools import islice

import msgspec

from gnomon.cron.job import CronJob, Definition, Missed, RunKind, Skipped, schedule_of
from gnomon.cron.schedule import Schedule
from gnomon.model.tasks.jitter import jitter_of

MOST_AT_ONCE = 100  # runs of one job in one plan; the rest is for the next one
MOST_LOOKED_AT = 1000  # fires of one job in one plan
MOST_COUNTED = 10_000  # of fires that were missed together
# Fires of a job that has no room are skipped for so long with one entry in the ledger: else that
# would grow as its tasks would have.
WITHHELD = timedelta(minutes=5)
_INSTANT = timedelta(microseconds=1)


class Occurrence(msgspec.Struct, frozen=True):
    """A fire that becomes a run."""

    fire_at: datetime
    execute_at: datetime  # with its jitter
    expires_at: datetime | None  # from then on it must not start: it was missed
    kind: RunKind = RunKind.SCHEDULED


class Plan(msgspec.Struct, frozen=True):
    """How to move a job on: valid only for the version and the fire time of `job`."""

    job: CronJob
    occurrences: list[Occurrence]
    next_fire_at: datetime | None
    missed: int = 0
    last_missed: datetime | None = None
    why: Skipped = Skipped.MISSED


def plan(job: CronJob, now: datetime, until: datetime) -> Plan:
    """Plan what fires up to `until`, and account for what was missed before `now`."""
    if job.next_fire_at is None:
        return Plan(job, [], None)
    definition = job.definition
    schedule = schedule_of(definition, str(job.id))
    fire = _first_kept(definition, schedule, job.next_fire_at, now)
    missed, last_missed = _missed(schedule, job.next_fire_at, fire, now)
    room = MOST_AT_ONCE
    if definition.max_runs is not None:
        room = min(room, definition.max_runs - job.runs)
    occurrences: list[Occurrence] = []
    for _ in range(MOST_LOOKED_AT):
        if fire is None or fire > until or len(occurrences) >= room:
            break
        made = occurrence(job, schedule, fire)
        if made.expires_at is None or made.expires_at > now:
            occurrences.append(made)
        else:
            missed, last_missed = missed + 1, fire
        fire = schedule.next_after(fire)
    if definition.max_runs is not None and job.runs + len(occurrences) >= definition.max_runs:
        fire = None
    return Plan(job, occurrences, fire, missed, last_missed)


def withheld(planned: Plan, now: datetime) -> Plan:
    """The plan where there is no room for its runs: none of them, nor those of the next minutes."""
    first = planned.job.next_fire_at
    if first is None or not planned.occurrences:
        return planned
    schedule = schedule_of(planned.job.definition, str(planned.job.id))
    until = max(planned.occurrences[-1].fire_at, now) + WITHHELD
    fires = [*islice(schedule.fires(first - _INSTANT, until), MOST_COUNTED)]
    # The next fire of a job may be none of its schedule: time zones change their rules.
    fires = fires or [o.fire_at for o in planned.occurrences]
    after = schedule.next_after(until)
    return Plan(planned.job, [], after, len(fires), fires[-1], Skipped.NO_ROOM)


def occurrence(job: CronJob, schedule: Schedule, fire_at: datetime) -> Occurrence:
    """One fire as a run to be."""
    execute_at = fire_at + jitter(job, fire_at)
    return Occurrence(fire_at, execute_at, _expiry(job.definition, schedule, fire_at, execute_at))


def jitter(job: CronJob, fire_at: datetime) -> timedelta:
    """How much later than its fire a run is due: always the same for the same fire."""
    return jitter_of(f"{job.id}/{fire_at.timestamp()}", job.definition.jitter_seconds)


def _expiry(
    definition: Definition, schedule: Schedule, fire_at: datetime, execute_at: datetime
) -> datetime | None:
    soonest = execute_at + timedelta(seconds=definition.missed_after_seconds)
    match definition.missed_run_policy:
        case Missed.SKIP:
            return soonest
        case Missed.FIRE_ONCE:
            bounds = [schedule.next_after(fire_at)]
        case Missed.BACKFILL:
            bounds = []
            if definition.backfill_limit is not None:
                bounds.append(_nth_after(schedule, fire_at, definition.backfill_limit))
            if definition.backfill_window_seconds is not None:
                window = timedelta(seconds=definition.backfill_window_seconds)
                bounds.append(fire_at + window)
    known = [bound for bound in bounds if bound is not None]
    return max(soonest, min(known)) if known else None


def _nth_after(schedule: Schedule, fire_at: datetime, n: int) -> datetime | None:
    fire: datetime | None = fire_at
    for _ in range(n):
        if fire is None:
            return None
        fire = schedule.next_after(fire)
    return fire


def _first_kept(
    definition: Definition, schedule: Schedule, cursor: datetime, now: datetime
) -> datetime | None:
    """A fire from `cursor` on before which all were surely missed, found without walking through a
    long outage. None where that holds for all."""
    grace = timedelta(seconds=definition.missed_after_seconds)
    if cursor + grace > now:
        return cursor
    late = schedule.next_after(now - grace - timedelta(seconds=definition.jitter_seconds))
    first: datetime | None
    match definition.missed_run_policy:
        case Missed.SKIP:
            first = late
        case Missed.FIRE_ONCE:
            first = _earlier(late, schedule.previous_before(now + _INSTANT))
        case Missed.BACKFILL:
            bounds = _backfill_bounds(definition, schedule, now)
            first = _earlier(late, max(bounds)) if bounds else cursor
    return None if first is None else max(cursor, first)


def _backfill_bounds(definition: Definition, schedule: Schedule, now: datetime) -> list[datetime]:
    bounds = []
    if definition.backfill_limit is not None:
        bounds.append(_nth_before(schedule, now + _INSTANT, definition.backfill_limit))
    if definition.backfill_window_seconds is not None:
        window = timedelta(seconds=definition.backfill_window_seconds)
        bounds.append(schedule.next_after(now - window))
    return [bound for bound in bounds if bound is not None]


def _nth_before(schedule: Schedule, moment: datetime, n: int) -> datetime | None:
    """The n-th fire before a moment, or the first that there is."""
    fire = schedule.previous_before(moment)
    for _ in range(n - 1):
        before = None if fire is None else schedule.previous_before(fire)
        if before is None:
            return fire
        fire = before
    return fire


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    known = [moment for moment in (one, other) if moment is not None]
    return min(known, default=None)


def _missed(
    schedule: Schedule, cursor: datetime, first: datetime | None, now: datetime
) -> tuple[int, datetime | None]:
    """How many fires from `cursor` on come before the first that is kept, and the last of them."""
    if first is not None and first <= cursor:
        return 0, None
    last = schedule.previous_before(now + _INSTANT if first is None else first)
    if last is None or last < cursor:
        return 0, None
    counted = islice(schedule.fires(cursor - _INSTANT, last), MOST_COUNTED)
    return sum(1 for _ in counted), last
