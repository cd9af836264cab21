"""Adds up activity in a process: by minute, tenant, task type and lane, a batch at a time.

It costs a task less than a microsecond. What was added up is taken by a writer every few seconds:
see `gnomon.store.activity_writer`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from gnomon.clock import Clock
from gnomon.model.insight.activity import ALL_TYPES, ActivityKey, Counts
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import Submission
from gnomon.observe.counts import Counted, EndCount, StartCount
from gnomon.observe.events import (
    Event,
    SettlementsPresumed,
    TasksBuried,
    TasksSettled,
    TasksStarted,
)

MOST_KEYS = 10_000  # of one minute: beyond, a task type is counted with all types only
MOST_MINUTES = 15

_FAILED = frozenset((OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.LOST))
_Key = tuple[str, str, Lane]
_Keyed = dict[_Key, Counts]


class ActivityTally:
    """The counts of one process that nobody has taken yet. An observer of a node's events."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._minutes: dict[datetime, _Keyed] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case TasksStarted(counts=starts):
                self._started(starts)
            case TasksSettled(counts=ends) | SettlementsPresumed(ends) | TasksBuried(ends):
                self._ended(ends)

    def submitted(self, submissions: Sequence[Submission]) -> None:
        """These were committed."""
        keys = [(each.tenant_id, each.task_type, each.priority) for each in submissions]
        self.submitted_by_key(Counter(keys).items())

    def submitted_by_key(self, counted: Iterable[tuple[_Key, int]]) -> None:
        """So many were committed."""
        minute = self._minute()
        for key, number in counted:
            _of(minute, key).submitted += number

    def take(self) -> dict[datetime, dict[ActivityKey, Counts]]:
        """What was counted since the last time, by the beginnings of minutes."""
        taken, self._minutes = self._minutes, {}
        return {
            minute: {ActivityKey(*key): counts for key, counts in keyed.items()}
            for minute, keyed in taken.items()
        }

    def _started(self, starts: Counted[StartCount]) -> None:
        minute = self._minute()
        for each in starts:
            counts = _of(minute, (each.tenant_id, each.task_type, each.lane))
            counts.started += each.number
            for place, number in each.delays:
                counts.delays[place] += number

    def _ended(self, ends: Counted[EndCount]) -> None:
        minute = self._minute()
        for each in ends:
            counts = _of(minute, (each.tenant_id, each.task_type, each.lane))
            counts.seconds += each.seconds
            number, outcome, state = each.number, each.outcome, each.state
            if state is State.COMPLETED:
                counts.succeeded += number
                continue
            # One that was cancelled while it ran has not failed, however it ended.
            if outcome in _FAILED and state is not State.CANCELLED:
                counts.failed += number
            if state is State.DEAD:
                counts.dead += number

    def _minute(self) -> _Keyed:
        now = self._clock.now().replace(second=0, microsecond=0)
        found = self._minutes.get(now)
        if found is None:
            found = self._minutes[now] = {}
            while len(self._minutes) > MOST_MINUTES:
                del self._minutes[min(self._minutes)]  # where no writer runs, as in a test
        return found


def _of(minute: _Keyed, key: _Key) -> Counts:
    found = minute.get(key)
    if found is not None:
        return found
    if len(minute) >= MOST_KEYS:
        key = key[0], ALL_TYPES, key[2]
    return minute.setdefault(key, Counts())
