"""What a settlement has made due is ready at once, and what it has made for later is not."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

from gnomon.fairness import FairQueue
from gnomon.model.fleet.pool import everything_in
from gnomon.model.fleet.shard import SHARDS
from gnomon.model.tasks.flow import UNKNOWN_FLOW
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.stage import AheadStage
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.signals import Signals
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Entry
from gnomon.testing.virtual_clock import VirtualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_NOTHING = cast("Any", None)  # is neither read nor written here


class Ahead:
    """A stage by hand, whose last tick was a moment ago."""

    def __init__(self) -> None:
        clock, settings = VirtualClock(NOW), NodeSettings()
        self.agenda = Agenda(FairQueue[Entry](), NOW - timedelta(milliseconds=5), settings.window)
        scanner = Scanner(_NOTHING, self.agenda, clock, settings)
        scanner.own(everything_in(frozenset(range(SHARDS))))
        self.signals = Signals()
        self.stage = AheadStage(scanner, self.agenda, _NOTHING, self.signals, clock, settings)

    def taken(self) -> list[int]:
        return [e.key.id.int for e in self.agenda.take(10, SuspectRoom(1, 1))]


def entry(number: int, seconds: float = 0.0, flow: int = 7) -> Entry:
    due_at = NOW + timedelta(seconds=seconds)
    return Entry(TaskKey("t", UUID(int=number)), due_at, Lane.MEDIUM, flow=flow)


def test_what_is_for_later_waits_for_its_time() -> None:
    """A task that was spawned with a jitter."""
    ahead = Ahead()
    ahead.stage.started([entry(1), entry(2, 300)])
    assert ahead.signals.ready.is_set()
    assert ahead.taken() == [1]
    ahead.agenda.advance(NOW + timedelta(seconds=300))
    assert ahead.taken() == [2]


def test_a_tick_is_asked_for_where_other_work_is_ready() -> None:
    """For one whose flow is not told."""
    ahead = Ahead()
    ahead.stage.started([entry(1)])
    ahead.signals.due.clear()
    ahead.stage.started([entry(2, flow=UNKNOWN_FLOW)])
    assert ahead.signals.due.is_set()
