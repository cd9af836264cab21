"""The busiest task types have series: they take places slowly, and no counter falls."""

from tests.unit.observe.test_execution_metrics import ended, number_of_series, settled

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.lifecycle import State
from gnomon.observe.metrics.node import NodeMetrics
from gnomon.observe.metrics.task_types import MOST_TYPES, OTHER, PERIOD_LOOKS
from gnomon.observe.node_events import NodeSeen, PoolUse

SEEN = NodeSeen(slots=8, busy=3, shards=64, clock_offset=0.0, connections=PoolUse(2, 1, 10, 5))


class Work:
    """A node's metrics, and how much ran by type."""

    def __init__(self) -> None:
        self.metrics = NodeMetrics()
        self.ran = 0

    def run(self, task_type: str, times: int = 1) -> None:
        done = ended(OutcomeKind.SUCCEEDED, State.COMPLETED, [0.2] * times, task_type=task_type)
        self.metrics(settled(done))
        self.ran += times

    def period(self) -> None:
        for _ in range(PERIOD_LOOKS):
            self.metrics(SEEN)

    def counts(self) -> dict[str, float]:
        return {
            sample.labels["task_type"]: sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "gnomon_type_executions_total"
        }


def of_idle_types() -> Work:
    """One in which the first types that ran have all series, and one type has become busy."""
    work = Work()
    for number in range(MOST_TYPES):
        work.run(f"first-{number}", times=1 + number)
    work.period()
    for number in range(1, MOST_TYPES):
        work.run(f"first-{number}", times=5)
    work.run("busy", times=100)
    return work


def test_a_busy_type_takes_the_place_of_the_least_busy_one() -> None:
    work = of_idle_types()
    before = work.counts()
    assert before[OTHER] == 100
    work.period()
    after = work.counts()
    assert before.keys() - after.keys() == {"first-0"}
    work.run("busy", times=7)
    work.run("first-0", times=3)
    after = work.counts()
    assert (after["busy"], after[OTHER]) == (7, 103)  # nothing that was counted has moved
    assert sum(after.values()) == work.ran - 1


def test_types_that_are_about_as_busy_do_not_take_turns() -> None:
    work = of_idle_types()
    work.period()
    work.run("busy")
    named = work.counts().keys()
    for _ in range(5):
        for number in range(1, MOST_TYPES):
            work.run(f"first-{number}", times=30)
        work.run("busy", times=30)
        work.run("late", times=45)
        work.period()
        assert work.counts().keys() == named
    work.period()  # in which nothing ran
    assert work.counts().keys() == named


def test_other_never_falls_and_the_number_of_series_stays() -> None:
    work = of_idle_types()
    work.period()
    before, other = number_of_series(work.metrics), work.counts()[OTHER]
    for turn in range(20):
        for number in range(500):
            work.run(f"type-{turn}-{number}", times=number)
        work.period()
        assert number_of_series(work.metrics) <= before  # a new one has none before it runs
        found = work.counts().get(OTHER, 0)
        assert found >= other
        other = found


def test_a_busy_type_is_seen_among_thousands() -> None:
    work = of_idle_types()
    work.period()
    for number in range(10_000):
        work.run(f"once-{number}")
        if number % 4 == 0:
            work.run("often", times=2)
    work.period()
    work.run("often")
    assert work.counts()["often"] == 1
