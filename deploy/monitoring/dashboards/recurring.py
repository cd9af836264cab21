"""Recurring jobs: do they fire and start in time, and how do their runs end."""

from deploy.monitoring.expressions import quantile, quantiles, rate
from deploy.monitoring.panels import Dashboard, Panel, Row

_RUNS = '{kind="recurring"}'


def _last_day(counter: str) -> str:
    return f"sum(increase({counter}[24h]))"


DAY = Row(
    "The last 24 hours",
    [
        Panel(
            "Runs planned",
            "Fires that became runs.",
            "short",
            {"planned": _last_day("gnomon_cron_runs_planned_total")},
            "stat",
            6,
        ),
        Panel(
            "Fires missed",
            "Fires that nobody could start in time, and that got no run.",
            "short",
            {"missed": _last_day("gnomon_cron_fires_missed_total")},
            "stat",
            6,
            steps=(1, 1),
        ),
        Panel(
            "SLA missed",
            "Fires that did not start within the job's sla_seconds.",
            "short",
            {"missed": _last_day("gnomon_cron_sla_missed_total")},
            "stat",
            6,
            steps=(1, 1),
        ),
        Panel(
            "Dead letters",
            "Runs that failed for good.",
            "short",
            {"dead": _last_day(f"gnomon_dead_letters_total{_RUNS}")},
            "stat",
            6,
            steps=(1, 10),
        ),
    ],
)

TIME = Row(
    "In time",
    [
        Panel(
            "Start delay of runs",
            "From when a run was due to its first claim, without the wait of a queued run.",
            "s",
            quantiles("gnomon_cron_start_delay_seconds"),
            steps=(5, 10),
        ),
        Panel(
            "Planned and missed",
            "A second.",
            "ops",
            {
                "planned": rate("gnomon_cron_runs_planned_total"),
                "missed": rate("gnomon_cron_fires_missed_total"),
                "late for the SLA": rate("gnomon_cron_sla_missed_total"),
            },
        ),
        Panel(
            "Skipped",
            "Runs that the overlap policy skipped, a second.",
            "ops",
            {"{{reason}}": rate("gnomon_cron_runs_skipped_total", "reason")},
        ),
    ],
)

RUNS = Row(
    "Runs",
    [
        Panel(
            "Executions by outcome",
            "How executions of runs ended, a second.",
            "ops",
            {"{{outcome}}": rate(f"gnomon_executions_ended_total{_RUNS}", "outcome")},
            stacked=True,
        ),
        Panel(
            "Run time",
            "Of runs beside that of other tasks, p95.",
            "s",
            {"{{kind}}": quantile(0.95, "gnomon_run_seconds", "kind")},
        ),
        Panel(
            "Retries and dead letters",
            "Of runs, a second.",
            "ops",
            {
                "retries": rate(f"gnomon_retries_total{_RUNS}"),
                "dead letters": rate(f"gnomon_dead_letters_total{_RUNS}"),
            },
        ),
    ],
)

RECURRING = Dashboard(
    "gnomon-recurring",
    "Gnomon recurring jobs",
    "Do jobs fire and start in time, and how do their runs end.",
    [DAY, TIME, RUNS],
)
