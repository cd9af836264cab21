"""One tenant, from the endpoint that a key of its own reads."""

from deploy.monitoring.expressions import quantile, rate
from deploy.monitoring.panels import Dashboard, Panel, Row

_OF = '{tenant="$tenant"}'
_DELAY = "gnomon_tenant_start_delay_seconds"


def _tasks(state: str) -> str:
    return f'max(gnomon_tenant_tasks{{tenant="$tenant",state="{state}"}})'


def _delay(share: float) -> str:
    return quantile(share, _DELAY).replace("_bucket", f"_bucket{_OF}")


NOW = Row(
    "Now",
    [
        Panel(
            "Due and waiting",
            "Tasks that are due and have not started. Counted up to 10 000.",
            "short",
            {"ready": _tasks("ready")},
            "stat",
            6,
        ),
        Panel(
            "Running",
            "Tasks that run. Counted up to 10 000.",
            "short",
            {"running": _tasks("running")},
            "stat",
            6,
        ),
        Panel(
            "Dead letters",
            "Tasks that failed for good and wait for somebody. Counted up to 10 000.",
            "short",
            {"dead": _tasks("dead_lettered")},
            "stat",
            6,
            steps=(1, 100),
        ),
        Panel(
            "Oldest due",
            "How long the first due task has waited.",
            "s",
            {"oldest": f"max(gnomon_tenant_oldest_due_seconds{_OF})"},
            "stat",
            6,
            steps=(5, 60),
        ),
    ],
)

WORK = Row(
    "Work",
    [
        Panel(
            "Tasks a second",
            "Submitted, started, and those that became dead letters.",
            "ops",
            {
                "submitted": rate(f"gnomon_tenant_submissions_total{_OF}"),
                "started": rate(f"gnomon_tenant_executions_started_total{_OF}"),
                "dead letters": rate(f"gnomon_tenant_dead_letters_total{_OF}"),
            },
        ),
        Panel(
            "Executions by outcome",
            "How executions ended, a second.",
            "ops",
            {"{{outcome}}": rate(f"gnomon_tenant_executions_ended_total{_OF}", "outcome")},
            stacked=True,
        ),
        Panel(
            "Start delay",
            "From when a task was due to its claim.",
            "s",
            {"p50": _delay(0.5), "p95": _delay(0.95), "p99": _delay(0.99)},
        ),
        Panel(
            "Slots by priority",
            "How many slots the tenant takes: seconds of run time in a second.",
            "short",
            {"{{lane}}": rate(f"gnomon_tenant_run_seconds_total{_OF}", "lane")},
            stacked=True,
        ),
        Panel(
            "Executions by type",
            "Of the busiest types, a second.",
            "ops",
            {"{{task_type}}": rate(f"gnomon_tenant_type_executions_total{_OF}", "task_type")},
        ),
        Panel(
            "Slots by type",
            "Seconds of run time in a second, of the busiest types.",
            "short",
            {"{{task_type}}": rate(f"gnomon_tenant_type_run_seconds_total{_OF}", "task_type")},
        ),
    ],
)

TENANT = Dashboard(
    "gnomon-tenant",
    "Gnomon tenant",
    "One tenant: what it has submitted, what runs, how late it starts, what fails.",
    [NOW, WORK],
    {"tenant": "label_values(gnomon_tenant_tasks, tenant)"},
)
