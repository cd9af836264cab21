"""What a process counts, and how it is read."""

import socket
import urllib.request
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from tests.unit.observe.probes import well

from gnomon.cron.job import Skipped
from gnomon.model.fleet.retention import RowKind
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.observe.counts import Counted, StartCount
from gnomon.observe.events import (
    BreakerClosed,
    BreakerOpened,
    BreakersForgotten,
    Event,
    FiresMissed,
    HandlerHung,
    HandlerReturned,
    QueueSeen,
    RetentionSeen,
    RunningTarget,
    RunSkipped,
    RunsPlanned,
    SlaMissed,
    TaskBatch,
    TaskPreempted,
    TasksStarted,
    TaskStarted,
    fan_out,
)
from gnomon.observe.metrics.api import ApiMetrics
from gnomon.observe.metrics.node import NodeMetrics
from gnomon.settings import OutputSettings, SettingsError

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)
MISS = SlaMissed(
    event_id=UUID(int=1),
    at=NOON,
    tenant_id="default",
    cron_job_id=UUID(int=2),
    cron_job="nightly",
    task_id=None,
    fire_at=NOON,
    sla_at=NOON,
    started_at=None,
    missed=1,
)
HANDLER = RunningTarget(
    key=TaskKey("a", UUID(int=3)), task_type="t", attempt=1, function="f", in_thread=False
)
IN_THREAD = RunningTarget(
    key=TaskKey("a", UUID(int=4)), task_type="t", attempt=1, function="g", in_thread=True
)


def started(attempt: int, late: float) -> TasksStarted:
    """A cron job's run that was claimed so late, beside a task of no job."""
    tasks = [
        TaskStarted(
            key=TaskKey("default", UUID(int=number)),
            task_type="t",
            lane=Lane.LOW,
            attempt=attempt,
            due_at=NOON,
            started_at=NOON + timedelta(seconds=late),
        )
        for number in (5, 6)
    ]
    nothing = Counted[StartCount](tuple)
    return TasksStarted(TaskBatch(lambda: iter(tasks)), TaskBatch(lambda: iter(tasks[:1])), nothing)


ALL: list[Event] = [
    RunsPlanned(3),
    RunsPlanned(2),
    FiresMissed(4),
    RunSkipped(Skipped.OVERLAP),
    RunSkipped(Skipped.OVERLAP),
    started(1, late=0.02),
    started(2, late=5.0),  # a retry: its delay is its own
    MISS,
    HandlerHung(HANDLER, 2.5),
    HandlerHung(IN_THREAD, 0.1),
    HandlerHung(IN_THREAD, 0.1),
    HandlerReturned(IN_THREAD, 7.0),
    TaskPreempted(TaskKey("a", UUID(int=3)), "t", Lane.LOW, 1),
    QueueSeen(dict.fromkeys(Lane, 7), dict.fromkeys(Lane, 9.0)),
    QueueSeen({lane: 2 + lane for lane in Lane}, {lane: lane / 2 for lane in Lane}),
    RetentionSeen(RowKind.KEYS, 70.0),
    RetentionSeen(RowKind.EVENTS, 70.0),
    RetentionSeen(RowKind.EVENTS, 0.0),
]
ZERO: dict[tuple[str, tuple[str, ...]], float] = {
    ("gnomon_cron_runs_planned_total", ()): 0.0,
    ("gnomon_cron_fires_missed_total", ()): 0.0,
    ("gnomon_cron_sla_missed_total", ()): 0.0,
    ("gnomon_cron_start_delay_seconds_count", ()): 0.0,
    ("gnomon_cron_runs_skipped_total", ("overlap",)): 0.0,
    ("gnomon_cron_runs_skipped_total", ("superseded",)): 0.0,
    ("gnomon_handlers_hung", ("loop",)): 0.0,
    ("gnomon_handlers_hung", ("thread",)): 0.0,
    ("gnomon_handlers_given_up_total", ("loop",)): 0.0,
    ("gnomon_handlers_given_up_total", ("thread",)): 0.0,
    ("gnomon_preemptions_total", ()): 0.0,
    **{("gnomon_ready_tasks", (lane.name,)): 0.0 for lane in Lane},
    **{("gnomon_longest_wait_seconds", (lane.name,)): 0.0 for lane in Lane},
    **{("gnomon_retention_behind_seconds", (kind.value,)): 0.0 for kind in RowKind},
}
COUNTED = (
    "gnomon_cron",
    "gnomon_handlers",
    "gnomon_ready",
    "gnomon_longest",
    "gnomon_preemptions",
    "gnomon_retention",
)


