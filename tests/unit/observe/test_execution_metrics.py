"""Executions as metrics count them, and how many series there are."""

from collections.abc import Sequence

from prometheus_client.parser import text_string_to_metric_families

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane
from gnomon.observe.counts import Counted, EndCount, end_count, start_count
from gnomon.observe.events import (
    SettlementsPresumed,
    TaskBatch,
    TasksBuried,
    TasksSettled,
    TasksStarted,
)
from gnomon.observe.metrics.node import NodeMetrics
from gnomon.observe.metrics.task_types import LONGEST_NAME, MOST_TYPES
from gnomon.observe.node_events import (
    ClaimAnswered,
    LeaseRenewal,
    NodeSeen,
    PoolUse,
    Recovery,
    SettlementAnswered,
    TasksRecovered,
)


def started(*late: float, tenant: str = "a", task_type: str = "mail") -> TasksStarted:
    counts = [start_count((tenant, task_type, Lane.HIGH, False), late)]
    return TasksStarted(_nothing(), _nothing(), Counted(lambda: counts))


def ended(
    outcome: OutcomeKind | None,
    state: State,
    spent: Sequence[float] = (0.2,),
    *,
    task_type: str = "mail",
    tenant: str = "a",
    internal: bool = False,
    recurring: bool = False,
) -> Counted[EndCount]:
    kind = (tenant, task_type, Lane.HIGH, recurring, outcome, internal, state)
    return Counted(lambda: [end_count(kind, spent)])


def settled(counts: Counted[EndCount]) -> TasksSettled:
    return TasksSettled(_nothing(), counts)


def _nothing() -> TaskBatch:  # type: ignore[type-arg]
    return TaskBatch(lambda: iter(()))


