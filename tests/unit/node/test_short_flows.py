"""How many tasks of a herd can start within a moment, by how long such tasks ran lately."""

from collections.abc import Iterable
from datetime import UTC, datetime
from uuid import UUID

import msgspec
import pytest

from gnomon.model.outcomes.outcome import SUCCESS
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.dispatch.short_flows import MOMENT, ShortFlows
from gnomon.node.start_checks import StartChecks
from gnomon.pipe.envelope import Report
from gnomon.store.ports.dispatch import Entry
from gnomon.testing.contracts.pipe import a_delivery

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def ran(flow: int, seconds: Iterable[float]) -> list[Report]:
    delivery = msgspec.structs.replace(a_delivery(1), flow=flow)
    return [Report(delivery, SUCCESS, 100.0, 100.0 + each) for each in seconds]


def entries(*flows: int, count: int = 2000) -> list[Entry]:
    return [
        Entry(TaskKey("tenant", UUID(int=n)), NOW, Lane.MEDIUM, flow=flows[n % len(flows)])
        for n in range(count)
    ]


def test_nothing_is_said_of_what_has_not_run_here() -> None:
    short = ShortFlows()
    assert short.startable(entries(1)) == 0
    short.all_ended(ran(1, [1e-5] * 3))
    assert short.startable(entries(1)) == 0
    short.all_ended(ran(1, [1e-5]))
    assert short.startable(entries(1)) > 0
    assert short.startable(entries(1, 2)) == 0
    assert short.startable([]) == 0


@pytest.mark.parametrize("seconds", [2e-5, 1e-3, 0.5])
def test_as_many_as_fit_into_a_moment(seconds: float) -> None:
    short = ShortFlows()
    StartChecks([short]).ended(ran(1, [seconds] * 1000))
    assert short.startable(entries(1)) == pytest.approx(MOMENT / seconds, rel=0.01, abs=1)


def test_few_that_took_long_do_not_count_and_many_do() -> None:
    short = ShortFlows()
    short.all_ended(ran(1, [1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 5.0]))
    assert short.startable(entries(1)) > 5000
    short.all_ended(ran(1, [1e-5] * 30 + [5.0] * 30))
    assert short.startable(entries(1)) == 0


def test_what_was_not_started_says_nothing() -> None:
    short = ShortFlows()
    short.all_ended([Report(a_delivery(1))] * 100)
    assert short.startable(entries(0)) == 0


def test_flows_are_bounded_and_the_oldest_are_forgotten() -> None:
    short = ShortFlows()
    for flow in range(1, 1100):
        short.all_ended(ran(flow, [1e-5] * 4))
        short.all_ended(ran(1, [1e-5]))
    assert len(short._seconds) == 1000
    assert short.startable(entries(1)) > 0
    assert short.startable(entries(2)) == 0


def test_it_refuses_nothing() -> None:
    checks = StartChecks([ShortFlows()])
    (entry,) = entries(1, count=1)
    assert checks.is_plain(entry)
    assert checks.admits_all("tenant")
    assert checks.admitting()(entry)
