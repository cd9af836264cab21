"""Names that task schedulers commonly use, recorded from Gnomon's own series.

Dashboards and alerts that were written for such names go on working; Gnomon exports each figure
once. Counters keep the labels of their process, so that a restart is seen as one.
"""

from typing import NamedTuple


class Name(NamedTuple):
    """A name, and the expression that gives it."""

    record: str
    expression: str


def _priority(expression: str) -> str:
    """The label `lane` is called `priority` there."""
    return _renamed(expression, "priority", "lane")


def _renamed(expression: str, label: str, ours: str) -> str:
    """With another label of the same value beside ours."""
    return f'label_replace({expression}, "{label}", "$1", "{ours}", "(.+)")'


def _histogram(record: str, ours: str) -> tuple[Name, ...]:
    return tuple(Name(f"{record}_{part}", f"{ours}_{part}") for part in ("bucket", "sum", "count"))


def _p95(histogram: str) -> str:
    return f"histogram_quantile(0.95, sum by (le) (rate({histogram}_bucket[$5m])))"


_TYPES = "gnomon_type_executions_total"
_SUCCEEDED = 'gnomon_executions_ended_total{outcome="succeeded"}'
_FAILED = 'gnomon_executions_ended_total{outcome=~"failed|timed_out|lost"}'
_READY = 'max(gnomon_tasks{state="ready"})'

NAMES = (
    Name("task_submitted_total", _priority("gnomon_submissions_total")),
    Name("task_executed_total", _renamed(_TYPES, "status", "outcome")),
    *_histogram("task_execution_duration_seconds", "gnomon_run_seconds"),
    *_histogram("task_scheduling_delay_seconds", "gnomon_start_delay_seconds"),
    Name("ready_queue_depth", _priority("sum by (lane) (gnomon_ready_tasks)")),
    Name("dlq_depth", 'max(gnomon_tasks{state="dead_lettered"})'),
    Name("tasks_claimed_per_second", "sum(rate(gnomon_executions_started_total[$1m]))"),
    Name("dead_lettered_tasks_per_minute", "sum(rate(gnomon_dead_letters_total[$5m])) * 60"),
    Name("p95_execution_latency", _p95("gnomon_run_seconds")),
    Name("pending_queue_depth", _READY),
    Name("tasks_recovered_by_cleanup", "sum(increase(gnomon_recoveries_total[$5m]))"),
    Name("tasks_scheduled_total", "gnomon_submissions_total"),
    Name("tasks_executed_total", _SUCCEEDED),
    Name("tasks_failed_total", _FAILED),
    *_histogram("execution_delay_seconds", "gnomon_start_delay_seconds"),
    Name("queue_depth", _READY),
    Name("worker_utilization", "sum(gnomon_slots_busy) / sum(gnomon_slots)"),
    Name("scheduler_tasks_scheduled_total", _renamed("gnomon_submissions_total", "type", "kind")),
    Name(
        "scheduler_tasks_executed_total",
        _renamed(_renamed(_TYPES, "handler", "task_type"), "status", "outcome"),
    ),
    *_histogram("scheduler_task_duration_seconds", "gnomon_run_seconds"),
    *_histogram("scheduler_task_delay_seconds", "gnomon_start_delay_seconds"),
    Name("scheduler_queue_size", _priority("sum by (lane) (gnomon_ready_tasks)")),
    Name("scheduler_active_workers", "sum(gnomon_slots_busy)"),
)