def counted(metrics: NodeMetrics) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in metrics.registry.collect()
        if family.name.startswith(COUNTED)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_sum"))
    }


def test_every_counter_is_there_before_anything_happens() -> None:
    assert counted(NodeMetrics()) == ZERO


def test_every_event_is_counted() -> None:
    metrics = NodeMetrics()
    for event in ALL:
        metrics(event)
    seen: dict[tuple[str, tuple[str, ...]], float] = {
        ("gnomon_cron_runs_planned_total", ()): 5.0,
        ("gnomon_cron_fires_missed_total", ()): 4.0,
        ("gnomon_cron_sla_missed_total", ()): 1.0,
        ("gnomon_cron_start_delay_seconds_count", ()): 1.0,
        ("gnomon_cron_runs_skipped_total", ("overlap",)): 2.0,
        ("gnomon_handlers_hung", ("loop",)): 1.0,
        ("gnomon_handlers_hung", ("thread",)): 1.0,
        ("gnomon_handlers_given_up_total", ("loop",)): 1.0,
        ("gnomon_handlers_given_up_total", ("thread",)): 2.0,
        ("gnomon_preemptions_total", ()): 1.0,
        ("gnomon_retention_behind_seconds", ("keys",)): 70.0,
        **{("gnomon_ready_tasks", (lane.name,)): 2.0 + lane for lane in Lane},
        **{("gnomon_longest_wait_seconds", (lane.name,)): lane / 2 for lane in Lane},
    }
    assert counted(metrics) == ZERO | seen


def test_all_observers_are_told_in_order() -> None:
    told: list[tuple[str, Event]] = []
    tell = fan_out(lambda e: told.append(("first", e)), lambda e: told.append(("second", e)))
    tell(MISS)
    assert told == [("first", MISS), ("second", MISS)]


def test_the_format_is_the_one_that_is_asked_for() -> None:
    metrics = NodeMetrics()
    body, media_type = metrics.text()
    assert media_type.startswith("text/plain")
    assert b"\ngnomon_cron_sla_missed_total 0.0\n" in body
    assert b"_created" not in body
    body, media_type = metrics.text("application/openmetrics-text; version=1.0.0")
    assert media_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_nodes_that_nobody_could_count_are_not_shown() -> None:
    metrics = ApiMetrics()
    metrics.nodes({"alive": 2, "silent": 0})
    assert b'gnomon_nodes{state="alive"} 2.0' in metrics.text()[0]
    metrics.nodes({})
    assert b"gnomon_nodes{" not in metrics.text()[0]


def test_a_node_serves_them_on_its_port_while_it_lives(unused_tcp_port: int) -> None:
    metrics = NodeMetrics()
    url = f"http://127.0.0.1:{unused_tcp_port}/metrics"
    with metrics.served(OutputSettings(metrics_port=unused_tcp_port), well()):
        metrics(MISS)
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert b"\ngnomon_cron_sla_missed_total 1.0\n" in answer.read()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=10)


def test_no_port_is_opened_unless_it_is_asked_for() -> None:
    # Nothing can listen there: an attempt would fail.
    with NodeMetrics().served(OutputSettings(metrics_host="192.0.2.1"), well()):
        pass


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(SettingsError, match=rf"127\.0\.0\.1:{port} \(Address already in use\)"),
            NodeMetrics().served(OutputSettings(metrics_port=port), well()),
        ):
            pass


def test_open_breakers_are_counted_until_they_close_or_their_node_ends() -> None:
    metrics = NodeMetrics()

    def shown() -> list[float | None]:
        names = ("gnomon_breakers_open", "gnomon_breaker_openings_total")
        return [
            metrics.registry.get_sample_value(name, {"of": of})
            for name in names
            for of in ("host", "tenant")
        ]

    def opened(host: str | None) -> BreakerOpened:
        return BreakerOpened(tenant_id="acme", host=host, failures=11, calls=20, until=NOON)

    for event in (opened("a:80"), opened("b:80"), opened(None)):
        metrics(event)
    assert shown() == [2, 1, 2, 1]
    metrics(BreakerClosed(tenant_id="acme", host="a:80", seconds=30.0))
    assert shown() == [1, 1, 2, 1]
    metrics(BreakersForgotten())
    assert shown() == [0, 0, 2, 1]