def shown(metrics: NodeMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def changed(*events: object) -> dict[str, float]:
    """The counts that are not zero after these, by name, type and labels."""
    metrics = NodeMetrics()
    for event in events:
        metrics(event)  # type: ignore[arg-type]
    return {
        " ".join([sample.name, *sorted(sample.labels.values())]): sample.value
        for family in metrics.registry.collect()
        if family.name.startswith("gnomon_") and family.name != "gnomon"
        for sample in family.samples
        if sample.value and not sample.name.endswith("_bucket")
    }


def test_starts_are_counted_with_their_delays() -> None:
    metrics = NodeMetrics()
    metrics(started(0.0005, 0.002, 4.0))
    labels = {"lane": "HIGH", "kind": "one_time"}
    assert shown(metrics, "gnomon_executions_started_total", **labels) == 3
    delays = "gnomon_start_delay_seconds"
    assert shown(metrics, f"{delays}_count", **labels) == 3
    assert shown(metrics, f"{delays}_sum", **labels) == 4.0025
    found = [
        shown(metrics, f"{delays}_bucket", le=le, **labels) for le in ("0.001", "0.002", "5.0")
    ]
    assert found == [1, 2, 3]


def test_a_success_is_an_execution_and_a_completed_task() -> None:
    found = changed(settled(ended(OutcomeKind.SUCCEEDED, State.COMPLETED, [0.05, 2.0])))
    assert found == {
        "gnomon_executions_ended_total HIGH one_time succeeded": 2,
        "gnomon_tasks_completed_total HIGH one_time": 2,
        "gnomon_run_seconds_count HIGH one_time": 2,
        "gnomon_run_seconds_sum HIGH one_time": 2.05,
        "gnomon_type_executions_total mail succeeded": 2,
        "gnomon_type_run_seconds_total mail": 2.05,
    }


def test_a_failure_is_retried_or_a_dead_letter_and_somebodys_fault() -> None:
    found = changed(
        settled(ended(OutcomeKind.FAILED, State.WAITING, [0.0])),
        settled(ended(OutcomeKind.TIMED_OUT, State.DEAD, [0.0], recurring=True)),
        settled(ended(OutcomeKind.LOST, State.WAITING, [0.0], internal=True)),
        settled(ended(OutcomeKind.SNOOZED, State.WAITING, [0.0])),
        settled(ended(OutcomeKind.PREEMPTED, State.WAITING, [0.0])),
        settled(ended(None, State.WAITING)),  # released: no execution
        settled(ended(None, State.EXPIRED)),
        settled(ended(OutcomeKind.FAILED, State.CANCELLED, [0.0])),
        TasksBuried(ended(None, State.DEAD, internal=True)),
        SettlementsPresumed(ended(OutcomeKind.SUCCEEDED, State.COMPLETED, [0.0])),
    )
    types = {name for name in found if "_type_" in name or "_run_seconds" in name}
    assert {name: found[name] for name in found.keys() - types} == {
        "gnomon_executions_ended_total HIGH failed one_time": 1,
        "gnomon_executions_ended_total HIGH recurring timed_out": 1,
        "gnomon_executions_ended_total HIGH lost one_time": 1,
        "gnomon_executions_ended_total HIGH one_time snoozed": 1,
        "gnomon_executions_ended_total HIGH one_time preempted": 1,
        "gnomon_executions_ended_total HIGH cancelled one_time": 1,
        "gnomon_executions_ended_total HIGH one_time succeeded": 1,
        "gnomon_tasks_completed_total HIGH one_time": 1,
        "gnomon_retries_total HIGH one_time": 2,
        "gnomon_dead_letters_total HIGH recurring": 1,
        "gnomon_dead_letters_total HIGH one_time": 1,
        "gnomon_failures_total receiver": 2,
        "gnomon_failures_total gnomon": 2,
    }


def test_the_nodes_own_work_is_counted() -> None:
    found = changed(
        ClaimAnswered(30, 2, 0.004),
        SettlementAnswered(7, 0.5),
        TasksRecovered(Recovery.NODE_LOST, 4),
        LeaseRenewal(True),
        LeaseRenewal(False),
        NodeSeen(slots=8, busy=3, shards=64, clock_offset=-0.25, connections=PoolUse(2, 1, 10, 5)),
    )
    assert found == {
        "gnomon_claim_batch_tasks_count": 1,
        "gnomon_claim_batch_tasks_sum": 30,
        "gnomon_claim_seconds_count": 1,
        "gnomon_claim_seconds_sum": 0.004,
        "gnomon_claims_missed_total": 2,
        "gnomon_settle_batch_tasks_count": 1,
        "gnomon_settle_batch_tasks_sum": 7,
        "gnomon_settle_seconds_count": 1,
        "gnomon_settle_seconds_sum": 0.5,
        "gnomon_recoveries_total node_lost": 4,
        "gnomon_lease_renewals_total renewed": 1,
        "gnomon_lease_renewals_total failed": 1,
        "gnomon_slots": 8,
        "gnomon_slots_busy": 3,
        "gnomon_shards": 64,
        "gnomon_clock_offset_seconds": -0.25,
        "gnomon_database_connections used": 2,
        "gnomon_database_connections idle": 1,
        "gnomon_database_connections limit": 10,
        "gnomon_database_waiting": 5,
    }


def number_of_series(metrics: NodeMetrics) -> int:
    return sum(len(family.samples) for family in metrics.registry.collect())


def test_ten_thousand_types_and_tenants_leave_the_number_of_series_as_it_is() -> None:
    metrics = NodeMetrics()

    def work(number: int) -> None:
        tenant, task_type = f"tenant-{number}", f"type-{number}"
        metrics(started(0.1, tenant=tenant, task_type=task_type))
        success = ended(OutcomeKind.SUCCEEDED, State.COMPLETED, tenant=tenant, task_type=task_type)
        metrics(settled(success))

    for number in range(MOST_TYPES + 1):
        work(number)
    before = number_of_series(metrics)
    for number in range(10_000):
        work(number)
    assert number_of_series(metrics) == before
    others = shown(metrics, "gnomon_type_executions_total", task_type="other", outcome="succeeded")
    assert others == 10_000 - MOST_TYPES + 1


def test_a_type_keeps_its_series_while_others_come() -> None:
    metrics = NodeMetrics()
    names = ["first", *map(str, range(200)), "first"]
    for name in names:
        metrics(settled(ended(OutcomeKind.SUCCEEDED, State.COMPLETED, task_type=name)))
    found = shown(metrics, "gnomon_type_executions_total", task_type="first", outcome="succeeded")
    assert found == 2


def test_names_of_types_are_bounded_and_escaped() -> None:
    metrics = NodeMetrics()
    hostile = 'a"} 1\ngnomon_fake 1\\'
    for name in (hostile, "x" * (LONGEST_NAME + 1), "other"):
        metrics(settled(ended(OutcomeKind.SUCCEEDED, State.COMPLETED, task_type=name)))
    text = metrics.text()[0].decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert "gnomon_fake" not in families
    types = {
        sample.labels["task_type"]: sample.value
        for sample in families["gnomon_type_executions"].samples
    }
    assert types == {hostile: 1, "other": 2}
